// SPDX-License-Identifier: Apache-2.0
#include "profile/call_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/utf8.h"

#define OVERFLOW_ID 1 /* the first id of every strtab */

void call_list_fini(struct call_list *list)
{
	strtab_free(list->labels);
	piece_set_fini(&list->calls);
	free(list->samples.data);
	*list = (struct call_list){ 0 };
}

/*
 * Takes the memory out of the budget at once: the table around the texts gets as much as the texts.
 */
static int labels_make(struct call_list *list, struct table_budget *budget)
{
	size_t share = budget->max_bytes / 16;
	int err;

	if (budget->bytes + 2 * share > budget->max_bytes)
		return -E2BIG;
	err = strtab_new(&list->labels, share);
	if (!err)
		budget->bytes += 2 * share;
	return err;
}

/* The length at which a long label is cut, between two characters. */
static size_t label_len(const char *text)
{
	size_t len = strnlen(text, AGGREGATE_LABEL_BYTES + 1);

	if (len <= AGGREGATE_LABEL_BYTES)
		return len;
	for (len = AGGREGATE_LABEL_BYTES; len > AGGREGATE_LABEL_BYTES - 3; len--)
		if (!utf8_continues(text[len]))
			break;
	return len;
}

uint32_t call_list_label(struct call_list *list, struct table_budget *budget, const char *text)
{
	if (!text || !*text)
		return 0;
	if (!list->labels && labels_make(list, budget)) {
		list->nr_unlabelled++;
		return OVERFLOW_ID;
	}
	return strtab_add_len(list->labels, text, label_len(text));
}

uint32_t call_list_add(struct call_list *list, struct table_budget *budget, uint64_t seed,
		       const struct aggregate_call_labels *labels)
{
	struct profile_call call = {
		.function = call_list_label(list, budget, labels->function),
		.kernel = call_list_label(list, budget, labels->kernel),
		.stream = call_list_label(list, budget, labels->stream),
		.comm = call_list_label(list, budget, labels->comm),
		.rank = call_list_label(list, budget, labels->rank),
		.op = call_list_label(list, budget, labels->op),
	};
	uint32_t index;

	if (piece_set_add(&list->calls, budget, seed, &call, PIECE_TYPE(call), &index) < 0) {
		list->nr_unlabelled++;
		return 0;
	}
	return index + 1;
}

int call_list_sample(struct call_list *list, struct table_budget *budget,
		     const struct aggregate_call_sample *sample)
{
	int err = vec_reserve(budget, &list->samples, 1, sizeof(*sample));

	if (!err)
		((struct aggregate_call_sample *)list->samples.data)[list->samples.nr++] = *sample;
	return err;
}

void call_list_view(const struct call_list *list, struct aggregate_view *view)
{
	view->calls = list->calls.items.data;
	view->nr_calls = list->calls.items.nr;
	view->call_samples = list->samples.data;
	view->nr_call_samples = list->samples.nr;
	view->labels = list->labels;
	view->nr_calls_lost = list->nr_lost;
	view->nr_labels_lost =
		list->nr_unlabelled + (list->labels ? strtab_nr_lost(list->labels) : 0);
}
