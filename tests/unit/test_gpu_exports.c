// SPDX-License-Identifier: Apache-2.0
/*
 * The exports of the real libraries of a CUDA toolkit against the table: every function that
 * launches, copies, allocates, frees, blocks or is a collective is in the table, or here with the
 * reason why it is not. The licence forbids to distribute the libraries: without a toolkit this
 * test is skipped.
 */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/functions.h"
#include "test_elf_fixture.h"

/* Names with these beginnings are not checked: the functions look up, create, set or get. */
static const char *const driver[] = {
	"*Launch*",	 "cuMemcpy*",	  "cuMemset*",	 "*Alloc*",	   "*Free*",
	"*MemCreate*",	 "*Release*",	  "*Register*",	 "*Unregister*",   "*Synchronize*",
	"*Prefetch*",	 "*ArrayCreate*", "*3DCreate*",	 "*ArrayDestroy*", "*PoolDestroy*",
	"*TrimTo*",	 "*MemMap*",	  "*MemUnmap*",	 "*Decompress*",   "*Discard*",
	"cuCtxDestroy*", "*CtxReset*",	  "*Upload*",	 "cuMemHost*",	   "*GetInfo*",
	"*StreamWait*",	 "*WriteValue*",  "*BatchMemOp*"
};
static const char *const nccl[] = { "nccl*" };

struct exception {
	const char *pattern;
	const char *reason;
};

static const struct exception driver_exceptions[] = {
	/* CUDA 3.1 and older: `unsigned int` for sizes and addresses, which no 64-bit program has. */
	{ "cuMemAlloc", "32-bit addresses" },
	{ "cuMemAllocHost", "32-bit sizes" },
	{ "cuMemAllocPitch", "32-bit addresses" },
	{ "cuMemFree", "32-bit addresses" },
	{ "cuMemGetInfo", "32-bit sizes" },
	{ "cuMemcpy[HDA]to[HDA]", "32-bit addresses" },
	{ "cuMemcpy[HDA]to[HDA]Async", "32-bit addresses" },
	{ "cuMemcpy[23]D", "32-bit addresses" },
	{ "cuMemcpy[23]DAsync", "32-bit addresses" },
	{ "cuMemcpy2DUnaligned", "32-bit addresses" },
	{ "cuMemsetD8", "32-bit addresses" },
	{ "cuMemsetD16", "32-bit addresses" },
	{ "cuMemsetD32", "32-bit addresses" },
	{ "cuMemsetD2D8", "32-bit addresses" },
	{ "cuMemsetD2D16", "32-bit addresses" },
	{ "cuMemsetD2D32", "32-bit addresses" },
	{ "cuArray*Create", "32-bit sizes" },
	{ "cuMemHostGetDevicePointer", "32-bit addresses" },
	{ "cuLaunch", "of CUDA 3, its grid is not among its arguments" },
	{ "cuLaunchGrid*", "of CUDA 3, its block is not among its arguments" },

	{ "cuLaunchHostFunc*", "runs on the host, once the stream is there" },
	{ "cuArray*Create_v2", "arrays for textures, their size is in a descriptor" },
	{ "cuMipmappedArray*", "the same" },
	{ "cuArrayDestroy", "the same" },
	{ "cuMemAddressFree", "addresses, not memory" },
	{ "cuMemMapArrayAsync*", "tiles of arrays, for what cuMemCreate allocated" },
	{ "cuMemPoolDestroy", "memory of a pool counts when it is handed out" },
	{ "cuMemPoolTrimTo", "the same" },
	{ "cuMemPrefetch*", "moves what is not there yet, how much is not known" },
	{ "cuMemDiscard*", "moves nothing, or as a prefetch does" },
	{ "cuMemBatchDecompress*", "an engine of its own, whose bytes are in structures" },
	{ "cuStreamWaitValue*", "four or eight bytes that a stream waits for" },
	{ "cuStreamWriteValue*", "or writes" },
	{ "cuStreamBatchMemOp*", "or several of these" },
	{ "cuGraph[!L]*", "a node of a graph: runs when that is launched" },
	{ "cuCtxDestroy*", "its memory goes with it, which nobody frees" },
	{ "cuDevicePrimaryCtxRe*", "the same" },
	{ "cuCtxResetPersistingL2Cache", "a cache" },
	{ "cuMemGetAllocation*", "a property" },
	{ "cuMemHostGet*", "a property" },
	{ "cuUserObjectRelease", "an object of the program" },
	{ "cuStreamGetCaptureInfo*", "a property" },
	{ "cu*Callback", "called by the driver" },
	{ "cuDevice*AsyncNotification", "the same" },
	{ "cuGraphicsUnregisterResource", "of a graphics library" },
	{ "cuGraphicsRegister*", "the same" },
};

static const struct exception nccl_exceptions[] = {
	{ "ncclMemAlloc", "made of cuMemCreate" },
	{ "ncclMemFree", "of cuMemRelease" },
	{ "ncclGroupSimulateEnd", "asks how long it would take" },
	{ "ncclCommRegister", "on this rank alone" },
	{ "ncclCommDeregister", "the same" },
	{ "ncclDevComm*", "for kernels that communicate by themselves" },
	{ "nccl*Requirement", "the same: sizes" },
	{ "ncclLLA2ACalcSlots", "the same" },
	{ "ncclTeam*", "the same: numbers of ranks" },
	{ "ncclCommCount", "a property" },
	{ "ncclCommCuDevice", "a property" },
	{ "ncclCommUserRank", "a property" },
	{ "ncclCommMemStats", "a property" },
	{ "ncclCommGetAsyncError", "a property" },
	{ "nccl*UniqueId", "makes a number" },
	{ "ncclGet*", "a property" },
	{ "ncclWinGet*", "a property" },
	{ "ncclParam*", "settings" },
	{ "ncclRedOp*", "how to reduce" },
	{ "ncclResetDebugInit*", "settings" },
};

static bool in_table(const char *name)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(functions[i].name, name))
			return true;
	return false;
}

static bool is_excepted(const char *name, const struct exception *exceptions, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!fnmatch(exceptions[i].pattern, name, 0))
			return true;
	return false;
}

static bool is_asked(const char *name, const char *const *patterns, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!fnmatch(patterns[i], name, 0))
			return true;
	return false;
}

/*
 * Names that are exported, but neither in the table nor excepted; returns the number of checked
 * names.
 */
static size_t exports_check(const char *path, const char *const *patterns, size_t nr_patterns,
			    const struct exception *exceptions, size_t nr_exceptions)
{
	struct nm_symbol *symbols;
	size_t asked = 0, nr, i;

	symbols = fixture_nm("-D --defined-only", path, &nr);
	for (i = 0; i < nr; i++) {
		char *name = symbols[i].name;

		name[strcspn(name, "@")] = 0;
		if (!is_asked(name, patterns, nr_patterns))
			continue;
		asked++;
		cr_expect_neq(in_table(name), is_excepted(name, exceptions, nr_exceptions),
			      "%s: %s is neither hooked nor said why not, or both", path, name);
	}
	free(symbols);
	return asked;
}

#define CHECK(what, least)                                                                         \
	do {                                                                                       \
		const size_t asked =                                                               \
			exports_check(found.gl_pathv[0], what, sizeof(what) / sizeof(what[0]),     \
				      what##_exceptions,                                           \
				      sizeof(what##_exceptions) / sizeof(what##_exceptions[0]));   \
                                                                                                   \
		cr_expect_gt(asked, least, "%s: only %zu names", found.gl_pathv[0], asked);        \
	} while (0)

Test(gpu_exports, driver)
{
	glob_t found;

	if (glob("/usr/local/cuda*/lib*/stubs/libcuda.so", 0, NULL, &found))
		cr_skip_test("no CUDA toolkit with a stub of libcuda");
	CHECK(driver, 200);
	globfree(&found);
}

Test(gpu_exports, nccl)
{
	glob_t found;

	if (glob("/usr/local/cuda*/lib*/libnccl.so.2", 0, NULL, &found) &&
	    glob("/usr/lib/x86_64-linux-gnu/libnccl.so.2", 0, NULL, &found))
		cr_skip_test("no libnccl of a CUDA toolkit or of the system");
	CHECK(nccl, 30);
	globfree(&found);
}
