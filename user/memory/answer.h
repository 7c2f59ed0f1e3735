/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_ANSWER_H
#define BPFPROF_MEMORY_ANSWER_H

/* The memory that the watched processes held at one moment: sampled pages by stack, and an account of each process. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process_map.h"
#include "bpfprof.h"
#include "proc/rss.h"
#include "profile/aggregate.h"

struct resident;

/* A sampled page. */
struct held_row {
	struct aggregate_call_at at;
	uint32_t pid;
	uint64_t ts_ns; /* of its allocation */
	uint64_t bytes, pages; /* that it stands for */
};

/* The rest of a process, beside its rows. */
struct memory_account {
	struct process_key key;
	uint32_t own_pid;
	char name[BPFPROF_COMM_LEN];
	bool forked; /* its parent has the pages of old_bytes, too, also those in swap */
	struct proc_rss rss;
	uint64_t limit_bytes; /* of its cgroup, 0: none */
	uint64_t old_bytes, lost_bytes;
	uint64_t swap_bytes; /* in swap, less those of old_bytes */
	int64_t drift_bytes;
};

/* Rows of a process that have no stack. */
enum {
	MEMORY_LABEL_OLD,
	MEMORY_LABEL_LOST,
	MEMORY_LABEL_SWAPPED,
	MEMORY_LABEL_DRIFT,
	MEMORY_NR_LABELS
};

struct memory_label {
	const char *label;
	int64_t bytes;
};

/* All zero to begin with. The owner calls memory_answer_fini(). */
struct memory_answer {
	struct held_row *rows;
	size_t nr_rows, cap_rows;
	struct memory_account *accounts;
	size_t nr_accounts, cap_accounts;
	double variance; /* of the sum of the rows, in bytes squared */
	uint64_t anon_bytes, swap_bytes; /* of all processes: resident, and swapped out */
	uint64_t ns; /* the moment; 0: there was none */
};

/* Adds a row, or the account of a process. 0 or -ENOMEM. */
int memory_answer_add_row(struct memory_answer *answer, const struct held_row *row);
int memory_answer_add_account(struct memory_answer *answer, const struct resident *resident);
/* Copies src into dst, in place of its old content. 0 or -ENOMEM. */
int memory_answer_copy(struct memory_answer *dst, const struct memory_answer *src);
void memory_account_labels(const struct memory_account *account,
			   struct memory_label ret[MEMORY_NR_LABELS]);
void memory_answer_fini(struct memory_answer *answer);

#endif
