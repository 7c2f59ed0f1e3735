allocations_table.o: user/memory/allocations_table.c \
  user/memory/allocations.h user/base/counters.h user/base/process_map.h \
  user/base/hash_table.h bpf/bpfprof.h bpf/config.h bpf/arch.h \
  bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h bpf/record.h \
  bpf/frame.h bpf/mappings.h bpf/reads.h user/memory/slowdown.h \
  user/base/buf.h user/base/cleanup.h user/base/strtab.h \
  user/base/text.h user/formats/profile_text.h user/memory/holders.h \
  user/memory/table.h user/profile/profile.h

user/memory/allocations.h:

user/base/counters.h:

user/base/process_map.h:

user/base/hash_table.h:

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

user/memory/slowdown.h:

user/base/buf.h:

user/base/cleanup.h:

user/base/strtab.h:

user/base/text.h:

user/formats/profile_text.h:

user/memory/holders.h:

user/memory/table.h:

user/profile/profile.h:
