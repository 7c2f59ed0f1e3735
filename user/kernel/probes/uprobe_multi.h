/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_UPROBE_MULTI_H
#define BPFPROF_KERNEL_PROBES_UPROBE_MULTI_H

/*
 * Links of one BPF program to many places in a file: BPF_TRACE_UPROBE_MULTI, Linux 6.6
 * (89ae89f53d20), by the system call itself, since libbpf has it from 1.3 on only. A link is for
 * all processes that map the file now or later, or for one process. It needs only CAP_BPF and
 * CAP_PERFMON.
 *
 * Session links (BPF_TRACE_UPROBE_SESSION, Linux 6.13) run one program at both ends of a call. It
 * says at the begin whether the end matters, so they are for functions with very many calls, most of
 * which do not. For GPU calls they are not used: they save 0.15 to 0.25 us of 1.4 us at calls whose
 * return is hooked, which are few and long.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;

struct uprobe_multi {
	int prog_fd;
	const char *path; /* of a regular file; /proc/self/fd/N will do */
	const uint64_t *offsets; /* in the file */
	const uint64_t *cookies;
	const uint64_t
		*semaphores; /* numbers in the file that count the attached probes; or NULL */
	size_t nr;
	bool returns; /* the places are where the functions return */
	bool session; /* both ends; the program was prepared for that */
	pid_t pid; /* one process, as this program sees it; 0: all that map the file */
};

/* Does this kernel have such links, and may this program make them? */
bool uprobe_multi_probe(void);
/* The same for session links. */
bool uprobe_multi_has_sessions(void);

/*
 * Do programs under a seccomp filter survive a hook of a function's return? Since Linux 6.11 the
 * hook is a system call (ff474a78cef5), which filters do not know; since 6.14, and in later stable
 * versions, filters do not see it (seccomp: passthrough uretprobe systemcall). Tried on a child
 * process. 1, 0, or -errno if it cannot be tried.
 */
int uprobe_multi_returns_are_safe(void);

/*
 * Is a link of one process in force in all its threads, and in no other process? Kernels before
 * 6.12 took the first thread for the process (46ba0e49b642, 900f362e2062 and their backports).
 * Tried on a child process. 1, 0, or -errno if it cannot be tried.
 */
int uprobe_multi_pids_work(void);

/*
 * The time that a probe takes at the begin of a call, in ns, by calls of our own; 0: it cannot be
 * measured. The program, which runs then with that cookie, was prepared for a session or not.
 */
uint64_t uprobe_multi_call_ns(int prog_fd, uint64_t cookie, bool session);

/*
 * Prepares a program, before it is loaded, for such links or for a tail call from one with such
 * links.
 */
void uprobe_multi_prepare(struct bpf_program *prog);
/* The same for session links. */
void uprobe_multi_prepare_session(struct bpf_program *prog);
/*
 * A descriptor, whose close detaches; or -errno: -EINVAL from kernels without such links. May
 * block.
 */
int uprobe_multi_attach(const struct uprobe_multi *probes);
/*
 * Has the link of one process lost it? A link belongs to the first thread, and when another thread executes a
 * program, that one becomes the first. True also before Linux 6.8, which does not say:
 * a new link is right there, too.
 */
bool uprobe_multi_is_orphan(int link_fd);

#endif
