// SPDX-License-Identifier: Apache-2.0
#include "kernel/interrupt_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "bpfprof.h"
#include "test_elf_fixture.h"

TestSuite(interrupt_text, .timeout = 60);

#define IDT                                                                                        \
	"ffffffff81000d40 T asm_common_interrupt\n"                                                \
	"ffffffff81000d80 T asm_spurious_interrupt\n"                                              \
	"ffffffff81000db0 T asm_sysvec_error_interrupt\n"                                          \
	"ffffffff81000df0 T asm_sysvec_apic_timer_interrupt\n"                                     \
	"ffffffff81000e50 T asm_load_gs_index\n"                                                   \
	"ffffffff81100000 t do_softirq.part.0\n"                                                   \
	"ffffffff81100080 T __local_bh_enable_ip\n"                                                \
	"ffffffff81100200 T do_softirq\n"                                                          \
	"ffffffff81100240 T raise_softirq\n"

static struct bpfprof_cfg find(const char *text, bool fred)
{
	struct bpfprof_cfg cfg = { .period_ns = 1 };
	char *path;

	fixture_write("kallsyms", text);
	path = fixture_path("kallsyms");
	interrupt_text_find(&cfg, path, fred);
	free(path);
	cr_assert_eq(cfg.period_ns, 1);
	return cfg;
}

static void expect_idt(const struct bpfprof_cfg *cfg)
{
	cr_expect(cfg->irq_start == 0xffffffff81000d40 && cfg->irq_end == 0xffffffff81000e50);
	cr_expect(cfg->softirq_start == 0xffffffff81100000 &&
		  cfg->softirq_end == 0xffffffff81100240);
}

/* The entry of the kernel's own begins 256 bytes behind the one of user mode (Linux 6.9). */
Test(interrupt_text, fred)
{
	static const char text[] = IDT "ffffffff81e01000 T asm_fred_entrypoint_user\n"
				       "ffffffff81e0102d T asm_fred_exit_user\n"
				       "ffffffff81e01100 T asm_fred_entrypoint_kernel\n"
				       "ffffffff81e01160 T asm_fred_entry_from_kvm\n"
				       "ffffffff81e011e0 T __pfx_entry_SYSCALL_64\n"
				       "ffffffff81e01200 T entry_SYSCALL_64\n";
	struct bpfprof_cfg cfg = find(text, true);

	expect_idt(&cfg);
	cr_expect(cfg.fred_user_start == 0xffffffff81e01000 &&
		  cfg.fred_user_end == 0xffffffff81e01100);
	cr_expect(cfg.fred_kernel_start == 0xffffffff81e01100 &&
		  cfg.fred_kernel_end == 0xffffffff81e011e0);
	/* Built in, but not what this processor does. */
	cfg = find(text, false);
	expect_idt(&cfg);
	cr_expect(!cfg.fred_user_start && !cfg.fred_kernel_end);
}

static const struct {
	const char *text;
	uint64_t kernel_end;
} odd[] = {
	{ IDT, 0 },
	{ IDT "ffffffff81e01000 T asm_fred_entrypoint_user\n"
	      "ffffffff81e01200 T entry_SYSCALL_64\n",
	  0 },
	/* A namesake far away. */
	{ IDT "ffffffff81e01000 T asm_fred_entrypoint_user\n"
	      "ffffffff81e01100 T asm_fred_entrypoint_kernel\n"
	      "ffffffff81e01180 T entry_SYSCALL_64\n"
	      "ffffffff81f00000 T asm_fred_namesake\n"
	      "ffffffff81f00080 T last\n",
	  0xffffffff81e01180 },
	{ IDT "ffffffff81d00000 T asm_fred_namesake\n"
	      "ffffffff81e01000 T asm_fred_entrypoint_user\n"
	      "ffffffff81e01100 T asm_fred_entrypoint_kernel\n"
	      "ffffffff81e01180 T entry_SYSCALL_64\n",
	  0 },
};

Test(interrupt_text, fred_is_not_as_expected)
{
	size_t i;

	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct bpfprof_cfg cfg = find(odd[i].text, true);

		expect_idt(&cfg);
		cr_expect_eq(cfg.fred_kernel_end, odd[i].kernel_end, "%zu", i);
		cr_expect_eq(cfg.fred_user_start != 0, odd[i].kernel_end != 0, "%zu", i);
	}
}

Test(interrupt_text, nothing_to_be_read)
{
	struct bpfprof_cfg cfg = find("0000000000000000 T do_softirq\n", true);

	cr_expect(!cfg.irq_start && !cfg.softirq_end && !cfg.fred_user_start);
	interrupt_text_find(&cfg, "/nonexistent", true);
	cr_expect(!cfg.irq_start && !cfg.fred_user_start);
}

static const struct {
	const char *text;
	bool fred;
} processors[] = {
	{ "processor\t: 0\nflags\t\t: fpu vme fred lkgs\nbugs\t\t:\n", true },
	{ "flags\t\t: fpu vme fred\nprocessor\t: 1\nflags\t\t: fpu\n", true },
	{ "flags\t\t: fpu vme fredx afred alfred\nflags\t\t: fred\n", false },
	{ "flags\t\t: fredx fred\n", true },
	{ "model name\t: fred \nfeatures\t: fred \n", false },
	{ "", false },
};

Test(interrupt_text, processor_with_fred)
{
	size_t i;
	char *path;

	for (i = 0; i < sizeof(processors) / sizeof(processors[0]); i++) {
		fixture_write("cpuinfo", processors[i].text);
		path = fixture_path("cpuinfo");
		cr_expect_eq(interrupt_text_has_fred(path), processors[i].fred, "%zu", i);
		free(path);
	}
	cr_expect_not(interrupt_text_has_fred("/nonexistent"));
}

Test(interrupt_text, where_threads_wake_others)
{
	static const char text[] = "ffffffff810aa610 T __pfx_try_to_wake_up\n"
				   "ffffffff810aa620 T try_to_wake_up\n"
				   "ffffffff810aad00 T wake_up_process\n" IDT
				   "ffffffff811173f0 T exit_to_user_mode_loop\n"
				   "ffffffff821f5a60 T irqentry_exit_to_user_mode\n"
				   "ffffffff821f5c00 T __pfx_irqentry_exit\n"
				   "ffffffff821f5c10 T irqentry_exit\n"
				   "ffffffff821f5d00 T irqentry_nmi_enter\n";
	struct bpfprof_cfg cfg = { 0 };
	char *path;

	fixture_write("kallsyms", text);
	path = fixture_path("kallsyms");
	interrupt_text_find_wakes(&cfg, path);
	free(path);
	cr_expect(cfg.wake_start == 0xffffffff810aa620 && cfg.wake_end == 0xffffffff810aad00);
	cr_expect(cfg.irq_exit_user_start == 0xffffffff821f5a60 &&
		  cfg.irq_exit_user_end == 0xffffffff821f5c00);
	cr_expect(cfg.irq_exit_start == 0xffffffff821f5c10 &&
		  cfg.irq_exit_end == 0xffffffff821f5d00);
	cfg = (struct bpfprof_cfg){ 0 };
	interrupt_text_find_wakes(&cfg, "/nonexistent");
	cr_expect(!cfg.wake_start && !cfg.irq_exit_start);
}
