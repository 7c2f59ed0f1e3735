allocator.o: user/kernel/probes/allocator.c \
  user/kernel/probes/allocator.h bpf/allocations.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h \
  user/cuda/code_values.h user/elf/instruction.h user/elf/arch.h \
  user/elf/x86_64/arch.h user/cuda/hook_place.h user/elf/image.h \
  user/elf/symbol_find.h

user/kernel/probes/allocator.h:

bpf/allocations.h:

bpf/bpfprof.h:

bpf/config.h:

bpf/arch.h:

bpf/arch_x86_64.h:

bpf/counters.h:

bpf/cpython.h:

bpf/record.h:

bpf/frame.h:

bpf/mappings.h:

bpf/reads.h:

user/cuda/code_values.h:

user/elf/instruction.h:

user/elf/arch.h:

user/elf/x86_64/arch.h:

user/cuda/hook_place.h:

user/elf/image.h:

user/elf/symbol_find.h:
