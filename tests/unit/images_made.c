// SPDX-License-Identifier: Apache-2.0
#include "images_made.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/deadline.h"
#include "test_elf_fixture.h"

atomic_int fake_remote, hang_reads, fail_reads;

sem_t read_gate;

ssize_t pread(int fd, void *buf, size_t len, off_t off)
{
	if (atomic_load(&fail_reads)) {
		errno = atomic_load(&fail_reads);
		return -1;
	}
	if (atomic_load(&hang_reads))
		while (sem_wait(&read_gate))
			;
	return syscall(SYS_pread64, fd, buf, len, off);
}

int fstatfs(int fd, struct statfs *ret)
{
	int err = (int)syscall(SYS_fstatfs, fd, ret);

	if (!err && atomic_load(&fake_remote))
		ret->f_type = OVERLAYFS_SUPER_MAGIC;
	return err;
}

struct deadline_runner *runner;

struct images *images;

void images_make(uint32_t cap, const char *root)
{
	sem_init(&read_gate, 0, 0);
	if (!runner)
		cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(images_new(&images, runner, root, cap), 0);
}

void images_setup(void)
{
	images_make(64, NULL);
}

void images_teardown(void)
{
	images_free(images);
	deadline_runner_free(runner);
	images = NULL;
	runner = NULL;
}

uint32_t image_kernel_dev(dev_t dev)
{
	return major(dev) << 20 | minor(dev);
}

TestSuite(images, .init = images_setup, .fini = images_teardown);

struct bpfprof_vma image_vma_of(const char *file)
{
	struct bpfprof_vma vma = { .start = 0x1000, .end = 0x2000 };
	uint32_t generation[2] = { 0 };
	char *path = fixture_path(file);
	struct stat st;
	int fd;

	cr_assert_eq(stat(path, &st), 0, "%s", path);
	vma.ino = st.st_ino;
	vma.dev = image_kernel_dev(st.st_dev);
	vma.size = (uint64_t)st.st_size;
	vma.mtime_sec = st.st_mtim.tv_sec;
	fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0 && !ioctl(fd, FS_IOC_GETVERSION, generation))
		vma.ino_gen = generation[0];
	if (fd >= 0)
		close(fd);
	free(path);
	return vma;
}

struct image *image_add_at(const struct bpfprof_vma *vma, const char *file)
{
	char *path = fixture_path(file);
	uint32_t id = images_add(images, vma, path, 1);

	free(path);
	return images_get(images, id);
}

struct image *image_add(const char *file)
{
	struct bpfprof_vma vma = image_vma_of(file);

	return image_add_at(&vma, file);
}

struct image *image_add_remote(const char *file)
{
	struct bpfprof_vma vma = image_vma_of(file);

	vma.dev = 0xfff00001;
	return image_add_at(&vma, file);
}

int image_nr_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int nr = 0;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	closedir(dir);
	return nr;
}

bool can_open_by_inode(void)
{
	char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	struct file_handle *handle = (struct file_handle *)room;
	int mount_id, fd, root;

	handle->handle_bytes = MAX_HANDLE_SZ;
	root = open(fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (name_to_handle_at(root, "", handle, &mount_id, AT_EMPTY_PATH)) {
		close(root);
		return false;
	}
	fd = open_by_handle_at(root, handle, O_PATH | O_CLOEXEC);
	close(root);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && handle->handle_type == 1; /* ext4 and others of its form */
}
