// SPDX-License-Identifier: Apache-2.0
#include "daemon/push_post.h"

#include <errno.h>
#include <stddef.h>

static const char *const outcome_names[PUSH_NR_OUTCOMES] = {
	[PUSH_DELIVERED] = "delivered",
	[PUSH_RESOLVE] = "resolve",
	[PUSH_CONNECT] = "connect",
	[PUSH_TLS] = "tls",
	[PUSH_TIMEOUT] = "timeout",
	[PUSH_BROKEN] = "broken",
	[PUSH_REDIRECTED] = "redirect",
	[PUSH_DENIED] = "denied",
	[PUSH_BUSY] = "busy",
	[PUSH_NOT_FOUND] = "not_found",
	[PUSH_REFUSED] = "refused",
	[PUSH_SERVER] = "server",
	[PUSH_CREDENTIALS] = "credentials",
	[PUSH_FILE] = "file",
	[PUSH_GONE] = "gone",
	[PUSH_STOPPED] = "stopped",
};

const char *push_outcome_name(enum push_outcome outcome)
{
	return outcome_names[outcome];
}

#if BPFPROF_PUSH

#define CURL_DISABLE_TYPECHECK /* its macros have the names of the functions */
#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/library.h"
#include "daemon/push_queue.h"
#include "daemon/push_request.h"

#define LIBRARY "libcurl.so.4"
#define CONNECT_MS 10000 /* at most, of the time of a request */
#define ANSWER_MAX 16384 /* bytes of headers and body that are looked at */
#define RETRY_AFTER_MAX_S 300

/* Loaded when the first URL is pushed to. */
static struct {
	void *handle;
	typeof(curl_easy_cleanup) *easy_cleanup;
	typeof(curl_easy_getinfo) *easy_getinfo;
	typeof(curl_easy_init) *easy_init;
	typeof(curl_easy_perform) *easy_perform;
	typeof(curl_easy_reset) *easy_reset;
	typeof(curl_easy_setopt) *easy_setopt;
	typeof(curl_easy_strerror) *easy_strerror;
	typeof(curl_global_cleanup) *global_cleanup;
	typeof(curl_global_init) *global_init;
	typeof(curl_slist_append) *slist_append;
	typeof(curl_slist_free_all) *slist_free_all;
	unsigned int nr_open;
} lib;

static const struct library_function functions[] = {
	{ "curl_easy_cleanup", &lib.easy_cleanup },
	{ "curl_easy_getinfo", &lib.easy_getinfo },
	{ "curl_easy_init", &lib.easy_init },
	{ "curl_easy_perform", &lib.easy_perform },
	{ "curl_easy_reset", &lib.easy_reset },
	{ "curl_easy_setopt", &lib.easy_setopt },
	{ "curl_easy_strerror", &lib.easy_strerror },
	{ "curl_global_cleanup", &lib.global_cleanup },
	{ "curl_global_init", &lib.global_init },
	{ "curl_slist_append", &lib.slist_append },
	{ "curl_slist_free_all", &lib.slist_free_all },
};

struct push_post {
	CURL *curl;
	const struct push_access *access;
};

/* One request. */
struct transfer {
	int fd; /* -1: the body is sent */
	const char *body;
	off_t at, size;
	size_t answered; /* bytes */
	const atomic_bool *stop;
	struct curl_slist *headers;
	struct buf tenant, bearer, basic; /* to be wiped */
};

static void library_leave(void)
{
	if (!--lib.nr_open)
		lib.global_cleanup();
}

int push_post_open(struct push_post **ret, const struct push_access *access)
{
	struct push_post *post;
	int err = library_load(&lib.handle, LIBRARY, functions,
			       sizeof(functions) / sizeof(functions[0]));

	if (err)
		return err;
	if (!lib.nr_open && lib.global_init(CURL_GLOBAL_DEFAULT))
		return -ENOMEM;
	lib.nr_open++;
	post = calloc(1, sizeof(*post));
	if (post)
		post->curl = lib.easy_init();
	if (!post || !post->curl) {
		free(post);
		library_leave();
		return -ENOMEM;
	}
	post->access = access;
	*ret = post;
	return 0;
}

void push_post_close(struct push_post *post)
{
	if (!post)
		return;
	lib.easy_cleanup(post->curl);
	free(post);
	library_leave();
}

static size_t on_read(char *dst, size_t size, size_t nr, void *arg)
{
	struct transfer *transfer = arg;
	size_t left = (size_t)(transfer->size - transfer->at);
	size_t want = size * nr < left ? size * nr : left;
	ssize_t n;

	if (transfer->fd < 0) {
		memcpy(dst, transfer->body + transfer->at, want);
		transfer->at += (off_t)want;
		return want;
	}
	n = pread(transfer->fd, dst, want, transfer->at);
	/*
	 * The file is shorter than its size a moment ago. No program shortens it, so the disk has
	 * failed.
	 */
	if (n < 0 || (!n && left))
		return CURL_READFUNC_ABORT;
	transfer->at += n;
	return (size_t)n;
}

static int on_seek(void *arg, curl_off_t off, int origin)
{
	struct transfer *transfer = arg;

	if (origin != SEEK_SET || off < 0 || off > transfer->size)
		return CURL_SEEKFUNC_FAIL;
	transfer->at = off;
	return CURL_SEEKFUNC_OK;
}

/* Headers and body: counted, not kept. Another result than the length ends the transfer. */
static size_t on_answer(char *data, size_t size, size_t nr, void *arg)
{
	struct transfer *transfer = arg;

	(void)data;
	transfer->answered += size * nr;
	return transfer->answered <= ANSWER_MAX ? size * nr : 0;
}

/* Called about once a second, and more often while bytes move. */
static int on_progress(void *arg, curl_off_t to_get, curl_off_t got, curl_off_t to_send,
		       curl_off_t sent)
{
	const struct transfer *transfer = arg;

	(void)to_get;
	(void)got;
	(void)to_send;
	(void)sent;
	return atomic_load(transfer->stop);
}

static void secret_fini(struct buf *secret)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->cap);
	buf_fini(secret);
}

static int header_add(struct transfer *transfer, const char *header)
{
	struct curl_slist *list = lib.slist_append(transfer->headers, header);

	if (!list)
		return -ENOMEM;
	transfer->headers = list;
	return 0;
}

/*
 * Adds prefix and the content of the file. The file is read each time, since it may be replaced
 * while the daemon runs.
 */
static int secret_make(struct buf *dst, const char *prefix, const char *path)
{
	buf_add_str(dst, prefix);
	return push_secret_read(dst, path);
}

static int headers_make(struct transfer *transfer, const struct push_access *access)
{
	char type[64];
	int err;

	snprintf(type, sizeof(type), "Content-Type: %s", access->content_type);
	err = header_add(transfer, type);
	/* Without this, a server that never answers 100 would cost a second each time. */
	if (!err)
		err = header_add(transfer, "Expect:");
	if (!err && access->tenant_file) {
		err = secret_make(&transfer->tenant, "X-Scope-OrgID: ", access->tenant_file);
		if (!err)
			err = header_add(transfer, transfer->tenant.data);
	}
	if (!err && access->bearer_file) {
		err = secret_make(&transfer->bearer, "Authorization: Bearer ", access->bearer_file);
		if (!err)
			err = header_add(transfer, transfer->bearer.data);
	}
	if (!err && access->basic_file)
		err = secret_make(&transfer->basic, "", access->basic_file);
	return err;
}

static void transfer_fini(struct transfer *transfer)
{
	for (struct curl_slist *header = transfer->headers; header; header = header->next)
		explicit_bzero(header->data, strlen(header->data));
	lib.slist_free_all(transfer->headers);
	secret_fini(&transfer->tenant);
	secret_fini(&transfer->bearer);
	secret_fini(&transfer->basic);
	if (transfer->fd >= 0)
		close(transfer->fd);
}

static void curl_prepare(struct push_post *post, const char *url, struct transfer *transfer)
{
	const struct push_access *access = post->access;
	long timeout_ms = access->timeout_ms;
	CURL *curl = post->curl;

	lib.easy_reset(curl); /* keeps the connection */
	lib.easy_setopt(curl, CURLOPT_URL, url);
	lib.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	lib.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	lib.easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
#if LIBCURL_VERSION_NUM >= 0x075500
	lib.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	lib.easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A name server that does not answer must not delay the end of the daemon. */
	lib.easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
#endif
	lib.easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	lib.easy_setopt(curl, CURLOPT_USERAGENT, "bpfprof/" BPFPROF_VERSION);
	lib.easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
	lib.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
			timeout_ms < CONNECT_MS ? timeout_ms : (long)CONNECT_MS);
	lib.easy_setopt(curl, CURLOPT_POST, 1L);
	lib.easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->size);
	lib.easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
	lib.easy_setopt(curl, CURLOPT_READDATA, transfer);
	lib.easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
	lib.easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
	lib.easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
	lib.easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
	lib.easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_answer);
	lib.easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
	lib.easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	lib.easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
	lib.easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	lib.easy_setopt(curl, CURLOPT_HTTPHEADER, transfer->headers);
	if (access->ca_file)
		lib.easy_setopt(curl, CURLOPT_CAINFO, access->ca_file);
	if (transfer->basic.data) {
		lib.easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		lib.easy_setopt(curl, CURLOPT_USERPWD, transfer->basic.data);
	}
}

static enum push_outcome outcome_of_status(int status)
{
	if (status >= 200 && status < 300)
		return PUSH_DELIVERED;
	if (status >= 300 && status < 400)
		return PUSH_REDIRECTED;
	switch (status) {
	case 401:
	case 403:
	case 407:
		return PUSH_DENIED;
	case 404:
		return PUSH_NOT_FOUND;
	case 408:
	case 425:
	case 429:
		return PUSH_BUSY;
	}
	return status >= 400 && status < 500   ? PUSH_REFUSED
	       : status >= 500 && status < 600 ? PUSH_SERVER
					       : PUSH_BROKEN;
}

static enum push_outcome outcome_of_error(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return PUSH_RESOLVE;
	case CURLE_COULDNT_CONNECT:
		return PUSH_CONNECT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		return PUSH_TLS;
	case CURLE_OPERATION_TIMEDOUT:
		return PUSH_TIMEOUT;
	case CURLE_ABORTED_BY_CALLBACK:
		return PUSH_STOPPED;
	default:
		return PUSH_BROKEN;
	}
}

static const char *words_of_error(CURLcode code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return "its certificate is not of this name, or not trusted (--push-ca-file, "
		       "--notify-ca-file)";
	case CURLE_SSL_CONNECT_ERROR:
		return "no TLS connection: does the server speak http:// only?";
	default:
		return lib.easy_strerror(code);
	}
}

static void send_prepared(struct push_post *post, struct transfer *transfer,
			  struct push_result *ret)
{
	curl_off_t after = 0;
	long status = 0;
	CURLcode code = lib.easy_perform(post->curl);

	lib.easy_getinfo(post->curl, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_ABORTED_BY_CALLBACK && transfer->at < transfer->size &&
	    !atomic_load(transfer->stop)) {
		ret->outcome = PUSH_FILE;
		ret->why = "it became shorter";
		return;
	}
	/*
	 * A status is the decision of the server, even if the rest of the answer fails. 1xx is no
	 * answer.
	 */
	if (status < 200 || status > 999) {
		ret->outcome = code ? outcome_of_error(code) : PUSH_BROKEN;
		ret->why = code ? words_of_error(code) : "no answer";
		return;
	}
	ret->status = (int)status;
	ret->outcome = outcome_of_status(ret->status);
	if (!lib.easy_getinfo(post->curl, CURLINFO_RETRY_AFTER, &after) && after > 0)
		ret->retry_after_s =
			after < RETRY_AFTER_MAX_S ? (unsigned int)after : RETRY_AFTER_MAX_S;
}

/* False: the file cannot be read. */
static bool transfer_open(struct transfer *transfer, const struct push_item *item,
			  struct push_result *ret)
{
	struct stat st;

	transfer->fd = -1;
	if (!item->path) {
		transfer->body = item->body;
		transfer->size = (off_t)strlen(item->body);
		return true;
	}
	transfer->fd = open(item->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (transfer->fd < 0 || fstat(transfer->fd, &st) || !S_ISREG(st.st_mode)) {
		ret->outcome = transfer->fd < 0 && errno == ENOENT ? PUSH_GONE : PUSH_FILE;
		ret->why = "it cannot be read";
		return false;
	}
	transfer->size = st.st_size;
	return true;
}

void push_post_send(struct push_post *post, const char *url, const struct push_item *item,
		    const atomic_bool *stop, struct push_result *ret)
{
	struct transfer transfer = { .stop = stop };
	int err;

	*ret = (struct push_result){ 0 };
	buf_init(&transfer.tenant, PUSH_SECRET_MAX + 64);
	buf_init(&transfer.bearer, PUSH_SECRET_MAX + 64);
	buf_init(&transfer.basic, PUSH_SECRET_MAX + 64);
	if (!transfer_open(&transfer, item, ret)) {
		transfer_fini(&transfer);
		return;
	}
	ret->bytes = (unsigned long long)transfer.size;
	err = headers_make(&transfer, post->access);
	if (err) {
		ret->outcome = PUSH_CREDENTIALS;
		ret->why =
			err == -EINVAL ? "is empty, or no text of one line" : strerrordesc_np(-err);
	} else {
		curl_prepare(post, url, &transfer);
		send_prepared(post, &transfer, ret);
		lib.easy_reset(post->curl); /* forgets the credentials */
	}
	transfer_fini(&transfer);
}

#else

int push_post_open(struct push_post **ret, const struct push_access *access)
{
	(void)ret;
	(void)access;
	return -EOPNOTSUPP;
}

void push_post_close(struct push_post *post)
{
	(void)post;
}

void push_post_send(struct push_post *post, const char *url, const struct push_item *item,
		    const atomic_bool *stop, struct push_result *ret)
{
	(void)post;
	(void)url;
	(void)item;
	(void)stop;
	*ret = (struct push_result){ .outcome = PUSH_BROKEN };
}

#endif
