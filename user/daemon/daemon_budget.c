// SPDX-License-Identifier: Apache-2.0
/* --max-memory: the parts of the daemon share it. */
#include "daemon/daemon.h"

#include <unistd.h>

#include "base/log.h"

/* Fixed memory: BPF maps, processes, images, symbols of one file at a time. */
#define FIXED_BYTES (46ULL << 20)
#define MEMORY_BYTES (64ULL << 20) /* the default of --max-memory */
#define FIXED_CPUS 32
#define CPU_BYTES (512ULL << 10) /* of each possible CPU above those */
#define PUSH_BYTES (6ULL << 20) /* libcurl, and the certificates that it trusts */
#define NOTIFY_BYTES (2ULL << 20) /* the notifications that wait */
#define PAGES_BYTES (16ULL << 20) /* --memory: its maps, the pages of the sample, their stacks */
#define CALLS_BYTES (10ULL << 20) /* --gpu: its maps, and the tables of calls */
#define DEATHS_BYTES (4ULL << 20) /* --watch: names and stacks of processes, deaths that wait */
#define WAITS_BYTES (14ULL << 20) /* --wall: its maps, and reading the stacks of threads */
#define VARIABLE_MIN_BYTES (2ULL << 20)

/*
 * --max-memory without the fixed part is divided: a half is for the stacks of the running interval
 * and of the one that is being written, a quarter for code objects. The rest is for the writer,
 * which needs as much as the stacks if no two of them are alike: a half of it for names.
 */
void daemon_memory_share(struct daemon *daemon)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t of_cpus = cpus > FIXED_CPUS ? (uint64_t)(cpus - FIXED_CPUS) * CPU_BYTES : 0;
	uint64_t fixed = FIXED_BYTES + of_cpus, bytes = daemon->options->max_memory;

	if (!bytes)
		bytes = MEMORY_BYTES + of_cpus +
			(daemon->options->capture.session.pages ? PAGES_BYTES : 0);
	if (daemon->options->push.url || daemon->options->notify.url)
		fixed += PUSH_BYTES;
	if (daemon->options->notify.url)
		fixed += NOTIFY_BYTES;
	if (daemon->options->capture.session.gpu)
		fixed += CALLS_BYTES;
	if (daemon->options->capture.session.pages)
		fixed += PAGES_BYTES;
	if (daemon->options->capture.session.deaths)
		fixed += DEATHS_BYTES;
	if (daemon->options->capture.session.waits)
		fixed += WAITS_BYTES;
	if (bytes < fixed + VARIABLE_MIN_BYTES) {
		log_warn("--max-memory: raised to %llu MiB, the minimum here",
			 (unsigned long long)(fixed + VARIABLE_MIN_BYTES) >> 20);
		bytes = fixed + VARIABLE_MIN_BYTES;
	}
	daemon->aggregate_bytes = (bytes - fixed) / 2;
	if (daemon->options->tokens.nr ||
	    daemon->options->socket) /* each of two profiles takes a quarter of the rest */
		daemon->aggregate_bytes -= daemon->aggregate_bytes / 3;
	daemon->options->capture.codes_bytes = (bytes - fixed) / 4;
	daemon->options->capture.name_bytes = (bytes - fixed) / 8;
	daemon->writer_bytes = (bytes - fixed) / 4;
	daemon->sampling_bytes = bytes - daemon->writer_bytes;
}
