/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several CPythons in one process: two_pythons HOW LIBRARY CODE LIBRARY CODE. Each library is loaded into
 * a name space of its own; HOW is
 *	threads	each runs its code in a thread of its own, the second once the file READY is there
 *	nested	the first runs its code, which calls the function at the address in NESTED, which runs the
 *		second's
 *	idle	neither runs anything: they are only loaded
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct python {
	const char *path;
	void *library;
	const char *code;
} pythons[2];

static void nested(void);

/* To be called by the thread that uses it first: each C library knows threads of its own. */
static void python_load(struct python *python)
{
	int (*set)(const char *, const char *, int);
	char address[32];

	python->library = dlmopen(LM_ID_NEWLM, python->path, RTLD_NOW);
	if (!python->library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	/* And an environment of its own. */
	set = (int (*)(const char *, const char *, int))dlsym(python->library, "setenv");
	snprintf(address, sizeof(address), "%lu", (unsigned long)nested);
	set("NESTED", address, 1);
}

static void python_run(struct python *python)
{
	void (*init)(int) = (void (*)(int))dlsym(python->library, "Py_InitializeEx");
	int (*run)(const char *) =
		(int (*)(const char *))dlsym(python->library, "PyRun_SimpleString");

	init(0);
	if (run(python->code))
		exit(1);
}

static void nested(void)
{
	python_run(&pythons[1]);
}

static void *thread_main(void *arg)
{
	python_load(arg);
	python_run(arg);
	return NULL;
}

static void threads_run(void)
{
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, thread_main, &pythons[i]);
		while (!i && access(getenv("READY"), F_OK))
			usleep(10000);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 6)
		return 2;
	for (i = 0; i < 2; i++) {
		pythons[i].path = argv[2 + 2 * i];
		pythons[i].code = argv[3 + 2 * i];
	}
	if (!strcmp(argv[1], "threads")) {
		threads_run();
		return 0;
	}
	for (i = 0; i < 2; i++)
		python_load(&pythons[i]);
	while (!strcmp(argv[1], "idle"))
		pause();
	python_run(&pythons[0]);
	return 0;
}
