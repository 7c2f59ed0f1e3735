// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_options.h"

struct session_options capture_session_options(const struct capture_options *options)
{
	struct session_options session = options->session;
	bool by_pid = options->nr_pids || options->child;

	session.filter |= by_pid && !options->nr_comms && !options->nr_workers;
	session.follow |= by_pid && !options->no_subprocesses;
	session.threads |= session.async;
	session.states |= session.deaths; /* for stalls (watch/stalls.h) */
	session.titles |= options->steps.stop || session.gpu_trace;
	session.gaps_alone |= session.gpu_waits && session.waits == SESSION_OFF_CPU;
	session.no_clock |=
		session.iterators || (session.waits == SESSION_OFF_CPU && !session.gaps_alone);
	return session;
}
