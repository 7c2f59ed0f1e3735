// SPDX-License-Identifier: Apache-2.0
#include "daemon/push_request.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/push_queue.h"

#define LABEL_MAX 256 /* bytes of one label */

static int refuse(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

/* NULL: there is no scheme in front of it. */
static const char *host_of(const char *url)
{
	if (!strncasecmp(url, "http://", 7))
		return url + 7;
	return strncasecmp(url, "https://", 8) ? NULL : url + 8;
}

size_t push_url_server(const char *url)
{
	const char *host = host_of(url) ?: url;

	return (size_t)(host - url) + strcspn(host, "/?#");
}

int push_url_check(const char *url, bool query, const char *secrets, struct buf *why)
{
	const char *host = host_of(url), *c;
	size_t len;

	if (!host)
		return refuse(why, "must begin with http:// or https://");
	for (c = url; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == '\\')
			return refuse(why, "holds a blank or a byte that no URL has");
	if (c - url > PUSH_URL_MAX)
		return refuse(why, "is too long");
	len = strcspn(host, "/?#");
	if (memchr(host, '@', len)) {
		buf_add_str(why, "must not hold a user or a password: everybody who sees the "
				 "process sees them; use ");
		return refuse(why, secrets);
	}
	if (!len || *host == ':')
		return refuse(why, "names no host");
	if (!query && strpbrk(host, "?#"))
		return refuse(why, "must end before a ? or #");
	return strchr(host, '#') ? refuse(why, "must end before a #") : 0;
}

static bool is_ours(const char *name, size_t len)
{
	static const char *const ours[] = { "host", "namespace", "pod", "service_name" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strlen(ours[i]) == len && !memcmp(ours[i], name, len))
			return true;
	return len >= 2 && !memcmp(name, "__", 2);
}

int push_label_check(const char *label)
{
	size_t len = strcspn(label, "="), i;

	if (!len || isdigit((unsigned char)*label) || !label[len] || !label[len + 1] ||
	    strlen(label) > LABEL_MAX || is_ours(label, len))
		return -EINVAL;
	for (i = 0; i < len; i++)
		if (!isalnum((unsigned char)label[i]) && label[i] != '_')
			return -EINVAL;
	return label[len + 1 + strcspn(label + len + 1, ",}")] ? -EINVAL : 0;
}

static void add_encoded(struct buf *dst, unsigned char c)
{
	if (isalnum(c) || strchr("-._~", c))
		buf_add_char(dst, (char)c);
	else
		buf_printf(dst, "%%%02X", c);
}

/* A value ends at a comma or a brace. There is no quoting, so these become '_'. */
static void add_value(struct buf *dst, const char *value)
{
	for (const char *c = value; *c; c++)
		add_encoded(dst, *c == ',' || *c == '}' || iscntrl((unsigned char)*c)
					 ? '_'
					 : (unsigned char)*c);
}

static void add_label(struct buf *dst, bool *first, const char *name, size_t len, const char *value)
{
	if (!value || !*value)
		return;
	buf_add_str(dst, *first ? "%7B" : "%2C");
	*first = false;
	buf_add(dst, name, len);
	buf_add_str(dst, "%3D");
	add_value(dst, value);
}

static void add_name(struct buf *dst, const struct push_labels *labels,
		     const struct push_item *item)
{
	bool first = true;
	const char *label;
	size_t i, len;

	buf_add_str(dst, PUSH_APPLICATION);
	add_label(dst, &first, "host", 4, labels->host);
	add_label(dst, &first, "namespace", 9, item->namespace);
	add_label(dst, &first, "pod", 3, item->pod);
	for (i = 0; i < labels->nr_more; i++) {
		label = labels->more[i];
		len = strcspn(label, "=");
		add_label(dst, &first, label, len, label + len + 1);
	}
	if (!first)
		buf_add_str(dst, "%7D");
}

void push_url_make(struct buf *dst, const char *url, const struct push_labels *labels,
		   const struct push_item *item)
{
	static const char ingest[] = "/ingest";
	size_t len = strlen(url), tail = sizeof(ingest) - 1;

	while (len && url[len - 1] == '/')
		len--;
	buf_add(dst, url, len);
	if (len < tail || memcmp(url + len - tail, ingest, tail))
		buf_add_str(dst, ingest);
	buf_add_str(dst, "?name=");
	add_name(dst, labels, item);
	buf_printf(dst,
		   "&from=%" PRIu64 "&until=%" PRIu64 "&format=pprof&sampleRate=%" PRIu32
		   "&spyName=bpfprof",
		   item->start, item->until, labels->hz);
}

int push_secret_read(struct buf *dst, const char *path)
{
	/* O_NONBLOCK: the open of a FIFO without a writer would wait. */
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char text[PUSH_SECRET_MAX + 3];
	struct stat st;
	ssize_t n = 0, len = 0, i;
	int err = 0;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	while (len < (ssize_t)sizeof(text) &&
	       (n = read(fd, text + len, sizeof(text) - (size_t)len)) > 0)
		len += n;
	if (n < 0)
		err = -errno;
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (!err && len > PUSH_SECRET_MAX)
		err = -E2BIG;
	for (i = 0; !err && i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			err = -EINVAL;
	if (!err && !len)
		err = -EINVAL;
	if (!err)
		buf_add(dst, text, (size_t)len);
	explicit_bzero(text, sizeof(text));
	return err ? err : buf_error(dst);
}
