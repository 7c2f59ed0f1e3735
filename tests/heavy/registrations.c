// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels that files register, as bpfprof reads them. argv: files. Prints for each
 * "file PATH", "kernel HOST NAME SHOWN" (host function in hexadecimal, "-" for several names; the
 * last field has blanks), and "end KERNELS BAD SECONDS", of CPU time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cuda/registrations.h"
#include "elf/image.h"
#include "symbol/demangle.h"

static char name[REGISTRATIONS_MAX_NAME];

static int name_read(struct elf_image *img, uint64_t rva)
{
	uint64_t off;
	size_t i;

	if (elf_image_rva_to_off(img, rva, &off))
		return -EBADMSG;
	for (i = 0; i < sizeof(name); i++) {
		if (elf_image_read(img, off + i, &name[i], 1))
			return -EBADMSG;
		if (!name[i])
			return 0;
	}
	return -E2BIG;
}

static int print_all(struct elf_image *img)
{
	char shown[DEMANGLE_MAX_OUTPUT];
	struct registrations_reader *reader;
	struct registrations regs = { 0 };
	uint64_t cpu_ns = time_thread_cpu_ns();
	size_t i;
	int err = registrations_reader_new(&reader);

	if (err)
		return err;
	err = registrations_read(reader, img, UINT64_MAX, &regs);
	cpu_ns = time_thread_cpu_ns() - cpu_ns;
	for (i = 0; i < regs.nr && !err; i++) {
		if (!regs.kernels[i].name) {
			printf("kernel %" PRIx64 " - -\n", regs.kernels[i].host);
			continue;
		}
		err = name_read(img, regs.kernels[i].name);
		if (err)
			break;
		demangle(name, shown);
		printf("kernel %" PRIx64 " %s %s\n", regs.kernels[i].host, name, shown);
	}
	if (!err)
		printf("end %zu %" PRIu32 " %.3f\n", regs.nr, regs.nr_bad, (double)cpu_ns / 1e9);
	registrations_fini(&regs);
	registrations_reader_free(reader);
	return err;
}

int main(int argc, char **argv)
{
	struct elf_image *img;
	int i, err, status = 0;

	for (i = 1; i < argc; i++) {
		printf("file %s\n", argv[i]);
		err = elf_image_open_fd(&img, open(argv[i], O_RDONLY | O_CLOEXEC));
		if (!err) {
			err = print_all(img);
			elf_image_free(img);
		}
		if (err) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-err));
			status = 1;
		}
	}
	return status;
}
