// SPDX-License-Identifier: Apache-2.0
#include "memory/slowdown.h"

#include <criterion/criterion.h>

TestSuite(slowdown, .timeout = 60);

#define MS 1000000ULL

static const struct slowdown_rules tenth = { .max = 0.1, .call_ns = 1000, .return_ns = 1500 };

/*
 * A process that uses a CPU for a minute; own: the part of a tick that is its own work while probes are
 * in. Returns the cost of all probes per own CPU time.
 */
static double run(struct slowdown *s, const struct slowdown_rules *rules, double own)
{
	uint64_t now_ns = 0, cpu_ns = 0, cost_ns = 0;
	double costs = 0, owns = 0;
	int i;

	slowdown_begin(s, 0, 0);
	for (i = 0; i < 3000; i++) {
		uint64_t cost = s->off ? 0 : (uint64_t)((1 - own) * 20 * MS);

		now_ns += 20 * MS;
		cpu_ns += 20 * MS;
		cost_ns += cost;
		costs += (double)cost;
		owns += (double)(20 * MS - cost);
		if (slowdown_tick(s, rules, cpu_ns, cost_ns, now_ns)) {
			slowdown_switch(s, !s->off);
			cost_ns = 0;
		}
	}
	return costs / owns;
}

/* Few calls are watched all of the time. */
Test(slowdown, cheap)
{
	struct slowdown s;

	cr_expect_float_eq(run(&s, &tenth, 0.95), 0.0526, 0.001);
	cr_expect_not(s.windows);
	cr_expect_float_eq(slowdown_seen(&s), 1, 1e-9);
}

/* Many calls cost as much as is allowed, and not more, in windows. */
Test(slowdown, windows)
{
	static const double owns[] = { 0.8, 0.5, 0.2, 0.05 };
	struct slowdown s;
	double cost;
	size_t i;

	for (i = 0; i < sizeof(owns) / sizeof(owns[0]); i++) {
		cost = run(&s, &tenth, owns[i]);
		cr_expect(cost > 0.08 && cost < 0.105, "%f: %f", owns[i], cost);
		cr_expect(s.windows);
		/* The time of its own in windows. */
		cr_expect_float_eq(slowdown_seen(&s), cost * owns[i] / (1 - owns[i]), 0.01,
				   "%f: %f", owns[i], slowdown_seen(&s));
	}
}

/* Without a limit the probes stay. */
Test(slowdown, no_limit)
{
	static const struct slowdown_rules none = { .call_ns = 1000 };
	struct slowdown s;

	run(&s, &none, 0.02);
	cr_expect_not(s.windows);
}

/* A process that sleeps costs nothing; counts that go backwards do no harm. */
Test(slowdown, idle)
{
	struct slowdown s;

	slowdown_begin(&s, 5 * MS, 0);
	cr_expect_not(slowdown_tick(&s, &tenth, 5 * MS, 0, 20 * MS));
	cr_expect_not(slowdown_tick(&s, &tenth, 4 * MS, 0, 40 * MS));
	cr_expect_float_eq(slowdown_seen(&s), 1, 1e-9);
}
