// SPDX-License-Identifier: Apache-2.0
#include "daemon/sets.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "base/vec.h"

#define TIME_DIGITS 16 /* yyyymmddThhmmssZ */
#define NUMBER_MAX 999999999

#define CPU_PREFIX "cpu-" /* also the prefix of sets */
#define CUDA_PREFIX "cuda-"
#define MEMORY_PREFIX "memory-"

static const struct {
	const char *prefix, *suffix, *latest;
} files[STORE_NR_FILES] = {
	[STORE_PPROF] = { CPU_PREFIX, ".pb.gz", "latest.pb.gz" },
	[STORE_FOLDED] = { CPU_PREFIX, ".folded", "latest.folded" },
	[STORE_HTML] = { CPU_PREFIX, ".html", "latest.html" },
	[STORE_CUDA_PPROF] = { CUDA_PREFIX, ".pb.gz", "latest.cuda.pb.gz" },
	[STORE_CUDA_FOLDED] = { CUDA_PREFIX, ".folded", "latest.cuda.folded" },
	[STORE_CUDA_HTML] = { CUDA_PREFIX, ".html", "latest.cuda.html" },
	[STORE_MEMORY_PPROF] = { MEMORY_PREFIX, ".pb.gz", "latest.memory.pb.gz" },
	[STORE_MEMORY_FOLDED] = { MEMORY_PREFIX, ".folded", "latest.memory.folded" },
	[STORE_MEMORY_HTML] = { MEMORY_PREFIX, ".html", "latest.memory.html" },
	[STORE_SECONDS_GZ] = { CPU_PREFIX, ".seconds.gz", NULL },
};

unsigned int store_part_of(enum store_file file)
{
	return file < STORE_CUDA_PPROF	   ? 0
	       : file < STORE_MEMORY_PPROF ? STORE_CUDA
	       : file < STORE_SECONDS_GZ   ? STORE_MEMORY
					   : STORE_SECONDS;
}

const char *store_latest_name(enum store_file file)
{
	return files[file].latest;
}

bool store_is_latest(const char *name)
{
	enum store_file file;

	for (file = 0; file < STORE_NR_FILES; file++)
		if (files[file].latest && !strcmp(name, files[file].latest))
			return true;
	return false;
}

/* Digits without a leading zero ("0" itself is fine); moves *text behind them. */
static bool number_take(const char **text, uint64_t *ret)
{
	const char *at = *text;
	uint64_t value = 0;

	if (!isdigit((unsigned char)*at) || (*at == '0' && isdigit((unsigned char)at[1])))
		return false;
	for (; isdigit((unsigned char)*at); at++) {
		value = value * 10 + (uint64_t)(*at - '0');
		if (value > NUMBER_MAX)
			return false;
	}
	*text = at;
	*ret = value;
	return true;
}

static int two_digits(const char *text)
{
	return (text[0] - '0') * 10 + text[1] - '0';
}

/* yyyymmddThhmmssZ */
static bool time_take(const char **text, uint64_t *ret)
{
	static const char form[] = "dddddddd"
				   "T"
				   "dddddd"
				   "Z";
	const char *at = *text;
	struct tm tm = { 0 };
	time_t time;
	size_t i;

	for (i = 0; i < TIME_DIGITS; i++)
		if (form[i] == 'd' ? !isdigit((unsigned char)at[i]) : at[i] != form[i])
			return false;
	tm.tm_year = two_digits(at) * 100 + two_digits(at + 2) - 1900;
	tm.tm_mon = two_digits(at + 4) - 1;
	tm.tm_mday = two_digits(at + 6);
	tm.tm_hour = two_digits(at + 9);
	tm.tm_min = two_digits(at + 11);
	tm.tm_sec = two_digits(at + 13);
	time = timegm(&tm);
	if (time < 0)
		return false;
	*text = at + TIME_DIGITS;
	*ret = (uint64_t)time;
	return true;
}

void store_name_make(char *name, uint64_t start, uint64_t seconds, uint64_t copy)
{
	char text[TIME_TEXT_BYTES];

	time_text(text, start, TIME_OF_NAMES);
	if (copy)
		snprintf(name, STORE_NAME_MAX, CPU_PREFIX "%s-%" PRIu64 "s-%" PRIu64, text, seconds,
			 copy);
	else
		snprintf(name, STORE_NAME_MAX, CPU_PREFIX "%s-%" PRIu64 "s", text, seconds);
}

void store_file_name(char *name, const char *set_name, enum store_file file)
{
	snprintf(name, STORE_NAME_MAX, "%s%s%s", files[file].prefix, set_name + strlen(CPU_PREFIX),
		 files[file].suffix);
}

/* The file of a set whose prefix the name has, and the rest of the name behind it; STORE_NR_FILES: none. */
static enum store_file prefix_take(const char **text)
{
	enum store_file file;

	for (file = 0; file < STORE_NR_FILES; file++)
		if (!strncmp(*text, files[file].prefix, strlen(files[file].prefix)))
			break;
	if (file < STORE_NR_FILES)
		*text += strlen(files[file].prefix);
	return file;
}

bool store_name_parse(struct store_name *ret, const char *name)
{
	struct store_name found = { 0 };
	char set_name[STORE_NAME_MAX], made[STORE_NAME_MAX];
	const char *at = name;
	enum store_file first = prefix_take(&at);

	if (first == STORE_NR_FILES || !time_take(&at, &found.start) || *at++ != '-' ||
	    !number_take(&at, &found.seconds) || *at++ != 's')
		return false;
	if (*at == '-') {
		at++;
		if (!number_take(&at, &found.copy) || !found.copy)
			return false;
	}
	for (found.file = first; found.file < STORE_NR_FILES; found.file++)
		if (!strcmp(files[first].prefix, files[found.file].prefix) &&
		    !strcmp(at, files[found.file].suffix))
			break;
	if (found.file == STORE_NR_FILES)
		return false;
	/* timegm() takes the 31st of February as another day. No store makes such a name. */
	store_name_make(set_name, found.start, found.seconds, found.copy);
	store_file_name(made, set_name, found.file);
	if (strcmp(made, name))
		return false;
	*ret = found;
	return true;
}

void set_file_name(char *name, const struct set *set, enum store_file file)
{
	char base[STORE_NAME_MAX];

	store_name_make(base, set->start, set->seconds, set->copy);
	store_file_name(name, base, file);
}

bool set_is(const struct set *set, const struct store_name *name)
{
	return set->start == name->start && set->seconds == name->seconds &&
	       set->copy == name->copy;
}

static int number_compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* During sorting `keep` means that the set is from the future. */
static int set_compare(const void *a, const void *b)
{
	const struct set *x = a, *y = b;
	int order = number_compare(y->keep, x->keep);

	if (!order)
		order = number_compare(x->start, y->start);
	if (!order)
		order = number_compare(x->copy, y->copy);
	return order ? order : number_compare(x->seconds, y->seconds);
}

static int set_add(struct sets *sets, size_t *cap, const struct set *set)
{
	if (vec_grow(sets->sets, sets->nr + 1, *cap, VEC_BOUNDED))
		return -ENOMEM;
	sets->sets[sets->nr++] = *set;
	return 0;
}

/* Each file is a set of its own here. */
static int files_read(struct sets *sets, DIR *dir, uint64_t now_seconds)
{
	struct store_name name;
	struct dirent *entry;
	size_t cap = 0;
	struct stat st;
	struct set set;
	int err = 0;

	while (!err && sets->nr < SETS_MAX_FILES) {
		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			err = -errno; /* 0: the end of the folder */
			break;
		}
		if (!store_name_parse(&name, entry->d_name) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		set = (struct set){ .start = name.start,
				    .seconds = name.seconds,
				    .copy = name.copy,
				    .bytes = (uint64_t)st.st_size,
				    .files = 1U << name.file,
				    .keep = name.start > now_seconds + SETS_FUTURE_SECONDS };
		err = set_add(sets, &cap, &set);
	}
	return err;
}

/* Neighbouring files of one set become that set. */
static void files_join(struct sets *sets)
{
	struct set *last = NULL, *set;
	size_t i, nr = 0;

	for (i = 0; i < sets->nr; i++) {
		set = &sets->sets[i];
		set->keep = false;
		sets->bytes += set->bytes;
		if (last && last->start == set->start && last->copy == set->copy &&
		    last->seconds == set->seconds) {
			last->files |= set->files;
			last->bytes += set->bytes;
			continue;
		}
		last = &sets->sets[nr++];
		*last = *set;
	}
	sets->nr = nr;
}

int folder_list(DIR **ret, int above_fd, const char *name)
{
	int fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	*ret = dir;
	return 0;
}

int sets_read(struct sets *ret, int folder_fd, uint64_t now_seconds)
{
	struct sets sets = { 0 };
	DIR *dir;
	int err = folder_list(&dir, folder_fd, ".");

	*ret = sets;
	if (err)
		return err;
	err = files_read(&sets, dir, now_seconds);
	closedir(dir);
	if (err) {
		sets_fini(&sets);
		return err;
	}
	if (sets.nr)
		qsort(sets.sets, sets.nr, sizeof(*sets.sets), set_compare);
	files_join(&sets);
	*ret = sets;
	return 0;
}

bool set_is_too_old(const struct set *set, uint64_t now_seconds, uint64_t age_seconds)
{
	uint64_t end = set->start + set->seconds;

	return end < now_seconds && now_seconds - end > age_seconds;
}

void sets_fini(struct sets *sets)
{
	free(sets->sets);
	*sets = (struct sets){ 0 };
}
