// SPDX-License-Identifier: Apache-2.0
/*
 * Watches which BPF programs are loaded, and prints of each name the most instructions that the
 * kernel went through to verify one: a line "NAME COUNT" whenever that grows. It refuses a program
 * beyond a million; how many it needs differs by kernel, tenfold at times.
 */

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAMES 64

static struct {
	char name[BPF_OBJ_NAME_LEN];
	unsigned int most;
} seen[MAX_NAMES];

static void note(const char *name, unsigned int verified)
{
	int i;

	for (i = 0; i < MAX_NAMES - 1 && seen[i].name[0] && strcmp(seen[i].name, name); i++)
		;
	snprintf(seen[i].name, sizeof(seen[i].name), "%s", name);
	if (verified <= seen[i].most)
		return;
	seen[i].most = verified;
	printf("%s %u\n", name, verified);
	fflush(stdout);
}

int main(void)
{
	for (;;) {
		unsigned int id = 0;

		while (!bpf_prog_get_next_id(id, &id)) {
			struct bpf_prog_info info = { 0 };
			unsigned int len = sizeof(info);
			int fd = bpf_prog_get_fd_by_id(id);

			if (fd < 0)
				continue;
			if (!bpf_obj_get_info_by_fd(fd, &info, &len) && info.name[0])
				note(info.name, info.verified_insns);
			close(fd);
		}
		usleep(300000);
	}
}
