/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUSE file system with one file, served from a copy in memory until SIGUSR1;
 * then requests are not read any more (argv[3] "unread") or read and never
 * answered ("unanswered"). "slow" answers each read of the file after so many
 * milliseconds; "moody" reads no requests for half a second, again and again at
 * random moments. The file libhang.so has further names lib0 to lib9999, each with
 * an inode of its own.
 * MOUNTPOINT FILE MODE [MILLISECONDS]. Says "mounted" and "silent". Ends, and unmounts, with SIGTERM.
 * Speaks the protocol of linux/fuse.h; exit status 77: no /dev/fuse or no mount.
 */
#define TARGET_MAIN
#include "target.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define FILE_NODE 2
#define MAX_NAMES 10000
#define SULK_MS 500
#define CALM_MS 1500 /* at most */

static volatile sig_atomic_t silent, done;
static unsigned char request[1 << 18];
static unsigned char *content;
static size_t content_len;
static unsigned int delay_ms; /* of a read */

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		silent = 1;
	else
		done = 1;
}

static void fill_attr(struct fuse_attr *attr, uint64_t node)
{
	memset(attr, 0, sizeof(*attr));
	attr->ino = node;
	attr->nlink = 1;
	attr->mode = node >= FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755;
	attr->size = node >= FILE_NODE ? content_len : 0;
	attr->blksize = 4096;
}

static void reply(int fd, uint64_t unique, int error, const void *data, size_t len)
{
	struct fuse_out_header header = { (uint32_t)(sizeof(header) + len), error, unique };
	struct iovec iov[2] = { { &header, sizeof(header) }, { (void *)(uintptr_t)data, len } };

	if (writev(fd, iov, len ? 2 : 1) < 0)
		BARRIER(); /* the asker is gone */
}

/* The node of a file, 0: none has that name. */
static uint64_t node_of(const char *name)
{
	unsigned int number;

	if (!strcmp(name, "libhang.so"))
		return FILE_NODE;
	return sscanf(name, "lib%u", &number) == 1 && number < MAX_NAMES ? FILE_NODE + 1 + number
									 : 0;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Is it a moment in which a moody server reads nothing? */
static int sulks(void)
{
	static long until_ms, from_ms;
	long now = now_ms();

	if (now >= until_ms) {
		from_ms = now + random() % CALM_MS;
		until_ms = from_ms + SULK_MS;
	}
	return now >= from_ms;
}

static void serve(int fd)
{
	const struct fuse_in_header *in = (const struct fuse_in_header *)request;
	const void *body = in + 1;
	union {
		struct fuse_init_out init;
		struct fuse_entry_out entry;
		struct fuse_attr_out attr;
		struct fuse_open_out open;
		struct fuse_statfs_out statfs;
	} out;

	memset(&out, 0, sizeof(out));
	switch (in->opcode) {
	case FUSE_INIT:
		out.init.major = FUSE_KERNEL_VERSION;
		out.init.minor = FUSE_KERNEL_MINOR_VERSION;
		out.init.max_write = 65536;
		out.init.max_readahead = 65536;
		reply(fd, in->unique, 0, &out.init, sizeof(out.init));
		break;
	case FUSE_LOOKUP:
		out.entry.nodeid = in->nodeid == FUSE_ROOT_ID ? node_of(body) : 0;
		if (!out.entry.nodeid) {
			reply(fd, in->unique, -ENOENT, NULL, 0);
			break;
		}
		fill_attr(&out.entry.attr, out.entry.nodeid);
		reply(fd, in->unique, 0, &out.entry, sizeof(out.entry));
		break;
	case FUSE_GETATTR:
		fill_attr(&out.attr.attr, in->nodeid);
		reply(fd, in->unique, 0, &out.attr, sizeof(out.attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		out.open.open_flags = FOPEN_KEEP_CACHE;
		reply(fd, in->unique, 0, &out.open, sizeof(out.open));
		break;
	case FUSE_READ: {
		const struct fuse_read_in *rd = body;
		size_t left = rd->offset < content_len ? content_len - rd->offset : 0;

		poll(NULL, 0, (int)delay_ms);
		reply(fd, in->unique, 0, content + rd->offset, left < rd->size ? left : rd->size);
		break;
	}
	case FUSE_STATFS:
		reply(fd, in->unique, 0, &out.statfs, sizeof(out.statfs));
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
	case FUSE_ACCESS:
		reply(fd, in->unique, 0, NULL, 0);
		break;
	default:
		reply(fd, in->unique, -ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { 0 };
	char options[128];
	struct stat st;
	int fd, file, said = 0, moody = argc > 3 && !strcmp(argv[3], "moody");

	alarm(120);
	srandom((unsigned int)getpid());
	if (argc > 4)
		delay_ms = (unsigned int)strtoul(argv[4], NULL, 10);
	if (argc < 4 || (file = open(argv[2], O_RDONLY)) < 0 || fstat(file, &st))
		return 2;
	content_len = (size_t)st.st_size;
	content = malloc(content_len);
	if (!content || read(file, content, content_len) != (ssize_t)content_len)
		return 2;
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	fd = open("/dev/fuse", O_RDWR);
	if (fd < 0)
		return 77;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fd);
	if (mount("hang", argv[1], "fuse.hang", MS_NODEV, options))
		return 77;
	puts("mounted");
	fflush(stdout);
	while (!done) {
		struct pollfd poller = { fd, POLLIN, 0 };

		if (silent && !said++) {
			puts("silent");
			fflush(stdout);
		}
		if ((silent && !strcmp(argv[3], "unread")) || (moody && sulks())) {
			poll(NULL, 0, 50);
			continue;
		}
		if (poll(&poller, 1, 50) > 0 && read(fd, request, sizeof(request)) > 0 && !silent)
			serve(fd);
	}
	umount2(argv[1], MNT_DETACH);
	return 0;
}
