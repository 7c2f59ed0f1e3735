/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PICKLE_H
#define BPFPROF_FORMATS_PICKLE_H

/*
 * Writes a value as Python's pickle, protocol 2 (Lib/pickletools.py describes it), to a stream: the writer
 * keeps nothing of it. It makes dicts, lists, pairs, numbers, booleans and texts, with the opcodes that
 * the unpickler of PyTorch's memory viewer has too. A value that comes again is written once and recalled
 * by its number. The caller checks the stream for errors.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

struct pickle {
	FILE *out;
	uint32_t nr_kept;
	struct buf text;
};

void pickle_begin(struct pickle *pickle, FILE *out);
/* Ends the pickle after its one value. 0 or -ENOMEM. */
int pickle_end(struct pickle *pickle);

/* Between both each key, a text, is followed by its value. */
void pickle_dict_open(struct pickle *pickle);
void pickle_dict_close(struct pickle *pickle);
/* After it each value is followed by pickle_list_add(). */
void pickle_list_open(struct pickle *pickle);
void pickle_list_add(struct pickle *pickle);

void pickle_number(struct pickle *pickle, uint64_t value);
void pickle_bool(struct pickle *pickle, bool value);
void pickle_pair(struct pickle *pickle, uint64_t first, uint64_t second);
/* Made safe and cut as text_add() does (base/text.h). */
void pickle_text(struct pickle *pickle, const char *text);

/* Keeps the value that was just written. Its number for pickle_recall(), from 1 on. */
uint32_t pickle_keep(struct pickle *pickle);
/* Writes a kept value again. */
void pickle_recall(struct pickle *pickle, uint32_t nr);

#endif
