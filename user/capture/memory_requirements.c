// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_requirements.h"

#include "capture/bpf_features.h"
#include "capture/requirements.h"
#include "kernel/probes/alloc_probes.h"

#define ANOTHER_KERNEL "a kernel built with CONFIG_TRACEPOINTS; all but memory works without"
#define NO_KILLS "none is needed; memory of a killed process is shown, without the kill"

static void add_resident(struct requirements *reqs)
{
	static const struct {
		const char *name, *of;
	} needed[] = { { "kmem:mm_page_alloc", "mm_page_alloc" },
		       { "kmem:mm_page_free", "mm_page_free" } },
	  kills[] = { { "signal:signal_generate", "signal_generate" },
		      { "oom:mark_victim", "mark_victim" } };

	for (int i = 0; i < 2; i++)
		if (!bpf_has_raw_tracepoint(needed[i].of)) {
			requirements_add(
				reqs, "resident_memory", REQUIREMENT_WARN, ANOTHER_KERNEL,
				"bpfprof memory cannot watch: the kernel lacks the tracepoint %s",
				needed[i].name);
			return;
		}
	for (int i = 0; i < 2; i++)
		if (!bpf_has_raw_tracepoint(kills[i].of)) {
			requirements_add(reqs, "resident_memory", REQUIREMENT_WARN, NO_KILLS,
					 "the kernel lacks the tracepoint %s", kills[i].name);
			return;
		}
	requirements_add(reqs, "resident_memory", REQUIREMENT_OK, NULL, "can be watched by stack");
}

static void add_allocations(struct requirements *reqs)
{
	const char *remedy, *lack = alloc_probes_lack(&remedy);

	if (lack)
		requirements_add(reqs, "allocations", REQUIREMENT_WARN, remedy,
				 "bpfprof memory --allocations cannot watch: %s", lack);
	else
		requirements_add(reqs, "allocations", REQUIREMENT_OK, NULL,
				 "calls of memory allocators can be watched");
}

void memory_requirements_add(struct requirements *reqs)
{
	add_resident(reqs);
	add_allocations(reqs);
}
