// SPDX-License-Identifier: Apache-2.0
/*
 * What programs of compiled Python do (Nuitka): C code that puts a frame of its own on Python's chain, and
 * calls Python from there. compiled OUT; CPython 3.8 to 3.10.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

static const char program[] = "def key_of(number):\n"
			      "    total = 0\n"
			      "    for i in range(40):\n"
			      "        total += i * number\n"
			      "    return -number\n"
			      "def interpreted(out):\n"
			      "    open(out, 'w').close()\n"
			      "    while True:\n"
			      "        sorted(range(300), key=key_of)\n";

static __attribute__((noinline)) int compiled_call(PyObject *function, const char *out)
{
	PyObject *result = PyObject_CallFunction(function, "s", out);

	return result != NULL;
}

int main(int argc, char **argv)
{
	PyObject *globals, *result, *function;
	PyThreadState *tstate;
	PyFrameObject *frame;

	if (argc != 2)
		return 2;
	Py_Initialize();
	globals = PyModule_GetDict(PyImport_AddModule("__main__"));
	result = PyRun_String(program, Py_file_input, globals, globals);
	function = PyDict_GetItemString(globals, "interpreted");
	tstate = PyThreadState_Get();
	frame = PyFrame_New(tstate, PyCode_NewEmpty("compiled.py", "compiled", 7), globals, NULL);
	if (!result || !function || !frame)
		return 1;
	tstate->frame = frame;
	return compiled_call(function, argv[1]);
}
