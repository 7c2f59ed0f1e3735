// SPDX-License-Identifier: Apache-2.0
#include "options/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define PREFIX "BPFPROF_"
#define MAX_BYTES 65536

int config_file_read(const char *path, mode_t *ret_mode, struct buf *dst)
{
	/* O_NONBLOCK: the open of a pipe must not block. */
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char bytes[4096];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		buf_add(dst, bytes, (size_t)n);
	if (n < 0)
		return -errno;
	if (buf_error(dst))
		return buf_error(dst);
	if (dst->data && memchr(dst->data, 0, dst->len))
		return -EINVAL;
	if (ret_mode)
		*ret_mode = st.st_mode;
	return 0;
}

/* Removes the quotes of "value" and 'value'. */
static char *unquote(char *value)
{
	size_t len = strlen(value);

	if (len < 2 || (value[0] != '"' && value[0] != '\'') || value[len - 1] != value[0])
		return value;
	value[len - 1] = 0;
	return value + 1;
}

const char *config_get(const struct config *config, const char *name)
{
	const char *value = getenv(name);
	size_t i;

	for (i = config ? config->nr : 0; i > 0 && !value; i--)
		if (!strcmp(config->settings[i - 1].name, name))
			value = config->settings[i - 1].value;
	return value;
}

static int setting_add(struct config *config, const char *name, const char *value)
{
	struct setting *settings =
		reallocarray(config->settings, config->nr + 1, sizeof(*settings));

	if (!settings)
		return -ENOMEM;
	config->settings = settings;
	settings += config->nr;
	settings->name = strdup(name);
	settings->value = strdup(value);
	if (!settings->name || !settings->value) {
		free(settings->name);
		free(settings->value);
		return -ENOMEM;
	}
	config->nr++;
	return 0;
}

static int line_take(struct config *config, char *line)
{
	char *name = line + strspn(line, " \t"), *equals = strchr(name, '=');
	size_t len = strlen(name), name_len;

	while (len && strchr(" \t\r", name[len - 1]))
		name[--len] = 0;
	if (!*name || *name == '#')
		return 0;
	if (!equals)
		return -EINVAL;
	name_len = (size_t)(equals - name);
	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != name_len)
		return -EINVAL;
	*equals = 0;
	return setting_add(config, name, unquote(equals + 1));
}

int config_load(struct config *config, const char *path, struct buf *error)
{
	__cleanup(buf_fini) struct buf text = { .max = MAX_BYTES };
	char *line, *end;
	unsigned int nr = 0;
	int err;

	*config = (struct config){ 0 };
	err = config_file_read(path, NULL, &text);
	if (err) {
		buf_printf(error, "--config %s: %s", path,
			   err == -EINVAL  ? "is not a text file"
			   : err == -E2BIG ? "is too large"
					   : strerror(-err));
		return err;
	}
	for (line = text.data; line && *line && !err; line = end) {
		end = strchrnul(line, '\n');
		if (*end)
			*end++ = 0;
		nr++;
		err = line_take(config, line);
	}
	if (err)
		config_unload(config);
	if (err == -EINVAL)
		buf_printf(error, "--config %s: line %u: must be " PREFIX "NAME=VALUE", path, nr);
	return err;
}

void config_unload(struct config *config)
{
	size_t i;

	for (i = 0; i < config->nr; i++) {
		free(config->settings[i].name);
		free(config->settings[i].value);
	}
	free(config->settings);
	*config = (struct config){ 0 };
}
