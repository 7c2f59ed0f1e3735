// SPDX-License-Identifier: Apache-2.0
/*
 * What a Python has of its garbage collector (Python/pydtrace.d), as a compiler writes it that knows
 * which generation is collected: each has a place of its own, where that is a constant.
 */
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define COLLECTION_US 2000

#define PROBE(name, arguments)                                                                     \
	__asm__ volatile("990:	nop\n"                                                              \
			 "	.pushsection .note.stapsdt, \"\", \"note\"\n"                           \
			 "	.balign 4\n"                                                            \
			 "	.4byte 992f - 991f, 994f - 993f, 3\n"                                   \
			 "991:	.asciz \"stapsdt\"\n"                                               \
			 "992:	.balign 4\n"                                                        \
			 "993:	.8byte 990b, 0, 0\n"                                                \
			 "	.asciz \"python\"\n"                                                    \
			 "	.asciz \"" name "\"\n"                                             \
			 "	.asciz \"" arguments "\"\n"                                        \
			 "994:	.balign 4\n"                                                        \
			 "	.popsection\n")

API void fake_python_young(void)
{
	PROBE("gc__start", "-4@$0");
	usleep(COLLECTION_US);
	PROBE("gc__done", "-8@$0");
}

API void fake_python_old(void)
{
	PROBE("gc__start", "-4@$2");
	usleep(COLLECTION_US);
	PROBE("gc__done", "-8@$0");
}
