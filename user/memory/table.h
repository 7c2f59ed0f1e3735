/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_TABLE_H
#define BPFPROF_MEMORY_TABLE_H

/* The table of resident memory for people: for each process its kinds of memory, and its holders. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct holders;
struct memory_account;
struct memory_monitor;
struct profile;

/* A number of bytes in 11 columns. sign: with one even if it is positive. */
void table_amount_signed(struct buf *dst, int64_t bytes, bool sign);
void table_amount(struct buf *dst, int64_t bytes);

/* rows: of each process, 0: all. The profile is that of the monitor, with names. 0 or -ENOMEM. */
int memory_table(struct buf *dst, const struct memory_monitor *monitor,
		 const struct profile *profile, size_t rows);
/* The part of one process. */
void memory_table_process(struct buf *dst, struct holders *holders,
			  const struct memory_account *account,
			  const struct memory_monitor *monitor, size_t rows);

#endif
