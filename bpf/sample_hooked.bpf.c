// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clocks of sample.bpf.c for recordings with hooked returns, which walks pass over. A separate
 * program, because without them it loads four times as fast.
 */
#include "hooked.bpf.h"
#define SAMPLE_PERF sample_perf_hooked
#define ARM_TIMER arm_timer_hooked
#include "sample.bpf.c"
