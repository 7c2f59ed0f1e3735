// SPDX-License-Identifier: Apache-2.0
#include "cuda/sites.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/functions.h"
#include "elf/image.h"
#include "test_elf_fixture.h"

TestSuite(gpu_sites, .timeout = 60);

#define NOTE(place, provider, name, arguments)                                                     \
	"	.section .note.stapsdt, \"\", @note\n"                                                   \
	"	.balign 4\n"                                                                             \
	"	.long 8, 9f - 8f, 3\n"                                                                   \
	"	.asciz \"stapsdt\"\n"                                                                    \
	"8:	.quad " place ", 0, semaphore\n"                                                   \
	"	.asciz \"" provider "\"\n	.asciz \"" name "\"\n	.asciz \"" arguments       \
	"\"\n"                                                                                     \
	"9:	.balign 4\n"

static const char code[] = "	.data\nsemaphore: .short 0, 0\n	.text\n"
			   "a:	nop\nb:	nop\nc:	nop\nd:	nop\n"
			   "	.section .note.GNU-stack, \"\", @progbits\n";

static int sites_of_layer(const char *notes, enum bpfprof_gpu_layer layer,
			  struct gpu_site sites[GPU_SITES_MAX], size_t *nr, uint32_t *bad)
{
	struct elf_image *img;
	char text[8192];
	int err;

	cr_assert_lt(snprintf(text, sizeof(text), "%s%s", code, notes), (int)sizeof(text));
	fixture_write("torch.S", text);
	fixture_run("gcc -shared -nostdlib -o torch.so torch.S");
	img = fixture_open("torch.so");
	err = gpu_sites_read(sites, nr, bad, img, layer);
	elf_image_free(img);
	return err;
}

static int sites_of(const char *notes, struct gpu_site sites[GPU_SITES_MAX], size_t *nr,
		    uint32_t *bad)
{
	return sites_of_layer(notes, GPU_LAYER_TORCH, sites, nr, bad);
}

static const char *name_of(const struct gpu_site *site)
{
	size_t nr;

	return gpu_functions(&nr)[site->wire.function].name;
}

/* The probes of libc10_cuda of PyTorch 2.6, and unusable ones. */
Test(gpu_sites, of_torch)
{
	static const char notes[] =
		NOTE("a", "pytorch", "malloc", "-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)")
			NOTE("b", "pytorch", "malloc", "-8@-16(%rbp) -1@%al -8@-24(%rbp) -8@%rcx")
				NOTE("c", "pytorch", "free", "-8@%rdi")
					NOTE("c", "pytorch", "free", "-8@%rdi") /* once more */
		NOTE("d", "pytorch", "free", "-8@$5") /* no address */
		NOTE("d", "pytorch", "malloc", "-8@%rax") /* no size */
		NOTE("d", "pytorch", "free", "-1@%al") /* nor is that one */
		NOTE("d", "pytorch", "operator_start", "8@%rax")
			NOTE("d", "python", "gc__start", "4@%edi");
	struct gpu_site sites[GPU_SITES_MAX];
	uint32_t bad;
	size_t nr;

	cr_assert_eq(sites_of(notes, sites, &nr, &bad), 0);
	cr_assert_eq(nr, 3);
	cr_expect_eq(bad, 3);
	cr_expect_str_eq(name_of(&sites[0]), "pytorch:malloc");
	cr_expect(sites[0].wire.va.kind == GPU_VALUE_REGISTER && sites[0].wire.va.reg == 0);
	cr_expect(sites[0].wire.bytes.kind == GPU_VALUE_REGISTER && sites[0].wire.bytes.reg == 14);
	cr_expect(sites[1].wire.va.kind == GPU_VALUE_MEMORY && sites[1].wire.va.reg == 5 &&
		  sites[1].wire.va.off == -16 && sites[1].wire.va.bytes == 8);
	cr_expect_eq(sites[1].wire.bytes.off, -24);
	cr_expect(sites[0].wire.stream.kind == GPU_VALUE_MEMORY &&
		  sites[0].wire.stream.off == -104);
	cr_expect_eq(sites[1].wire.stream.kind, GPU_VALUE_REGISTER);
	cr_expect(sites[0].wire.device.kind == GPU_VALUE_REGISTER &&
		  sites[0].wire.device.reg == 2 && sites[0].wire.device.bytes == 1);
	cr_expect_eq(sites[2].wire.device.kind, GPU_VALUE_NONE);
	cr_expect_eq(sites[1].off, sites[0].off + 1);
	cr_expect_str_eq(name_of(&sites[2]), "pytorch:free");
	cr_expect_eq(sites[2].wire.bytes.kind, GPU_VALUE_NONE);
	cr_expect_eq(sites[2].wire.stream.kind, GPU_VALUE_NONE);
	cr_expect(sites[0].semaphore_off && sites[0].semaphore_off == sites[2].semaphore_off);
}

Test(gpu_sites, of_others)
{
	struct gpu_site sites[GPU_SITES_MAX];
	uint32_t bad = 77;
	size_t nr = 77;

	cr_expect_eq(sites_of(NOTE("a", "python", "malloc", "8@%rdi"), sites, &nr, &bad), -ENODATA);
	cr_expect_eq(sites_of("", sites, &nr, &bad), -ENODATA);
	cr_expect(nr == 77 && bad == 77);
	cr_expect_eq(sites_of(NOTE("a", "pytorch", "malloc", ""), sites, &nr, &bad), 0);
	cr_expect(nr == 0 && bad == 1);
	cr_expect_eq(sites_of(NOTE("a", "pytorch", "free", "8@%rdi"), sites, &nr, &bad), 0);
	cr_expect(nr == 1 && bad == 1, "and no malloc");
}

/* The probes of python3.11 of Debian 12, and one without a generation. */
Test(gpu_sites, of_python)
{
	static const char notes[] = NOTE("a", "python", "gc__done", "-8@%r12")
		NOTE("b", "python", "gc__start", "-4@112(%rsp)")
			NOTE("c", "python", "line", "8@%rdi")
				NOTE("d", "pytorch", "free", "-8@%rdi");
	struct gpu_site sites[GPU_SITES_MAX];
	uint32_t bad;
	size_t nr;

	cr_assert_eq(sites_of_layer(notes, GPU_LAYER_PYTHON, sites, &nr, &bad), 0);
	cr_assert_eq(nr, 2);
	cr_expect_eq(bad, 0);
	cr_expect_str_eq(name_of(&sites[0]), "python:gc__done");
	cr_expect_eq(sites[0].wire.va.kind, GPU_VALUE_NONE);
	cr_expect_str_eq(name_of(&sites[1]), "python:gc__start");
	cr_expect(sites[1].wire.va.kind == GPU_VALUE_MEMORY && sites[1].wire.va.reg == 4 &&
		  sites[1].wire.va.off == 112 && sites[1].wire.va.bytes == 4);
	cr_assert_eq(sites_of_layer(NOTE("a", "python", "gc__done", "-8@%r12")
					    NOTE("b", "python", "gc__start", "-4@generation"),
				    GPU_LAYER_PYTHON, sites, &nr, &bad),
		     0);
	cr_expect(nr == 1 && bad == 1);
}

/* Values that the compiler knew; an address cannot be one, nor a value larger than the field. */
Test(gpu_sites, constants)
{
	static const char notes[] = NOTE("a", "python", "gc__done", "-8@$0")
		NOTE("b", "python", "gc__start", "-4@$2") NOTE("c", "python", "gc__start", "4@$-1");
	static const char torch[] = NOTE("a", "pytorch", "malloc", "-8@%rax -1@$0 -8@$4096 -8@%rcx")
		NOTE("b", "pytorch", "free", "-8@$0")
			NOTE("c", "pytorch", "malloc", "-8@%rax -1@$0 -8@$4294967296 -8@%rcx")
				NOTE("d", "pytorch", "malloc", "-8@$1 -1@$0 -8@$4096 -8@%rcx");
	struct gpu_site sites[GPU_SITES_MAX];
	uint32_t bad;
	size_t nr;

	cr_assert_eq(sites_of_layer(notes, GPU_LAYER_PYTHON, sites, &nr, &bad), 0);
	cr_assert(nr == 3 && bad == 0);
	cr_expect(sites[1].wire.va.kind == GPU_VALUE_CONSTANT && sites[1].wire.va.off == 2 &&
		  sites[1].wire.va.bytes == 4);
	cr_expect(sites[2].wire.va.kind == GPU_VALUE_CONSTANT && sites[2].wire.va.off == -1);
	cr_assert_eq(sites_of(torch, sites, &nr, &bad), 0);
	cr_assert(nr == 2 && bad == 2);
	cr_expect(sites[0].wire.bytes.kind == GPU_VALUE_CONSTANT &&
		  sites[0].wire.bytes.off == 4096 && sites[0].wire.bytes.bytes == 8);
	cr_expect(sites[1].wire.va.kind == GPU_VALUE_CONSTANT && sites[1].wire.va.off == 0);
}
