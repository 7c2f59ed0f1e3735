// SPDX-License-Identifier: Apache-2.0
/* A C program that runs a Python program by libpython: embed PROGRAM.py */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>

__attribute__((noinline)) static int run_program(const char *path)
{
	FILE *file = fopen(path, "rb");
	int rc = -1;

	if (!file)
		return -1;
	rc = PyRun_SimpleFile(file, path);
	fclose(file);
	return rc;
}

int main(int argc, char **argv)
{
	int rc;

	if (argc != 2)
		return 2;
	Py_Initialize();
	PyRun_SimpleString("import os, sys\n"
			   "sys.path.insert(0, os.environ['TRUTH_FOLDER'])\n");
	rc = run_program(argv[1]);
	Py_FinalizeEx();
	return rc ? 1 : 0;
}
