// SPDX-License-Identifier: Apache-2.0
#include "memory/process_row.h"

#include <string.h>

#include "capture/sampler.h"
#include "memory/monitor.h"
#include "proc/processes.h"
#include "profile/aggregate.h"

bool process_is_watched(const struct memory_monitor *m, const struct aggregate_input *input)
{
	return !m->wants || m->wants(m->arg, input);
}

bool process_input_make(const struct memory_monitor *m, const struct process_key *key,
			const char *name, struct bpfprof_sample *sample,
			struct aggregate_input *ret)
{
	const struct sample_view view = { .sample = sample,
					  .stop = BPFPROF_STOP_INVALID,
					  .process = processes_find(m->sampler->reader.processes,
								    key->pid) };

	*sample = (struct bpfprof_sample){
		.task = { .pid = key->pid, .tid = key->pid, .start_ns = key->start_ns }
	};
	memcpy(sample->leader_comm, name, strnlen(name, sizeof(sample->leader_comm)));
	return sampler_input(m->sampler, &view, ret) && process_is_watched(m, ret);
}

int process_row_add(const struct memory_monitor *m, const struct memory_account *account,
		    const char *label, struct aggregate_call_at *ret)
{
	struct bpfprof_sample sample;
	struct aggregate_input input;

	process_input_make(m, &account->key, account->name, &sample, &input);
	input.own_pid = account->own_pid;
	return aggregate_add_row(m->aggregate, &input, aggregate_label(m->aggregate, label), ret);
}
