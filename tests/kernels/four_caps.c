// SPDX-License-Identifier: Apache-2.0
/* Runs a command as uid 0 with exactly the four capabilities that bpfprof asks for. */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAP_BIT(cap) (1ULL << (cap))

int main(int argc, char **argv)
{
	const unsigned long long keep = CAP_BIT(CAP_BPF) | CAP_BIT(CAP_PERFMON) |
					CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_SYSLOG);
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	int i;

	for (i = 0; i < 64; i++)
		if (!(keep >> i & 1))
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	for (i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = (unsigned int)(keep >> (32 * i));
	if (argc < 2 || syscall(SYS_capset, &head, data)) {
		perror("four_caps");
		return 1;
	}
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
