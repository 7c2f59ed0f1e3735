/* SPDX-License-Identifier: Apache-2.0 */
/* A library that looks like a CPython of a version that does not exist: bpfprof says so, and names the file. Or, with KNOWN, of one that does. */
#define SHOWN __attribute__((visibility("default")))

SHOWN char _PyRuntime[1 << 17] = { 1 };

SHOWN void PyMemoryView_FromObject(void)
{
}

SHOWN long _PyEval_EvalFrameDefault(long n)
{
	for (volatile long i = 0; i < n; i++)
		;
	return n;
}

#ifdef KNOWN
SHOWN void PyConfig_Clear(void)
{
}

SHOWN void PyContextVar_New(void)
{
}

SHOWN void PyOS_FSPath(void)
{
}
#endif
