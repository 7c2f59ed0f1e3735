// SPDX-License-Identifier: Apache-2.0
#include "memory/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "memory/resident.h"

int memory_answer_add_row(struct memory_answer *answer, const struct held_row *row)
{
	int err = vec_grow(answer->rows, answer->nr_rows + 1, answer->cap_rows, VEC_BOUNDED);

	if (!err)
		answer->rows[answer->nr_rows++] = *row;
	return err;
}

int memory_answer_add_account(struct memory_answer *answer, const struct resident *resident)
{
	uint64_t shared_swap = resident_shared_swap(resident);
	struct memory_account *account;
	int err = vec_grow(answer->accounts, answer->nr_accounts + 1, answer->cap_accounts,
			   VEC_BOUNDED);

	if (err)
		return err;
	account = &answer->accounts[answer->nr_accounts++];
	*account = (struct memory_account){
		.key = resident->key,
		.own_pid = resident->own_pid,
		.forked = resident->begin == RESIDENT_FORK,
		.rss = resident->rss,
		.limit_bytes = resident->limit_bytes,
		.old_bytes = resident_old(resident) + shared_swap,
		.swap_bytes = resident->rss.swap_bytes - shared_swap,
		.lost_bytes = resident->lost_bytes,
		.drift_bytes = resident_drift(resident),
	};
	memcpy(account->name, resident->name, sizeof(account->name));
	answer->anon_bytes += resident->rss.anon_bytes;
	answer->swap_bytes += resident->rss.swap_bytes;
	return 0;
}

int memory_answer_copy(struct memory_answer *dst, const struct memory_answer *src)
{
	int err = vec_grow(dst->rows, src->nr_rows, dst->cap_rows, VEC_BOUNDED)
			  ?: vec_grow(dst->accounts, src->nr_accounts, dst->cap_accounts,
				      VEC_BOUNDED);

	if (err)
		return err;
	if (src->nr_rows)
		memcpy(dst->rows, src->rows, src->nr_rows * sizeof(*src->rows));
	if (src->nr_accounts)
		memcpy(dst->accounts, src->accounts, src->nr_accounts * sizeof(*src->accounts));
	dst->nr_rows = src->nr_rows;
	dst->nr_accounts = src->nr_accounts;
	dst->variance = src->variance;
	dst->anon_bytes = src->anon_bytes;
	dst->swap_bytes = src->swap_bytes;
	dst->ns = src->ns;
	return 0;
}

void memory_account_labels(const struct memory_account *account,
			   struct memory_label ret[MEMORY_NR_LABELS])
{
	ret[MEMORY_LABEL_OLD] =
		(struct memory_label){ account->forked ? MEMORY_SHARED : MEMORY_BEFORE,
				       (int64_t)account->old_bytes };
	ret[MEMORY_LABEL_LOST] = (struct memory_label){ MEMORY_LOST, (int64_t)account->lost_bytes };
	ret[MEMORY_LABEL_SWAPPED] =
		(struct memory_label){ MEMORY_SWAPPED, (int64_t)account->swap_bytes };
	ret[MEMORY_LABEL_DRIFT] = (struct memory_label){ MEMORY_DRIFT, account->drift_bytes };
}

void memory_answer_fini(struct memory_answer *answer)
{
	free(answer->rows);
	free(answer->accounts);
	*answer = (struct memory_answer){ 0 };
}
