// SPDX-License-Identifier: Apache-2.0
/* One request of HTTP to the agent, and its answer. */
#include "standin.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

#define PORT "9464"
#define CONNECT_SECONDS 5
#define ANSWER_SECONDS 90 /* besides the time that the answer takes by itself */
#define BUSY_SECONDS 15 /* a busy agent is asked again for so long */
#define ADDRESS_MAX 320
#define HEAD_MAX 8192
#define TEXT_MAX 2048

/* An answer that is being read. */
struct answer {
	const char *agent; /* for messages */
	int fd;
	time_t deadline;
	unsigned int status, retry_seconds;
	bool chunked, has_length;
	unsigned long long left; /* of the chunk, or of the body */
	bool ended; /* the last chunk was read */
	char bytes[HEAD_MAX + 1];
	size_t at, len; /* of bytes that were not used yet */
};

bool agent_is_configured(void)
{
	return config_get("BPFPROF_AGENT") || config_get("HOST_IP");
}

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* Waits until fd is ready. 0 or an errno. */
static int wait_for(int fd, short events, time_t deadline)
{
	struct pollfd poller = { .fd = fd, .events = events };
	time_t left = deadline - now();
	int nr;

	do
		nr = left > 0 ? poll(&poller, 1, (int)left * 1000) : 0;
	while (nr < 0 && errno == EINTR);
	return nr > 0 ? 0 : nr < 0 ? errno : ETIMEDOUT;
}

static int connect_to(const struct sockaddr *address, socklen_t len, int *ret)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(int);
	int err = 0;

	if (fd < 0)
		return errno;
	if (connect(fd, address, len)) {
		err = errno;
		if (err == EINPROGRESS)
			err = wait_for(fd, POLLOUT, now() + CONNECT_SECONDS);
		if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size))
			err = errno;
	}
	if (err)
		close(fd);
	else
		*ret = fd;
	return err;
}

static int connect_unix(const char *path, int *ret)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	return connect_to((struct sockaddr *)&address, sizeof(address), ret);
}

/* HOST, HOST:PORT, [ADDRESS]:PORT, or an address of IPv6 without a port. */
static int connect_tcp(const char *agent, int *ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *info;
	char host[ADDRESS_MAX];
	const char *port = strrchr(agent, ':');
	int err;

	if (strlen(agent) >= sizeof(host))
		return ENAMETOOLONG;
	if (*agent != '[' && port && memchr(agent, ':', (size_t)(port - agent)))
		port = NULL;
	if (*agent == '[' && port && port[-1] != ']')
		port = NULL;
	snprintf(host, sizeof(host), "%.*s", port ? (int)(port - agent) : (int)strlen(agent),
		 agent);
	if (*host == '[') {
		memmove(host, host + 1, strlen(host));
		host[strcspn(host, "]")] = 0;
	}
	if (getaddrinfo(host, port ? port + 1 : PORT, &hints, &found))
		return EADDRNOTAVAIL;
	err = EADDRNOTAVAIL;
	for (info = found; info && err; info = info->ai_next)
		err = connect_to(info->ai_addr, info->ai_addrlen, ret);
	freeaddrinfo(found);
	return err;
}

static int agent_connect(const char *agent, int *ret)
{
	if (*agent == '/')
		return connect_unix(agent, ret);
	return strncmp(agent, "unix:", 5) ? connect_tcp(agent, ret) : connect_unix(agent + 5, ret);
}

/* Writes text with all bytes escaped that mean something in a query. */
static void query_add(FILE *to, const char *text)
{
	for (; *text; text++)
		fprintf(to, isalnum((unsigned char)*text) || strchr("-._", *text) ? "%c" : "%%%02X",
			(unsigned char)*text);
}

/* The request, to be freed, or NULL. */
static char *request_make(const struct question *question, size_t *len)
{
	const char *token = config_token();
	char *text = NULL;
	FILE *to = open_memstream(&text, len);
	size_t i;

	if (!to)
		return NULL;
	fprintf(to, "GET /%s", question->command);
	for (i = 0; i < question->nr; i++) {
		putc(i ? '&' : '?', to);
		query_add(to, question->parameters[i].name);
		putc('=', to);
		query_add(to, question->parameters[i].value);
	}
	fputs(" HTTP/1.1\r\nHost: bpfprof\r\nConnection: close\r\n", to);
	if (token)
		fprintf(to, "Authorization: Bearer %s\r\n", token);
	fputs("\r\n", to);
	if (!fclose(to))
		return text;
	free(text);
	return NULL;
}

static int request_send(const struct answer *answer, const struct question *question)
{
	size_t len, sent = 0;
	char *text = request_make(question, &len);
	ssize_t n;
	int err = text ? 0 : ENOMEM;

	while (!err && sent < len) {
		n = send(answer->fd, text + sent, len - sent, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			err = wait_for(answer->fd, POLLOUT, answer->deadline);
		else
			err = n ? errno : EPIPE;
	}
	free(text);
	return err;
}

/* Reads more bytes behind those that are there. 0; ENODATA at the end; or an errno. */
static int more(struct answer *answer)
{
	ssize_t n;
	int err;

	if (answer->at) {
		memmove(answer->bytes, answer->bytes + answer->at, answer->len);
		answer->at = 0;
	}
	if (answer->len == HEAD_MAX)
		return EMSGSIZE;
	for (;;) {
		n = recv(answer->fd, answer->bytes + answer->len, HEAD_MAX - answer->len, 0);
		if (n > 0)
			break;
		if (!n)
			return ENODATA;
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		err = wait_for(answer->fd, POLLIN, answer->deadline);
		if (err)
			return err;
	}
	answer->len += (size_t)n;
	answer->bytes[answer->len] = 0;
	return 0;
}

/* The next line, without its end, or NULL. */
static char *line_next(struct answer *answer, int *err)
{
	char *line, *end;

	while (!(end = memchr(answer->bytes + answer->at, '\n', answer->len))) {
		*err = more(answer);
		if (*err)
			return NULL;
	}
	line = answer->bytes + answer->at;
	answer->at += (size_t)(end + 1 - line);
	answer->len -= (size_t)(end + 1 - line);
	if (end > line && end[-1] == '\r')
		end--;
	*end = 0;
	return line;
}

static int head_read(struct answer *answer)
{
	char *line, *value;
	int err = 0;

	line = line_next(answer, &err);
	if (!line)
		return err;
	if (strncmp(line, "HTTP/1.", 7) || sscanf(line + 8, " %u", &answer->status) != 1)
		return EPROTO;
	while ((line = line_next(answer, &err)) && *line) {
		value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = 0;
		value += strspn(value, " \t");
		if (!strcasecmp(line, "transfer-encoding"))
			answer->chunked = !strcasecmp(value, "chunked");
		else if (!strcasecmp(line, "retry-after"))
			answer->retry_seconds = (unsigned int)strtoul(value, NULL, 10);
		else if (!strcasecmp(line, "content-length")) {
			answer->left = strtoull(value, NULL, 10);
			answer->has_length = true;
		}
	}
	return line ? 0 : err;
}

/* Begins the next chunk. */
static int chunk_next(struct answer *answer)
{
	char *line, *end;
	int err = 0;

	line = line_next(answer, &err);
	if (line && !*line) /* the end of the chunk before */
		line = line_next(answer, &err);
	if (!line)
		return err;
	answer->left = strtoull(line, &end, 16);
	if (end == line)
		return EPROTO;
	answer->ended = !answer->left;
	return 0;
}

/* Some bytes of the body: *ret_len is 0 at its end. 0 or an errno. */
static int body_read(struct answer *answer, const char **ret, size_t *ret_len)
{
	int err = 0;

	*ret_len = 0;
	if (answer->chunked && !answer->left && !answer->ended)
		err = chunk_next(answer);
	if (err || answer->ended || ((answer->chunked || answer->has_length) && !answer->left))
		return err;
	if (!answer->len) {
		err = more(answer);
		if (err)
			return err == ENODATA && !answer->chunked && !answer->has_length ? 0 : err;
	}
	*ret = answer->bytes + answer->at;
	*ret_len = answer->len;
	if ((answer->chunked || answer->has_length) && *ret_len > answer->left)
		*ret_len = (size_t)answer->left;
	answer->at += *ret_len;
	answer->len -= *ret_len;
	if (answer->chunked || answer->has_length)
		answer->left -= *ret_len;
	return 0;
}

static int cut_off(const struct answer *answer, int err)
{
	if (err == ETIMEDOUT)
		return standin_fail("the agent at %s did not answer in time", answer->agent);
	if (err == EPROTO || err == EMSGSIZE)
		return standin_fail("%s is no agent of bpfprof: its answer is not understood",
				    answer->agent);
	return standin_fail("the agent at %s ended before its answer was whole; it may have been "
			    "restarted: try again",
			    answer->agent);
}

static int output_failed(const char *path)
{
	return standin_fail("%s: %s", path ? path : "standard output", strerror(errno));
}

static int all_write(int fd, const char *bytes, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Copies the body; what was written of a file that did not become whole is removed. */
static int body_copy(struct answer *answer, const char *path)
{
	const char *bytes;
	size_t len;
	struct stat st;
	int status = 0, err,
	    fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : STDOUT_FILENO;

	if (fd < 0)
		return output_failed(path);
	do {
		err = body_read(answer, &bytes, &len);
		if (err)
			status = cut_off(answer, err);
		else if (all_write(fd, bytes, len))
			status = output_failed(path);
	} while (!status && len);
	if (path && status && !fstat(fd, &st) && S_ISREG(st.st_mode))
		unlink(path);
	if (path && close(fd) && !status)
		status = output_failed(path);
	return status;
}

/* The begin of the body, as a text. */
static int body_text(struct answer *answer, char *dst, size_t cap)
{
	const char *bytes;
	size_t len, used = 0;
	int err;

	while (!(err = body_read(answer, &bytes, &len)) && len && used + 1 < cap) {
		if (len > cap - 1 - used)
			len = cap - 1 - used;
		memcpy(dst + used, bytes, len);
		used += len;
	}
	dst[used] = 0;
	return err;
}

/* The sentence of an agent that refuses. */
static int refused(struct answer *answer)
{
	char text[TEXT_MAX];

	body_text(answer, text, sizeof(text));
	if (answer->status == 404 && !strncmp(text, "not found", 9))
		return standin_fail(
			"the agent at %s does not answer such questions: bpfprof daemon "
			"needs --allow-remote-profiling",
			answer->agent);
	if (answer->status == 401)
		return standin_fail("the agent at %s wants a token: set BPFPROF_TOKEN_FILE, in the "
				    "environment or in /etc/bpfprof-agent.conf",
				    answer->agent);
	return standin_fail("%s", *text ? text : "the agent refuses without a reason");
}

/* An answer is copied to one of these. */
struct goal {
	const char *path; /* NULL: standard output */
	char *text; /* not NULL: the answer is copied to it */
	size_t cap;
	bool (*take)(const char *bytes, size_t len); /* not NULL: it gets the answer in pieces */
};

static int pieces_take(struct answer *answer, const struct goal *goal)
{
	const char *bytes;
	size_t len;
	int err;

	for (;;) {
		answer->deadline = now() + ANSWER_SECONDS;
		err = body_read(answer, &bytes, &len);
		if (err)
			return cut_off(answer, err);
		if (!len)
			return 0;
		if (!goal->take(bytes, len))
			return output_failed(NULL);
	}
}

static int answer_take(struct answer *answer, const struct goal *goal)
{
	int err;

	if (goal->take)
		return pieces_take(answer, goal);
	if (!goal->text)
		return body_copy(answer, goal->path);
	err = body_text(answer, goal->text, goal->cap);
	goal->text[strcspn(goal->text, "\r\n")] = 0;
	return err ? cut_off(answer, err) : 0;
}

/* 0, an exit status, or -1: the agent is busy, to be asked again after retry_seconds. */
static int ask_once(struct answer *answer, const struct question *question, const struct goal *goal)
{
	int err, status;

	err = agent_connect(answer->agent, &answer->fd);
	if (err)
		return standin_fail("no agent answers at %s: %s", answer->agent, strerror(err));
	answer->deadline = now() + ANSWER_SECONDS + question->seconds;
	err = request_send(answer, question);
	if (!err)
		err = head_read(answer);
	if (err)
		status = cut_off(answer, err);
	else if (answer->status == 503 && answer->retry_seconds)
		status = -1;
	else if (answer->status == 200)
		status = answer_take(answer, goal);
	else
		status = refused(answer);
	close(answer->fd);
	return status;
}

static int ask(const struct question *question, const struct goal *goal)
{
	const char *agent = config_get("BPFPROF_AGENT");
	time_t end = now() + BUSY_SECONDS;
	struct answer answer;
	int status;

	for (;;) {
		answer = (struct answer){ .agent = agent ? agent : config_get("HOST_IP") };
		status = ask_once(&answer, question, goal);
		if (status >= 0)
			return status;
		if (now() + answer.retry_seconds > end)
			return standin_fail(
				"the agent is busy with other requests; try again in %u "
				"seconds",
				answer.retry_seconds);
		sleep(answer.retry_seconds);
	}
}

int agent_ask(const struct question *question, const char *path)
{
	return ask(question, &(struct goal){ .path = path });
}

int agent_stream(const struct question *question, bool (*take)(const char *bytes, size_t len))
{
	return ask(question, &(struct goal){ .take = take });
}

int agent_text(const struct question *question, char *dst, size_t cap)
{
	return ask(question, &(struct goal){ .text = dst, .cap = cap });
}
