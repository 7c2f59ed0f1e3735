// SPDX-License-Identifier: Apache-2.0
/* crowd N: the first process of a container with N - 1 others; all sleep. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int i, nr = argc > 1 ? (int)strtoul(argv[1], NULL, 10) : 1;

	for (i = 1; i < nr && fork(); i++)
		;
	for (;;)
		pause();
}
