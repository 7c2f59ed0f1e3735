/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_CONFIG_H
#define BPFPROF_OPTIONS_CONFIG_H

/*
 * A file of BPFPROF_NAME=VALUE lines, as systemd's EnvironmentFile= takes them: twins of flags that
 * the environment does not have. Blank lines and lines that begin with # are nothing;
 * a value may stand in quotes. The environment itself is left alone: other threads read it.
 */

#include <stddef.h>
#include <sys/types.h>

struct buf;

struct config {
	struct setting {
		char *name, *value;
	} * settings;
	size_t nr;
};

/* The environment's, or the file's, or NULL; config may be NULL. Borrowed until config_unload(). */
const char *config_get(const struct config *config, const char *name);

/*
 * Reads the file. 0, -EINVAL or -errno with one sentence
 * added to error, or -ENOMEM; *config is empty then.
 */
int config_load(struct config *config, const char *path, struct buf *error);
/*
 * Adds a regular file to dst without ever waiting for it. *ret_mode, unless NULL, becomes its mode. 0,
 * -EINVAL (not a file, or not text), -E2BIG or -errno.
 */
int config_file_read(const char *path, mode_t *ret_mode, struct buf *dst);
/* Forgets the file. */
void config_unload(struct config *config);

#endif
