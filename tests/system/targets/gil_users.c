/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of C that Python knows, by the way that they came to it: gil_users LIBRARY CODE. The main thread
 * began the interpreter and let it go; "kept" has a thread state and runs no Python; "gone" had one;
 * "calls" runs CODE, which makes the file READY.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

static void *function(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", name);
		exit(1);
	}
	return found;
}

static void *thread_main(void *arg)
{
	int (*ensure)(void) = (int (*)(void))function("PyGILState_Ensure");
	void (*release)(int) = (void (*)(int))function("PyGILState_Release");
	void *(*save)(void) = (void *(*)(void))function("PyEval_SaveThread");
	int (*run)(const char *) = (int (*)(const char *))function("PyRun_SimpleString");
	const char *name = arg;
	bool calls = strcmp(name, "kept") && strcmp(name, "gone");
	int state = ensure();

	pthread_setname_np(pthread_self(), calls ? "calls" : name);
	run(calls ? name : "import threading");
	if (!strcmp(name, "kept"))
		save();
	else
		release(state);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	static char kept[] = "kept", gone[] = "gone";
	pthread_t threads[3];

	if (argc != 3)
		return 2;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	((void (*)(int))function("Py_InitializeEx"))(0);
	((void *(*)(void))function("PyEval_SaveThread"))();
	pthread_create(&threads[0], NULL, thread_main, kept);
	usleep(100000);
	pthread_create(&threads[1], NULL, thread_main, gone);
	usleep(100000);
	pthread_create(&threads[2], NULL, thread_main, argv[2]);
	for (;;)
		pause();
}
