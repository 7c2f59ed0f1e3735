// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_read.h"

Test(file_read, at_reads_up_to_the_end_of_the_file)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	char text[8] = "";

	cr_assert_eq(write(fd, "012345", 6), 6);
	cr_expect_eq(file_read_at(fd, text, 3, 1), 3);
	cr_expect_str_eq(text, "123");
	cr_expect_eq(file_read_at(fd, text, 7, 4), 2, "only the rest of the file");
	cr_expect_arr_eq(text, "453", 3, "the other bytes stay");
	cr_expect_eq(file_read_at(fd, text, 1, 6), 0, "behind the end");
	close(fd);
	cr_expect_eq(file_read_at(fd, text, 1, 0), -EBADF);
}

Test(file_read, text_is_cut_and_ends_with_a_nul)
{
	char path[] = "/tmp/bpfprof-file-read-XXXXXX", text[4];
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "max 100\n", 8), 8);
	cr_expect_eq(file_read_text(text, sizeof(text), path), 3);
	cr_expect_str_eq(text, "max");
	close(fd);
	unlink(path);
	cr_expect_eq(file_read_text(text, sizeof(text), path), -ENOENT);
	cr_expect_str_eq(text, "", "nothing of an earlier text is left");
}

/* A folder cannot be read, a link is not followed, and a FIFO without a writer does not block. */
Test(file_read, text_of_other_files, .timeout = 30)
{
	char folder[] = "/tmp/bpfprof-file-read-XXXXXX", path[64], text[4];

	cr_assert(mkdtemp(folder));
	cr_expect_eq(file_read_text(text, sizeof(text), folder), -EISDIR);
	snprintf(path, sizeof(path), "%s/link", folder);
	cr_assert_eq(symlink("/proc/self/stat", path), 0);
	cr_expect_eq(file_read_text(text, sizeof(text), path), -ELOOP);
	unlink(path);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(file_read_text(text, sizeof(text), path), 0);
	cr_expect_str_eq(text, "");
	unlink(path);
	rmdir(folder);
}
