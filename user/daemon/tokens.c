// SPDX-License-Identifier: Apache-2.0
#include "daemon/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "options/values.h"

#define BLANKS " \t\r"

/* The entry of the token, a new one if it has none. */
static struct token *entry_of(struct tokens *tokens, const char *text)
{
	struct token *grown;
	size_t i;

	for (i = 0; i < tokens->nr; i++)
		if (!strcmp(tokens->all[i].text, text))
			return &tokens->all[i];
	grown = reallocarray(tokens->all, tokens->nr + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	tokens->all = grown;
	grown += tokens->nr;
	*grown = (struct token){ .text = strdup(text) };
	if (!grown->text)
		return NULL;
	tokens->nr++;
	return grown;
}

static int token_check(const char *text, struct buf *why)
{
	size_t len;

	for (len = 0; text[len]; len++)
		if (text[len] <= ' ' || text[len] > '~')
			return value_refuse(why,
					    "a token is one word of printable ASCII characters");
	if (len > TOKEN_MAX)
		return value_refuse(why, "a token has at most 127 characters");
	if (len >= TOKEN_MIN)
		return 0;
	buf_printf(why,
		   "a token has at least %d characters: `openssl rand -hex 24` prints a good one",
		   TOKEN_MIN);
	return -EINVAL;
}

/* The next word of *at, ended by a NUL, or NULL. */
static char *word_next(char **at)
{
	char *word = *at + strspn(*at, BLANKS), *end = word + strcspn(word, BLANKS);

	if (!*word)
		return NULL;
	*at = *end ? end + 1 : end;
	*end = 0;
	return word;
}

static int line_parse(struct tokens *tokens, char *line, struct buf *why)
{
	char *text = word_next(&line), *pod = text ? word_next(&line) : NULL;
	struct token *token;
	int err;

	if (!text || *text == '#')
		return 0;
	err = token_check(text, why);
	if (!err && pod && word_next(&line))
		err = value_refuse(why, "a line is TOKEN, or TOKEN [NAMESPACE/]POD");
	if (err)
		return err;
	if (tokens->nr == TOKENS_MAX)
		return value_refuse(why, "there are more than 1024 tokens in that file");
	token = entry_of(tokens, text);
	if (!token)
		return -ENOMEM;
	if (pod)
		return container_filter_add_pod(&token->pods, pod, why);
	token->everything = true;
	return 0;
}

int tokens_parse(struct tokens *ret, char *text, struct buf *why)
{
	struct tokens tokens = { 0 };
	char *line, *next;
	int err = 0;

	for (line = text; line && !err; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		err = line_parse(&tokens, line, why);
	}
	if (!err && !tokens.nr)
		err = value_refuse(why, "there is no token in that file");
	if (err) {
		tokens_fini(&tokens);
		return err;
	}
	*ret = tokens;
	return 0;
}

void tokens_fini(struct tokens *tokens)
{
	size_t i;

	for (i = 0; i < tokens->nr; i++) {
		free(tokens->all[i].text);
		container_filter_fini(&tokens->all[i].pods);
	}
	free(tokens->all);
	*tokens = (struct tokens){ 0 };
}

/* Do they differ? The number of steps is that of the client's bytes. */
static unsigned int differ(const char *sent, size_t len, const char *token)
{
	size_t token_len = strlen(token), i;
	unsigned int differs = len != token_len;

	for (i = 0; i < len; i++)
		differs |= (unsigned char)sent[i] ^ (unsigned char)token[i % token_len];
	return differs;
}

int tokens_find(const struct token **ret, const struct tokens *tokens, const char *authorization)
{
	static const char scheme[] = "Bearer";
	const struct token *found = NULL;
	size_t len, i;

	if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1))
		return -ENOENT;
	authorization += sizeof(scheme) - 1;
	len = strspn(authorization, " \t");
	authorization += len;
	if (!len || !*authorization)
		return -ENOENT;
	len = strlen(authorization);
	while (len && strchr(" \t", authorization[len - 1]))
		len--;
	for (i = 0; i < tokens->nr; i++)
		if (!differ(authorization, len, tokens->all[i].text))
			found = &tokens->all[i];
	if (!found)
		return -EACCES;
	*ret = found;
	return 0;
}
