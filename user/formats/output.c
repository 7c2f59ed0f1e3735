// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include "base/buf.h"
#include "base/host_name.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_BYTES 65536
#define MAX_TRIES 100

static const struct {
	const char *name, *suffix, *type;
	int (*write)(FILE *out, const struct profile *profile,
		     const struct output_options *options);
} formats[] = { [OUTPUT_INVALID] = { "", "", OUTPUT_BYTES, NULL },
		[OUTPUT_TRACE] = { "trace", ".json", "application/json", NULL },
		[OUTPUT_PICKLE] = { "pickle", ".pickle", OUTPUT_BYTES, NULL },
#define ROW(VALUE, NAME, SUFFIX, TYPE) [OUTPUT_##VALUE] = { #NAME, SUFFIX, TYPE, NAME##_write },
		OUTPUT_EACH(ROW)
#undef ROW
};

#define NR_FORMATS (sizeof(formats) / sizeof(formats[0]))

enum output_format output_format_by_name(const char *name)
{
	enum output_format format;

	for (format = OUTPUT_INVALID + 1; format < NR_FORMATS; format++)
		if (formats[format].write && !strcmp(name, formats[format].name))
			return format;
	return OUTPUT_INVALID;
}

const char *output_name(enum output_format format)
{
	return formats[format].name;
}

const char *output_suffix(enum output_format format)
{
	return formats[format].suffix;
}

const char *output_content_type(enum output_format format)
{
	return formats[format].type;
}

bool output_has_suffix(const char *path, const char *suffix)
{
	return text_ends(path, suffix) && strcmp(path, suffix) != 0;
}

enum output_format output_format_by_path(const char *path)
{
	enum output_format format;

	for (format = OUTPUT_INVALID + 1; format < NR_FORMATS; format++)
		if (formats[format].write && output_has_suffix(path, formats[format].suffix))
			return format;
	return OUTPUT_INVALID;
}

void output_path_insert(struct buf *dst, const char *path, const char *what)
{
	const char *suffix = output_suffix(output_format_by_path(path));

	buf_add(dst, path, strlen(path) - strlen(suffix));
	buf_add_str(dst, what);
	buf_add_str(dst, suffix);
}

/*
 * Makes a part of one file name of any value, since a worker chooses its name: no slash, no control
 * character, no leading dot.
 */
static void add_value(struct buf *dst, const char *value)
{
	const char *c;

	for (c = value; *c; c++) {
		if (*c == '/' || (unsigned char)*c < ' ' || *c == 0x7f || (c == value && *c == '.'))
			buf_add_char(dst, '_');
		else
			buf_add_char(dst, *c);
	}
}

static void add_time(struct buf *dst, uint64_t time_ns)
{
	char text[TIME_TEXT_BYTES];

	buf_add_str(dst, time_text(text, time_ns / NS_PER_SECOND, TIME_OF_NAMES));
}

/* Adds the variable at *pattern, which points to its '{' and then to its '}'. */
static int add_variable(struct buf *dst, const char **pattern)
{
	const char *name = *pattern + 1, *end = strchr(name, '}'), *value;
	char key[128];

	if (!end || end == name || (size_t)(end - name) >= sizeof(key))
		return -EINVAL;
	memcpy(key, name, (size_t)(end - name));
	key[end - name] = 0;
	value = getenv(key);
	if (!value)
		return -ENOENT;
	add_value(dst, value);
	*pattern = end;
	return 0;
}

static int add_form(struct buf *dst, const char **pattern, const struct output_names *names)
{
	char host[HOST_NAME_BYTES];

	switch (**pattern) {
	case '%':
		buf_add_char(dst, '%');
		return 0;
	case 'h':
		host_name(host);
		add_value(dst, names->host ? names->host : host);
		return 0;
	case 'p':
		buf_printf(dst, "%" PRIu32, names->pid);
		return 0;
	case 't':
		add_time(dst, names->time_ns);
		return 0;
	case 'w':
		add_value(dst, names->worker ? names->worker : "all");
		return 0;
	case '{':
		return add_variable(dst, pattern);
	default:
		return -EINVAL;
	}
}

int output_expand_path(struct buf *dst, const char *pattern, const struct output_names *names)
{
	struct buf path;
	int err = 0;

	buf_init(&path, PATH_MAX - 1);
	for (; *pattern && !err; pattern++) {
		if (*pattern != '%') {
			buf_add_char(&path, *pattern);
			continue;
		}
		pattern++;
		if (!*pattern) {
			err = -EINVAL;
			break;
		}
		err = add_form(&path, &pattern, names);
	}
	if (!err)
		err = buf_error(&path) == -E2BIG ? -ENAMETOOLONG : buf_error(&path);
	if (!err)
		buf_add(dst, path.data, path.len);
	buf_fini(&path);
	return err ? err : buf_error(dst);
}

/* Makes every folder above path. */
static int make_parents(const char *path)
{
	char *copy = strdup(path), *slash;
	int err = 0;

	if (!copy)
		return -ENOMEM;
	for (slash = strchr(copy + 1, '/'); slash && *copy; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(copy, 0777) && errno != EEXIST) {
			/* The folder may exist although it is not writable: EROFS, EACCES. */
			err = -errno;
			if (!access(copy, F_OK))
				err = 0;
		}
		*slash = '/';
		if (err)
			break;
	}
	free(copy);
	return err;
}

/* The descriptor of bpfprof that path names: "-", /dev/stdout, /dev/fd/N; else -1. */
static int path_own_fd(const char *path)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
	unsigned long fd;
	size_t i, len;
	char *end;

	if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (i = 0; i < 2; i++) {
		len = strlen(folders[i]);
		if (strncmp(path, folders[i], len) || path[len] < '0' || path[len] > '9')
			continue;
		fd = strtoul(path + len, &end, 10);
		if (!*end && fd <= INT_MAX)
			return (int)fd;
	}
	return -1;
}

/*
 * A file being written. A pipe, a device or a descriptor of bpfprof is written in place; a regular
 * file is written to a temporary file beside it.
 */
struct target {
	const char *path;
	char *temporary; /* NULL: written in place */
	int fd;
	bool keep_fd; /* target_close() does not close it */
	int error; /* first failed write */
};

static char *temporary_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder_len = slash ? (int)(slash - path) + 1 : 0;
	uint64_t random;
	char *name;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)getpid() << 32 ^ (uint64_t)clock();
	/* The name is not made from the file's name, which may have NAME_MAX bytes already. */
	if (asprintf(&name, "%.*s.bpfprof-%016" PRIx64 ".tmp", folder_len, path, random) < 0)
		return NULL;
	return name;
}

/* open() with O_EXCL and a random name applies the umask; mkostemp() does not. */
static int open_temporary(struct target *target, const struct stat *old)
{
	int try, err;

	for (try = 0; try < MAX_TRIES; try++) {
		target->temporary = temporary_name(target->path);
		if (!target->temporary)
			return -ENOMEM;
		target->fd = open(target->temporary,
				  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (target->fd >= 0) {
			/* A private file stays private. */
			if (old && fchmod(target->fd, old->st_mode & 0777))
				return -errno;
			return 0;
		}
		err = -errno;
		free(target->temporary);
		target->temporary = NULL;
		if (err != -EEXIST)
			return err;
	}
	return -EEXIST;
}

static int target_open(struct target *target, const char *path)
{
	bool exists;
	struct stat st;
	int err;

	*target = (struct target){ .path = path, .fd = path_own_fd(path) };
	if (target->fd >= 0) {
		target->keep_fd = true;
		return 0;
	}
	if (!*path)
		return -ENOENT;
	exists = !stat(path, &st);
	if ((exists && S_ISDIR(st.st_mode)) || path[strlen(path) - 1] == '/')
		return -EISDIR;
	if (exists && !S_ISREG(st.st_mode)) {
		target->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		return target->fd < 0 ? -errno : 0;
	}
	err = make_parents(path);
	return err ? err : open_temporary(target, exists ? &st : NULL);
}

/*
 * Syncs the folder, so that the name survives a power cut. Some file systems cannot do this: no
 * failure.
 */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int fd;

	if (!folder)
		return;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(folder);
}

/* Ends the file: with err 0 it gets its name, otherwise it is removed. */
static int target_close(struct target *target, int err)
{
	if (!err)
		err = target->error;
	if (!err && target->temporary && fsync(target->fd) && errno != EINVAL)
		err = -errno;
	if (target->fd >= 0 && !target->keep_fd && close(target->fd) && !err)
		err = -errno;
	if (!target->temporary)
		return err;
	if (!err && rename(target->temporary, target->path))
		err = -errno;
	if (err)
		unlink(target->temporary);
	else
		sync_folder(target->path);
	free(target->temporary);
	return err;
}

/*
 * The write function of a stream. stdio forgets why a flush failed, so this keeps the first error.
 */
static ssize_t target_write(void *cookie, const char *data, size_t len)
{
	struct target *target = cookie;
	size_t done = 0;
	ssize_t ret;

	while (done < len && !target->error) {
		ret = write(target->fd, data + done, len - done);
		if (ret > 0)
			done += (size_t)ret;
		else if (!ret)
			target->error = -EIO;
		else if (errno != EINTR)
			target->error = -errno;
	}
	if (target->error)
		errno = -target->error;
	return target->error ? 0 : (ssize_t)len;
}

static int write_stream(struct target *target, int (*writer)(FILE *out, void *arg), void *arg)
{
	cookie_io_functions_t functions = { .write = target_write };
	FILE *out = fopencookie(target, "w", functions);
	char buffer[STREAM_BYTES];
	int err;

	if (!out)
		return -ENOMEM;
	setvbuf(out, buffer, _IOFBF, sizeof(buffer));
	err = writer(out, arg);
	if (ferror(out) && !err)
		err = -EIO;
	if (fclose(out) && !err)
		err = -EIO;
	return target->error ? target->error : err;
}

struct profile_job {
	enum output_format format;
	const struct profile *profile;
	const struct output_options *options;
};

static int profile_write(FILE *out, void *arg)
{
	const struct profile_job *job = arg;

	return formats[job->format].write(out, job->profile, job->options);
}

int output_write_fd_by(int fd, int (*writer)(FILE *out, void *arg), void *arg)
{
	struct target target = { .fd = fd, .keep_fd = true };

	return write_stream(&target, writer, arg);
}

int output_write_fd(int fd, enum output_format format, const struct profile *profile,
		    const struct output_options *options)
{
	struct profile_job job = { format, profile, options };

	return formats[format].write ? output_write_fd_by(fd, profile_write, &job) : -EINVAL;
}

int output_write_by(const char *path, int (*writer)(FILE *out, void *arg), void *arg)
{
	struct target target;
	int err;

	if (path_own_fd(path) == STDOUT_FILENO)
		fflush(stdout);
	err = target_open(&target, path);
	if (!err)
		err = write_stream(&target, writer, arg);
	return target_close(&target, err);
}

int output_write(const char *path, enum output_format format, const struct profile *profile,
		 const struct output_options *options)
{
	struct profile_job job = { format, profile, options };

	return formats[format].write ? output_write_by(path, profile_write, &job) : -EINVAL;
}

int output_write_bytes(const char *path, const void *data, size_t len)
{
	struct target target;
	int err;

	if (path_own_fd(path) == STDOUT_FILENO)
		fflush(stdout);
	err = target_open(&target, path);
	if (!err && len)
		target_write(&target, data, len);
	return target_close(&target, err);
}

int output_check(const char *path)
{
	struct target target;
	struct stat st;
	int fd = path_own_fd(path), flags, err;

	if (!strcmp(path, "-"))
		return 0;
	if (fd >= 0) {
		flags = fcntl(fd, F_GETFL);
		if (flags < 0)
			return -errno;
		return (flags & O_ACCMODE) == O_RDONLY ? -EBADF : 0;
	}
	/* Opening a pipe would wait for its reader. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return access(path, W_OK) ? -errno : 0;
	err = target_open(&target, path);
	if (target.fd >= 0)
		close(target.fd);
	if (target.temporary)
		unlink(target.temporary);
	free(target.temporary);
	return err;
}
