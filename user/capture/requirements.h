/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_REQUIREMENTS_H
#define BPFPROF_CAPTURE_REQUIREMENTS_H

/*
 * The features of this machine that a recording needs, each probed for real, and the remedy if one is
 * missing. `bpfprof doctor` shows all of them; `bpfprof record` asks for the first failure before it
 * loads anything, and for a longer check if the load fails.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;

enum requirement_status { REQUIREMENT_OK, REQUIREMENT_WARN, REQUIREMENT_FAIL };

struct requirement {
	const char *name; /* static, snake_case */
	enum requirement_status status;
	char *found; /* one line */
	char *remedy; /* one line; NULL if ok */
};

struct requirements {
	struct requirement *items;
	size_t nr;
	int error; /* sticky: 0 or -ENOMEM */
};

/* All requirements. 0 or -ENOMEM; needs requirements_fini() in both cases. */
int requirements_probe(struct requirements *ret, const char *host_root);
/* Adds the one about a process that the user named. 0 or -ENOMEM. */
int requirements_probe_target(struct requirements *reqs, pid_t pid);
void requirements_fini(struct requirements *reqs);
/* Adds one; remedy may be NULL, both texts are copied. reqs->error keeps a failure. */
void requirements_add(struct requirements *reqs, const char *name, enum requirement_status status,
		      const char *remedy, const char *found, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * Only the features that record cannot work without, quick enough for every start: 0, or -EPERM or
 * -EOPNOTSUPP with one sentence without newline in message (the missing feature and its remedy), or
 * -ENOMEM.
 */
int requirements_check(struct buf *message);

/*
 * The same after a BPF program failed to load, with the probes that need the
 * kernel's BTF too (10 ms). 0: no probe failed.
 */
int requirements_explain(struct buf *message);

/*
 * From now on libbpf's own messages go to log_debug(): with --verbose its warnings show, among
 * them the verifier's words, and after libbpf_log_all() the thousand lines of a successful load too.
 */
void libbpf_log_init(void);
void libbpf_log_all(void);

#endif
