/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_ARCH_H
#define BPFPROF_ELF_ARCH_H

/*
 * The CPU of the build, as files know it. The header of a CPU defines ARCH_NAME (of uname()),
 * ARCH_MACHINE (of ELF headers) and ARCH_CODE_FILLER (Go's linker fills the bytes between functions
 * with it). The folder of a CPU also implements the headers beside this one that say so.
 */

#include <elf.h>

#if defined(__x86_64__)
#include "elf/x86_64/arch.h"
#else
#error "there is no folder for this CPU"
#endif

#endif
