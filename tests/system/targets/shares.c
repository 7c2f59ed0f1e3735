/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Six functions of known CPU share. Each one's time is measured here with the
 * thread's CPU clock and written to argv[2] as NAME NANOSECONDS, after argv[1] seconds.
 */
#define TARGET_MAIN
#include "target.h"

#define SHARE(name)                                                                                \
	NOINLINE void share_##name(unsigned long rounds)                                           \
	{                                                                                          \
		for (unsigned long i = 0; i < rounds; i++)                                         \
			target_sink += i ^ (target_sink >> 3);                                     \
		BARRIER();                                                                         \
	}

SHARE(a)
SHARE(b)
SHARE(c)
SHARE(d)
SHARE(e)
SHARE(f)

static const struct {
	const char *name;
	void (*run)(unsigned long rounds);
	unsigned long weight;
} shares[] = {
	{ "share_a", share_a, 40 }, { "share_b", share_b, 25 }, { "share_c", share_c, 15 },
	{ "share_d", share_d, 10 }, { "share_e", share_e, 6 },	{ "share_f", share_f, 4 },
};

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t took[6] = { 0 }, end;
	FILE *out;

	if (argc < 3)
		return 2;
	end = cpu_ns(CLOCK_MONOTONIC) + strtoull(argv[1], NULL, 10) * 1000000000u;
	while (cpu_ns(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < 6; i++) {
			uint64_t before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);

			shares[i].run(shares[i].weight * 4000);
			took[i] += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		}
	}
	out = fopen(argv[2], "w");
	if (!out)
		return 1;
	for (int i = 0; i < 6; i++)
		fprintf(out, "%s %llu\n", shares[i].name, (unsigned long long)took[i]);
	fprintf(out, "total %llu\n", (unsigned long long)cpu_ns(CLOCK_PROCESS_CPUTIME_ID));
	return fclose(out) ? 1 : 0;
}
