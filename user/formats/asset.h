/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_ASSET_H
#define BPFPROF_FORMATS_ASSET_H

/*
 * ASSET(symbol, "path") places a file's bytes in the program, from symbol to
 * symbol_end. The path is relative to where the compiler runs: the repository's root.
 */
#define ASSET(symbol, path)                                                                        \
	extern const char symbol[], symbol##_end[];                                                \
	__asm__(".pushsection .rodata\n" #symbol ":\n"                                             \
		".incbin \"" path "\"\n" #symbol "_end:\n"                                         \
		".byte 0\n"                                                                        \
		".popsection\n")

#endif
