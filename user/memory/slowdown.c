// SPDX-License-Identifier: Apache-2.0
#include "memory/slowdown.h"

#include "base/time.h"

#define WINDOW_COST_NS (NS_PER_SECOND / 20) /* of the probes in a window, and of the first one */
#define OWN_SHARE                                                                                  \
	0.02 /* the CPU time of a process is counted in steps, so its own part is at least this */

void slowdown_begin(struct slowdown *s, uint64_t cpu_ns, uint64_t now_ns)
{
	*s = (struct slowdown){ .cpu_ns = cpu_ns, .tick_ns = now_ns, .left_ns = WINDOW_COST_NS };
}

bool slowdown_tick(struct slowdown *s, const struct slowdown_rules *rules, uint64_t cpu_ns,
		   uint64_t cost_ns, uint64_t now_ns)
{
	double cpu = cpu_ns > s->cpu_ns ? (double)(cpu_ns - s->cpu_ns) : 0, own, cost = 0;

	if (!s->off)
		cost = cost_ns > s->cost_ns ? (double)(cost_ns - s->cost_ns) : 0;
	own = cpu - cost > OWN_SHARE * cpu ? cpu - cost : OWN_SHARE * cpu;
	s->all_ns += own;
	s->seen_ns += s->off ? 0 : own;
	s->window_ns += s->off ? 0 : now_ns - s->tick_ns;
	s->left_ns += own * rules->max - cost;
	if (s->left_ns > WINDOW_COST_NS)
		s->left_ns = WINDOW_COST_NS;
	s->cpu_ns = cpu_ns;
	s->cost_ns = s->off ? 0 : cost_ns;
	s->tick_ns = now_ns;
	if (!rules->max)
		return false;
	return s->off ? s->left_ns >= WINDOW_COST_NS : s->left_ns < 0;
}

void slowdown_switch(struct slowdown *s, bool off)
{
	s->off = off;
	s->windows += off;
	s->cost_ns = 0;
}

double slowdown_seen(const struct slowdown *s)
{
	if (!s->windows || s->all_ns <= 0 || s->seen_ns <= 0)
		return 1;
	return s->seen_ns / s->all_ns;
}
