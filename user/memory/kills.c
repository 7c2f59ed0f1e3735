// SPDX-License-Identifier: Apache-2.0
#include "memory/kills.h"

#include <errno.h>
#include <string.h>

#include "base/vec.h"

const struct memory_kill *memory_kills_find(const struct memory_kills *kills, uint32_t pid,
					    uint64_t start_ns)
{
	size_t i;

	for (i = 0; i < kills->nr; i++)
		if (kills->list[i].key.pid == pid && kills->list[i].key.start_ns == start_ns)
			return &kills->list[i];
	return NULL;
}

static const struct memory_account *account_of(const struct memory_answer *answer, uint32_t pid)
{
	size_t i;

	for (i = 0; i < answer->nr_accounts; i++)
		if (answer->accounts[i].key.pid == pid)
			return &answer->accounts[i];
	return NULL;
}

static int answer_take(struct memory_answer *dst, const struct memory_answer *last,
		       const struct memory_account *account)
{
	int err = vec_grow(dst->accounts, dst->nr_accounts + 1, dst->cap_accounts, VEC_BOUNDED);
	size_t i;

	if (err)
		return err;
	for (i = 0; i < last->nr_rows && !err; i++)
		if (last->rows[i].pid == account->key.pid)
			err = memory_answer_add_row(dst, &last->rows[i]);
	dst->accounts[dst->nr_accounts++] = *account;
	return err;
}

static bool has_pid(const struct memory_kills *kills, uint32_t pid)
{
	return account_of(&kills->answer, pid) != NULL;
}

int memory_kills_merge(const struct memory_kills *kills, struct memory_answer *answer)
{
	const struct memory_answer *killed = &kills->answer;
	size_t nr = 0, i;
	int err = 0;

	for (i = 0; i < answer->nr_rows; i++)
		if (!has_pid(kills, answer->rows[i].pid))
			answer->rows[nr++] = answer->rows[i];
	answer->nr_rows = nr;
	for (i = 0, nr = 0; i < answer->nr_accounts; i++)
		if (!has_pid(kills, answer->accounts[i].key.pid))
			answer->accounts[nr++] = answer->accounts[i];
	answer->nr_accounts = nr;
	for (i = 0; i < killed->nr_accounts && !err; i++)
		err = answer_take(answer, killed, &killed->accounts[i]);
	return err;
}

int memory_kills_add(struct memory_kills *kills, const struct bpfprof_kill_event *event,
		     const struct memory_answer *last)
{
	const struct memory_account *account = account_of(last, event->pid);
	struct memory_kill *kill = NULL;
	size_t i;

	for (i = 0; i < kills->nr; i++)
		if (kills->list[i].key.pid == event->pid &&
		    (!account || kills->list[i].key.start_ns == account->key.start_ns))
			kill = &kills->list[i];
	if (kill) { /* the signal came twice, or now it is known to be of the OOM killer */
		kill->oom |= event->flags & BPFPROF_KILL_OOM;
		return 0;
	}
	if (!account)
		return 0;
	if (kills->nr == MAX_KILLS) {
		kills->nr_over++;
		return 0;
	}
	kill = &kills->list[kills->nr++];
	*kill = (struct memory_kill){
		.key = account->key,
		.ns = event->rec.ts_ns,
		.oom = event->flags & BPFPROF_KILL_OOM,
		.by_kernel = event->flags & BPFPROF_KILL_KERNEL,
		.sender = event->sender,
		.held_bytes = account->rss.anon_bytes,
		.limit_above = event->cgroup_above,
		.limit_bytes = event->cgroup_max_bytes ?: account->limit_bytes,
		.used_bytes = event->cgroup_used_bytes,
	};
	memcpy(kill->sender_name, event->comm, BPFPROF_COMM_LEN);
	return answer_take(&kills->answer, last, account);
}
