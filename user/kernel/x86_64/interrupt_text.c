// SPDX-License-Identifier: Apache-2.0
#include "kernel/interrupt_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbol/kallsyms.h"
#include "bpfprof.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define SOFTIRQ_BYTES 16384 /* upper limit for the text of kernel/softirq.c */
#define IRQ_GAP_BYTES 256 /* between entries of interrupts */
#define FRED_BYTES 4096 /* upper limit for the text of entry_64_fred.S */

bool interrupt_text_has_fred(const char *cpuinfo_path)
{
	__cleanup(close_file) FILE *file = fopen(cpuinfo_path, "re");
	__cleanup(free_mem) char *line = NULL;
	size_t cap = 0;
	const char *at;

	while (file && getline(&line, &cap, file) >= 0) {
		if (strncmp(line, "flags", 5))
			continue;
		for (at = strstr(line, " fred"); at; at = strstr(at + 1, " fred"))
			if (at[5] == ' ' || at[5] == '\n')
				return true;
		return false; /* all CPUs have the same features */
	}
	return false;
}

/*
 * The timer's interrupt depends on the hypervisor (apic_timer, hyperv_stimer0, xen_hvm_callback
 * ...). All entries lie one after another, each some dozen bytes long (asm/idtentry.h).
 */
static void find_idt(struct bpfprof_cfg *cfg, const char *path)
{
	struct kallsyms_range ranges[] = { { .name = "do_softirq" },
					   { .name = "asm_sysvec_", .prefix = true },
					   { .name = "asm_common_interrupt" },
					   { .name = "do_softirq.part.0", .optional = true } };
	const struct kallsyms_range *part = &ranges[3];

	if (kallsyms_find(path, ranges, ARRAY_SIZE(ranges)))
		return;
	cfg->softirq_start = ranges[0].start;
	cfg->softirq_end = ranges[0].end;
	/*
	 * Compilers may split do_softirq(); the text between the parts belongs to softirq.c, too.
	 */
	if (part->start && part->start < cfg->softirq_start &&
	    cfg->softirq_start - part->start < SOFTIRQ_BYTES)
		cfg->softirq_start = part->start;
	cfg->irq_start = ranges[1].start;
	cfg->irq_end = ranges[1].end;
	if (ranges[2].start && ranges[2].start < cfg->irq_start &&
	    cfg->irq_start - ranges[2].end < IRQ_GAP_BYTES)
		cfg->irq_start = ranges[2].start;
}

/*
 * With FRED two entries serve all events: one for user mode, and behind it one for the kernel,
 * followed by the entry of KVM's interrupts (arch/x86/entry/entry_64_fred.S, since Linux 6.9). The
 * return address of the call in the first one may have a label of its own (asm_fred_exit_user).
 */
static void find_fred(struct bpfprof_cfg *cfg, const char *path)
{
	struct kallsyms_range ranges[] = { { .name = "asm_fred_", .prefix = true },
					   { .name = "asm_fred_entrypoint_kernel" } };
	const struct kallsyms_range *all = &ranges[0], *kernel = &ranges[1];

	if (kallsyms_find(path, ranges, ARRAY_SIZE(ranges)) || !kernel->start ||
	    kernel->start - all->start > FRED_BYTES)
		return;
	cfg->fred_user_start = all->start;
	cfg->fred_user_end = kernel->start;
	cfg->fred_kernel_start = kernel->start;
	/* A symbol with the same name elsewhere must not make all text between them an entry. */
	cfg->fred_kernel_end = all->end - all->start > FRED_BYTES ? kernel->end : all->end;
}

void interrupt_text_find(struct bpfprof_cfg *cfg, const char *kallsyms_path, bool fred)
{
	find_idt(cfg, kallsyms_path);
	if (fred)
		find_fred(cfg, kallsyms_path);
}

void interrupt_text_find_wakes(struct bpfprof_cfg *cfg, const char *kallsyms_path)
{
	/* Compilers may merge two of these functions. */
	struct kallsyms_range ranges[] = { { .name = "irqentry_exit" },
					   { .name = "irqentry_exit_to_user_mode" },
					   { .name = "try_to_wake_up" } };

	if (kallsyms_find(kallsyms_path, ranges, ARRAY_SIZE(ranges)))
		return;
	cfg->irq_exit_start = ranges[0].start;
	cfg->irq_exit_end = ranges[0].end;
	cfg->irq_exit_user_start = ranges[1].start;
	cfg->irq_exit_user_end = ranges[1].end;
	cfg->wake_start = ranges[2].start;
	cfg->wake_end = ranges[2].end;
}
