// SPDX-License-Identifier: Apache-2.0
#include "daemon/push_options.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"
#include "daemon/push_request.h"
#include "options/values.h"

#define AT(field) FLAG_AT(struct push_options, field)
#define LABELS_MAX 16
#define FILE_ROW(field) FLAG_TEXT, AT(field), .refusal = "must be a file name"

static int take_label(void *object, const char *value, struct buf *why)
{
	struct push_options *options = object;

	if (push_label_check(value))
		return -EINVAL;
	return options->nr_labels == LABELS_MAX
		       ? value_refuse(why, "16 labels are enough")
		       : names_add(&options->labels, &options->nr_labels, value, strlen(value));
}

const struct flag push_flags[] = {
	{ "push", "URL", "send each profile to this Pyroscope server too", FLAG_TEXT, AT(url) },
	{ "push-tenant-file", "FILE", "its tenant (X-Scope-OrgID)", FILE_ROW(tenant_file) },
	{ "push-basic-auth-file", "FILE", "USER:PASSWORD for it", FILE_ROW(basic_file) },
	{ "push-bearer-token-file", "FILE", "a token for it, instead", FILE_ROW(bearer_file) },
	{ "push-ca-file", "FILE", "certificates that it is trusted by, instead of the\nsystem's",
	  FILE_ROW(ca_file) },
	{ "push-label", "NAME=VALUE", "one more label of all that is sent; may be given again",
	  FLAG_LIST, FLAG_LIST_AT(struct push_options, labels, nr_labels), .repeatable = true,
	  .take = take_label,
	  .refusal = "must be NAME=VALUE, like cluster=train-a; not host, namespace, pod or "
		     "service_name, and no , or } in it" },
	{ "push-timeout", "DURATION", "for one try (10s)", FLAG_DURATION, AT(timeout_ms),
	  .min = 1000000, .max = 600 * 1000000000ULL, .unit_ns = 1000000, .initial = 10000,
	  .refusal = "must be a duration up to 10 minutes, like 10s" },
	{ "push-queue", "N",
	  "profiles that wait for the server, then the oldest is\ndropped (1000)", FLAG_NUMBER,
	  AT(queue), .min = 1, .max = 100000, .initial = 1000,
	  .refusal = "must be a number from 1 to 100000" },
	{ .type = FLAG_END },
};

const struct flag notify_flags[] = {
	{ "notify", "URL", "--watch: send each death and stall there, too, as JSON\n(HTTP POST)",
	  FLAG_TEXT, AT(url) },
	{ "notify-token-file", "FILE", "a bearer token for it", FILE_ROW(bearer_file) },
	{ "notify-ca-file", "FILE", "certificates that it is trusted by, instead of the\nsystem's",
	  FILE_ROW(ca_file) },
	{ .type = FLAG_END },
};

static int check_url(const char *url, const char *flag, bool query, const char *secrets,
		     struct buf *error)
{
	if (!url)
		return 0;
	buf_printf(error, "%s: the URL ", flag);
	if (push_url_check(url, query, secrets, error))
		return -EINVAL;
	buf_reset(error);
	return 0;
}

int push_options_check_url(const struct push_options *options, struct buf *error)
{
	return check_url(options->url, "--push", false, "--push-basic-auth-file", error);
}

/* Many receivers of such requests have a query in their URL. */
int notify_options_check_url(const struct push_options *options, struct buf *error)
{
	return check_url(options->url, "--notify", true, "--notify-token-file", error);
}
