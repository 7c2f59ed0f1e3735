// SPDX-License-Identifier: Apache-2.0
#include "daemon/push_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MIN_MS 1000
#define WAIT_MAX_MS 30000

static int text_copy(char **dst, const char *text)
{
	*dst = text ? strdup(text) : NULL;
	return text && !*dst ? -ENOMEM : 0;
}

int push_item_init(struct push_item *item, const char *path, const char *namespace, const char *pod)
{
	*item = (struct push_item){ 0 };
	if (text_copy(&item->path, path) || text_copy(&item->namespace, namespace) ||
	    text_copy(&item->pod, pod)) {
		push_item_fini(item);
		return -ENOMEM;
	}
	return 0;
}

void push_item_fini(struct push_item *item)
{
	free(item->path);
	free(item->body);
	free(item->namespace);
	free(item->pod);
	*item = (struct push_item){ 0 };
}

int push_queue_init(struct push_queue *queue, size_t cap)
{
	*queue = (struct push_queue){ .cap = cap };
	queue->items = calloc(cap, sizeof(*queue->items));
	return queue->items ? 0 : -ENOMEM;
}

void push_queue_fini(struct push_queue *queue)
{
	struct push_item item;

	while (!push_queue_take(queue, &item))
		push_item_fini(&item);
	free(queue->items);
	*queue = (struct push_queue){ 0 };
}

size_t push_queue_add(struct push_queue *queue, const struct push_item *item)
{
	struct push_item oldest = { 0 };
	size_t gone = 0;

	if (queue->nr == queue->cap) {
		push_queue_take(queue, &oldest);
		push_item_fini(&oldest);
		gone = 1;
	}
	queue->items[(queue->first + queue->nr++) % queue->cap] = *item;
	return gone;
}

int push_queue_take(struct push_queue *queue, struct push_item *ret)
{
	if (!queue->nr)
		return -ENOENT;
	*ret = queue->items[queue->first];
	queue->first = (queue->first + 1) % queue->cap;
	queue->nr--;
	return 0;
}

size_t push_queue_return(struct push_queue *queue, const struct push_item *item)
{
	struct push_item gone = *item;

	if (queue->nr == queue->cap) {
		push_item_fini(&gone);
		return 1;
	}
	queue->first = (queue->first + queue->cap - 1) % queue->cap;
	queue->items[queue->first] = *item;
	queue->nr++;
	return 0;
}

uint64_t push_wait_ms(unsigned int failures, uint32_t random)
{
	uint64_t ms = WAIT_MIN_MS;

	while (failures-- > 1 && ms < WAIT_MAX_MS)
		ms *= 2;
	if (ms > WAIT_MAX_MS)
		ms = WAIT_MAX_MS;
	return ms - ms / 2 * random / UINT32_MAX;
}
