// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_right.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/daemon.h"
#include "daemon/token_tries.h"
#include "daemon/tokens.h"

/* The reasons are labels of bpfprof_remote_refused_total alone, and in no group of --stats. */
void remote_refusal_count(struct daemon *daemon, const char *reason)
{
	stats_add(&daemon->remote.counts.refused, reason, 1);
}

void remote_refuse(struct daemon *daemon, struct http_reply *reply, unsigned int status,
		   const char *reason, const char *text)
{
	remote_refusal_count(daemon, reason);
	reply->status = status;
	buf_add_str(reply->body, text);
	buf_add_char(reply->body, '\n');
}

static int token_find(const struct token **ret, struct daemon *daemon,
		      const struct http_request *request, struct http_reply *reply)
{
	int err = tokens_find(ret, &daemon->options->tokens, request->authorization);
	struct token_tries *tries = &daemon->remote.tries;
	uint64_t now_ns = time_monotonic_ns();
	uint64_t wait_ns = token_tries_wait_ns(tries, request->address, now_ns);

	if (err != -ENOENT && wait_ns) { /* the answer does not say whether it was right */
		remote_refuse(daemon, reply, 429, "too_many_wrong_tokens",
			      "too many wrong tokens came from this address: come again later");
		reply->retry_seconds = (unsigned int)(wait_ns / NS_PER_SECOND) + 1;
		return -EACCES;
	}
	if (!err)
		return 0;
	if (err == -EACCES) {
		token_tries_wrong(tries, request->address, now_ns);
		remote_refuse(daemon, reply, 403, "wrong_token", "that is no token of this agent");
	} else {
		remote_refuse(daemon, reply, 401, "no_token",
			      "needs the header Authorization: Bearer TOKEN");
	}
	log_warn("remote profiling: refused: %s: %s", request->client,
		 err == -EACCES ? "wrong token" : "no token");
	return -EACCES;
}

int remote_right_find(struct remote_right *ret, struct daemon *daemon,
		      const struct http_request *request, struct http_reply *reply)
{
	struct remote_right right = { .peer = { .pidfd = -1 } };
	const struct token *token;
	int err;

	right.by_socket = daemon->options->socket && !http_peer_get(&right.peer, request);
	if (!right.by_socket) {
		if (!daemon->options->tokens.nr)
			return -ENOENT;
		err = token_find(&token, daemon, request, reply);
		if (err)
			return err;
		right.bound = token->everything ? NULL : &token->pods;
		snprintf(right.owner, sizeof(right.owner), "%s", token->text);
	}
	*ret = right;
	return 0;
}

void remote_right_release(struct remote_right *right)
{
	if (right->by_socket && right->peer.pidfd >= 0)
		close(right->peer.pidfd);
	right->peer.pidfd = -1;
	right->bound = NULL;
}
