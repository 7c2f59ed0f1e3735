// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clocks of sample.bpf.c for when returns of calls are hooked, too: walks go on over those. A
 * program of its own, since what has none is loaded four times as fast without.
 */
#include "hooked.bpf.h"
#define SAMPLE_PERF sample_perf_hooked
#define ARM_TIMER arm_timer_hooked
#include "sample.bpf.c"
