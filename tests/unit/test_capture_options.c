// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "capture/capture_options.h"

static struct session_options of(struct capture_options options)
{
	return capture_session_options(&options);
}

#define OF(...) of((struct capture_options){ __VA_ARGS__ })

Test(capture_options, asked_for)
{
	struct session_options session =
		OF(.session = {
			   .hz = 49, .clock = SESSION_CLOCK_TIMER, .gpu = true, .titles = true });

	cr_expect(session.hz == 49 && session.clock == SESSION_CLOCK_TIMER && session.gpu);
	cr_expect(session.titles);
	cr_expect_not(session.filter || session.follow || session.no_clock || session.gaps_alone);
	session = OF(.session = { .filter = true, .follow = true, .gaps_alone = true });
	cr_expect(session.filter && session.follow && session.gaps_alone && !session.titles);
}

Test(capture_options, processes)
{
	cr_expect(OF(.nr_pids = 1).filter && OF(.child = 7).filter);
	cr_expect(OF(.nr_pids = 1).follow && OF(.child = 7).follow);
	cr_expect_not(OF(.nr_pids = 1, .nr_comms = 1).filter);
	cr_expect_not(OF(.child = 7, .nr_workers = 1).filter);
	cr_expect(OF(.nr_pids = 1, .nr_comms = 1).follow);
	cr_expect_not(OF(.nr_pids = 1, .no_subprocesses = true).follow);
	cr_expect_not(OF(.nr_workers = 1).filter || OF(.nr_workers = 1).follow);
}

Test(capture_options, titles)
{
	cr_expect(OF(.steps = { .start = 1, .stop = 2 }).titles);
	cr_expect(OF(.session = { .gpu = true, .gpu_trace = true }).titles);
	cr_expect_not(OF(.nr_workers = 1).titles);
}

Test(capture_options, clock)
{
	struct session_options session = OF(.session = { .waits = SESSION_OFF_CPU });

	cr_expect(session.no_clock && !session.gaps_alone);
	cr_expect_not(OF(.session = { .waits = SESSION_WALL }).no_clock);
	cr_expect(OF(.session = { .iterators = true }).no_clock);
	session = OF(.session = { .waits = SESSION_OFF_CPU, .gpu_waits = true });
	cr_expect(session.gaps_alone && !session.no_clock);
	cr_expect_not(OF(.session = { .gpu_waits = true }).gaps_alone);
}
