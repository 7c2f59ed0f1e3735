// SPDX-License-Identifier: Apache-2.0
#include "container/cgroup_path.h"

#include <stdbool.h>
#include <string.h>

#define ID_HEX 64
#define UID_HEX 32
#define UID_DASHED 36
#define MAX_COMPONENTS 64

struct span {
	const char *at;
	size_t len;
	bool scope; /* a unit of systemd, without its .scope */
};

/* Each group below one of these is a container. */
static const char *const parents[] = { "k8s.io", "moby", "docker", "buildkit", "lxc" };

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_len(const char *at, size_t len)
{
	size_t n = 0;

	while (n < len && is_hex(at[n]))
		n++;
	return n;
}

static bool span_is(struct span span, const char *text)
{
	return span.len == strlen(text) && !memcmp(span.at, text, span.len);
}

static bool span_starts(struct span span, const char *text)
{
	return span.len >= strlen(text) && !memcmp(span.at, text, strlen(text));
}

static bool span_ends(struct span span, const char *text)
{
	size_t len = strlen(text);

	return span.len >= len && !memcmp(span.at + span.len - len, text, len);
}

static void span_drop_scope(struct span *span)
{
	span->scope = span_ends(*span, ".scope");
	if (span->scope)
		span->len -= strlen(".scope");
}

static bool is_parent(struct span span)
{
	size_t i;

	for (i = 0; i < sizeof(parents) / sizeof(parents[0]); i++)
		if (span_is(span, parents[i]))
			return true;
	return false;
}

/* systemd has _ instead of - in names of slices. */
int cgroup_is_pod_uid(const char *text, size_t len)
{
	size_t i;

	if (len == UID_HEX)
		return hex_len(text, len) == len;
	if (len != UID_DASHED)
		return 0;
	for (i = 0; i < len; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (text[i] != '-' && text[i] != '_')
				return 0;
		} else if (!is_hex(text[i])) {
			return 0;
		}
	}
	return 1;
}

/* Finds podUID or kubepods-burstable-podUID.slice; :cri-containerd:ID may follow. */
static void find_pod_uid(struct cgroup_ids *ids, struct span part)
{
	size_t i, len;

	for (i = 0; i + 3 + UID_HEX <= part.len; i++) {
		if (memcmp(part.at + i, "pod", 3) || (i && part.at[i - 1] != '-'))
			continue;
		for (len = UID_DASHED; len >= UID_HEX; len -= UID_DASHED - UID_HEX) {
			if (i + 3 + len > part.len || !cgroup_is_pod_uid(part.at + i + 3, len))
				continue;
			if (i + 3 + len < part.len && part.at[i + 3 + len] != '.')
				continue;
			memcpy(ids->pod_uid, part.at + i + 3, len);
			ids->pod_uid[len] = 0;
			for (i = 0; i < len; i++)
				if (ids->pod_uid[i] == '_')
					ids->pod_uid[i] = '-';
			return;
		}
	}
}

static void add(struct cgroup_ids *ids, struct span id, bool sure)
{
	size_t i;

	if (!id.len || id.len >= CGROUP_ID_MAX)
		return;
	for (i = 0; i < id.len;
	     i++) /* ids of containerd and names of docker have no other characters */
		if ((unsigned char)id.at[i] <= ' ' || (unsigned char)id.at[i] >= 0x7f)
			return;
	if (span_is(id, ".") || span_is(id, ".."))
		return;
	for (i = 0; i < ids->nr; i++)
		if (span_is(id, ids->ids[i]))
			return;
	if (ids->nr == CGROUP_MAX_IDS) {
		if (ids->nr_sure < ids->nr || !sure)
			return;
		/*
		 * Later ids are further out. The oldest is dropped: a container cannot displace its
		 * own id.
		 */
		memmove(ids->ids[0], ids->ids[1], (CGROUP_MAX_IDS - 1) * sizeof(ids->ids[0]));
		ids->nr--;
		ids->nr_sure--;
	}
	memcpy(ids->ids[ids->nr], id.at, id.len);
	ids->ids[ids->nr++][id.len] = 0;
	ids->nr_sure += sure;
}

/*
 * Is the end 64 hex digits, alone or behind a prefix (cri-containerd-, docker-,
 * x.slice:cri-containerd:)?
 */
static bool hex_id(struct span part, struct span *ret)
{
	struct span id = { part.at + part.len - ID_HEX, ID_HEX, false };

	if (part.len < ID_HEX || hex_len(id.at, id.len) != ID_HEX)
		return false;
	part.len -= ID_HEX;
	if (part.len && !strchr("-:.", part.at[part.len - 1]))
		return false;
	/*
	 * The monitor of a container runs outside of it: crio-conmon-ID.scope,
	 * libpod-conmon-ID.scope.
	 */
	if (span_ends(part, "conmon-"))
		return false;
	*ret = id;
	return true;
}

/* Is it an id of ECS: 32 hex digits, a dash, digits? */
static bool ecs_id(struct span part)
{
	size_t i;

	if (part.len < UID_HEX + 2 || hex_len(part.at, UID_HEX) != UID_HEX ||
	    part.at[UID_HEX] != '-')
		return false;
	for (i = UID_HEX + 1; i < part.len; i++)
		if (part.at[i] < '0' || part.at[i] > '9')
			return false;
	return true;
}

/* Finds an id that need not be hex by the text before it. parent: the component above, or empty. */
static bool named_id(struct span part, struct span parent, struct span *ret)
{
	static const char *const prefixes[] = { "cri-containerd-", "docker-", "libpod-", "nerdctl-",
						"crio-" };
	static const char lxc[] = "lxc.payload.";
	const char *colon;
	size_t i, len;

	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		len = strlen(prefixes[i]);
		if (part.scope && span_starts(part, prefixes[i])) {
			*ret = (struct span){ part.at + len, part.len - len, false };
			return true;
		}
	}
	if (span_starts(part, lxc)) {
		len = strlen(lxc);
		*ret = (struct span){ part.at + len, part.len - len, false };
		return true;
	}
	/*
	 * SLICE:PREFIX:ID is runc's form for systemd; the cgroupfs driver makes a folder of this
	 * name.
	 */
	colon = memrchr(part.at, ':', part.len);
	if (colon && memchr(part.at, ':', (size_t)(colon - part.at))) {
		*ret = (struct span){ colon + 1, (size_t)(part.at + part.len - colon - 1), false };
		return true;
	}
	*ret = part;
	return is_parent(parent) && !is_parent(part);
}

/* Is it a name that systemd, kubelet or Ray gives to a group that is no container? */
static bool is_no_container(struct span part)
{
	return span_ends(part, ".slice") || span_ends(part, ".service") ||
	       span_ends(part, ".mount") || is_parent(part) ||
	       (span_starts(part, "kubepods") && !memchr(part.at, ':', part.len)) ||
	       (span_starts(part, "pod") && cgroup_is_pod_uid(part.at + 3, part.len - 3)) ||
	       span_starts(part, "ray_node_") || memmem(part.at, part.len, "conmon-", 7);
}

static size_t split(struct span *parts, size_t cap, const char *path, size_t len)
{
	const char *end = path + len, *slash;
	size_t nr = 0;

	while (path < end) {
		slash = memchr(path, '/', (size_t)(end - path));
		if (!slash)
			slash = end;
		if (slash > path) {
			if (nr ==
			    /*
			     * The outermost parts count: below its own group a container may make
			     * any.
			     */
			    cap)
				break;
			parts[nr++] = (struct span){ path, (size_t)(slash - path), false };
		}
		path = slash + 1;
	}
	return nr;
}

static void parse_path(struct cgroup_ids *ids, const char *path, size_t len)
{
	struct span parts[MAX_COMPONENTS], id, none = { "", 0, false };
	size_t nr = split(parts, MAX_COMPONENTS, path, len), i;

	memset(ids, 0, sizeof(*ids));
	for (i = nr; i-- > 0;) {
		/* The outermost id counts: below its own group a container may make any. */
		find_pod_uid(ids, parts[i]);
		span_drop_scope(&parts[i]);
		if (hex_id(parts[i], &id))
			add(ids, id, true);
		else if (ecs_id(parts[i]))
			add(ids, parts[i], true);
	}
	for (i = nr; i-- > 0;)
		if (!is_no_container(parts[i]) && named_id(parts[i], i ? parts[i - 1] : none, &id))
			add(ids, id, ids->nr == ids->nr_sure);
	for (i = nr; i-- > 0;)
		if (!is_no_container(parts[i]))
			add(ids, parts[i], false);
}

/*
 * A line with more facts ranks higher; of equal lines, the one with the more trusted controllers.
 */
static unsigned int rank(const struct cgroup_ids *ids, const char *controllers, size_t len)
{
	static const char *const order[] = { "pids", "memory", "cpu", "name=systemd", "" };
	struct span span = { controllers, len, false };
	unsigned int i, n = 0;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (span_is(span, order[i]) ||
		    (order[i][0] && span_starts(span, order[i]) && span.len > strlen(order[i]) &&
		     span.at[strlen(order[i])] == ','))
			n = i + 1;
	return n + 8 * (ids->nr > 0) + 16 * (ids->pod_uid[0] != 0) + 32 * (ids->nr_sure > 0);
}

void cgroup_ids_parse(struct cgroup_ids *ret, const char *text)
{
	struct cgroup_ids ids;
	const char *end, *controllers, *path;
	unsigned int best = 0, n;

	memset(ret, 0, sizeof(*ret));
	for (; *text; text = *end ? end + 1 : end) {
		/* HIERARCHY:CONTROLLERS:PATH; the path may hold colons. */
		end = text + strcspn(text, "\n");
		controllers = memchr(text, ':', (size_t)(end - text));
		if (!controllers)
			continue;
		controllers++;
		path = memchr(controllers, ':', (size_t)(end - controllers));
		if (!path)
			continue;
		parse_path(&ids, path + 1, (size_t)(end - path - 1));
		n = rank(&ids, controllers, (size_t)(path - controllers));
		if (n > best) {
			*ret = ids;
			best = n;
		}
	}
}
