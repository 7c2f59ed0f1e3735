/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_TOKENS_H
#define BPFPROF_DAEMON_TOKENS_H

/*
 * The tokens of HTTP clients, and the pods that each token is bound to. A line of their file is TOKEN, which
 * may ask about everything, or TOKEN [NAMESPACE/]GLOB, which may ask about processes in pods of that name
 * alone. Lines of one token add pods to it. Blank lines and lines that begin with # are skipped.
 */

#include <stdbool.h>
#include <stddef.h>

#include "capture/container_filter.h"

struct buf;

#define TOKENS_MAX 1024
#define TOKEN_MIN 16 /* characters */
#define TOKEN_MAX 127

struct token {
	char *text;
	bool everything; /* a line without pods */
	struct container_filter pods; /* of a token that is bound */
};

/* All zero: none. */
struct tokens {
	size_t nr;
	struct token *all;
};

/* Changes text. 0, -ENOMEM, or -EINVAL with the reason added to why; *ret is empty then. */
int tokens_parse(struct tokens *ret, char *text, struct buf *why);
void tokens_fini(struct tokens *tokens);

/*
 * The token in a header "Bearer TOKEN". 0; -EACCES: another token; -ENOENT: none. The time does not depend on
 * the place of the first wrong byte, nor on which token it is.
 */
int tokens_find(const struct token **ret, const struct tokens *tokens, const char *authorization);

#endif
