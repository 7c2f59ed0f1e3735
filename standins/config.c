// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration: variables of the environment, else of a file. sudo clears the environment, so the file
 * lies beside the program, or in /etc.
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "bpfprof-agent.conf"
#define FILE_BYTES 8192

/* Reads a small file of text into dst. */
static bool file_read(char *dst, size_t cap, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd < 0 ? -1 : read(fd, dst, cap - 1);

	if (fd >= 0)
		close(fd);
	if (len < 0)
		return false;
	dst[len] = 0;
	return true;
}

/* Ends the value of each line with a NUL, and takes its quotes away. */
static void values_end(char *line)
{
	char *end, *value;

	for (; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		line[strcspn(line, "\r")] = 0;
		value = strchr(line, '=');
		if (!value++ || (*value != '"' && *value != '\'') || strlen(value) < 2 ||
		    value[strlen(value) - 1] != *value)
			continue;
		value[strlen(value) - 1] = 0;
		memmove(value, value + 1, strlen(value));
	}
}

/* The lines of the file, each with a NUL; the file is read once. */
static const char *file_lines(void)
{
	static char text[FILE_BYTES], path[PATH_MAX]; /* text ends with a NUL */
	static bool is_read;
	ssize_t len;
	char *slash;

	if (is_read)
		return text;
	is_read = true;
	len = readlink("/proc/self/exe", path, sizeof(path) - sizeof(FILE_NAME) - 1);
	path[len > 0 ? len : 0] = 0;
	slash = strrchr(path, '/');
	if (slash)
		memcpy(slash + 1, FILE_NAME, sizeof(FILE_NAME));
	if ((slash && file_read(text, sizeof(text), path)) ||
	    file_read(text, sizeof(text), "/etc/" FILE_NAME))
		values_end(text);
	return text;
}

const char *config_get(const char *name)
{
	const char *value = getenv(name), *lines = file_lines(), *line;
	size_t len = strlen(name);

	if (value && *value)
		return value;
	for (line = lines; line < lines + FILE_BYTES; line += strlen(line) + 1)
		if (!strncmp(line, name, len) && line[len] == '=')
			return line[len + 1] ? line + len + 1 : NULL;
	return NULL;
}

const char *config_token(void)
{
	static char text[512];
	const char *path = config_get("BPFPROF_TOKEN_FILE"), *token = config_get("BPFPROF_TOKEN");
	char *at;

	if (token || !path)
		return token;
	if (!file_read(text, sizeof(text), path))
		return NULL;
	at = text + strspn(text, " \t\r\n");
	at[strcspn(at, " \t\r\n")] = 0;
	return *at ? at : NULL;
}
