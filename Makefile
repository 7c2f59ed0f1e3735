# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Output goes to $(B); nothing is written elsewhere.

B ?= build
# Where BPF programs and their skeletons are: no sanitizer changes them, so such a build takes those of another one.
BPF_B ?= $(B)
CC ?= cc
CLANG ?= clang
BPFTOOL ?= bpftool
CFLAGS ?= -O2 -g
LDFLAGS ?=
SAN ?=
PREFIX ?= /usr/local
DESTDIR ?=
V ?= 0
# 0: without libcurl, and so without daemon --push and --notify.
PUSH ?= 1
WERROR ?= $(if $(CI),1,0)
VERSION := 0.1.0
# bpftool lies there, where not everybody looks.
export PATH := $(PATH):/usr/sbin:/sbin

ARCH := $(shell uname -m)
BPF_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(ARCH)))

ifeq ($(V),1)
Q :=
msg = @:
else
Q := @
msg = @printf '  %-8s %s\n' '$(1)' '$(2)';
endif

WARNINGS := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wformat=2 \
	$(if $(filter 1,$(WERROR)),-Werror)
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DBPFPROF_VERSION='"$(VERSION)"' $(WARNINGS) \
	-fno-omit-frame-pointer -MMD -MP -Iuser -Ibpf -I$(BPF_B) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CFLAGS)
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS := -lbpf -lelf -lz -llzma -liberty -ljansson -lZydis -lncursesw -ltinfo -lpthread -lm

# Loaded by themselves, when something asks for them; all others together.
BPF_ALONE := kernel_memory
BPF_SRC := $(filter-out $(BPF_ALONE:%=bpf/%.bpf.c),$(wildcard bpf/*.bpf.c bpf/*/*.bpf.c))
BPF_OBJ := $(BPF_SRC:%.bpf.c=$(BPF_B)/%.bpf.o)
SKELS := $(BPF_B)/bpfprof.skel.h $(BPF_ALONE:%=$(BPF_B)/%.skel.h)
# Knowledge of one CPU is in folders with its name; see "An architecture" in docs/architecture.md.
LIB_SRC := $(filter-out user/cmd/main.c,$(wildcard user/*/*.c user/kernel/probes/*.c user/*/$(ARCH)/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
LIB := $(B)/libbpfprof.a
UNIT_SRC := $(wildcard tests/unit/*.c)
UNIT_OBJ := $(UNIT_SRC:%.c=$(B)/%.o)
# Tests that sanitizers refuse or slow down by minutes, and what these need: run without sanitizers by themselves.
UNSANITIZED_OBJ := $(patsubst %,$(B)/tests/unit/%.o,test_container_config test_hash_table test_python_lines \
	test_vec made_node made_profile no_libgit2)
HOSTBPF_SRC := $(wildcard tests/hostbpf/*.c) tests/unit/no_libgit2.c
HOSTBPF_OBJ := $(HOSTBPF_SRC:%.c=$(B)/%.o)

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all standins library test-programs deps demo check check-heavy prepare-heavy unit unit-unsanitized hostbpf system \
	system-beside system-measured kernels fuzz-smoke fuzz bench soak soak-alarms lint format layouts image counters \
	install uninstall clean help vmlinux
all: $(B)/bpfprof
library: $(LIB)
test-programs: $(B)/unit $(B)/hostbpf
# The target with sanitizers. One build serves tests and fuzzers: without libFuzzer its counters of coverage do nothing.
# Each test is a process that the program begins anew: without -no-pie, the loader relocates 600,000 words each time.
asan-%:
	@$(MAKE) --no-print-directory B=$(B)/asan BPF_B=$(B) CC=$(CLANG) SAN=fuzzer-no-link,address,undefined \
		CFLAGS='-O1 -g1' LDFLAGS=-no-pie $*

$(B)/bpfprof: $(B)/user/cmd/main.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# One static program for all images: py-spy and memray, which ask the agent of the node (docs/ray-dashboard.md).
MUSL_CC ?= musl-gcc
STANDIN_SRC := $(wildcard standins/*.c)
standins: $(B)/standins/py-spy $(B)/standins/memray
$(B)/standins/py-spy: $(STANDIN_SRC) $(wildcard standins/*.h)
	$(call msg,MUSL,$@)
	$(Q)command -v $(MUSL_CC) >/dev/null || { echo 'standins: there is no $(MUSL_CC): install musl-tools' >&2; exit 1; }
	$(Q)mkdir -p $(@D) && $(MUSL_CC) -static -Os -s -std=gnu11 -D_GNU_SOURCE -DBPFPROF_VERSION='"$(VERSION)"' \
		$(WARNINGS) -Wno-format-nonliteral -o $@ $(STANDIN_SRC)
$(B)/standins/memray: $(B)/standins/py-spy
	$(Q)ln -sf py-spy $@

$(LIB): $(LIB_OBJ)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(filter $(B)/user/kernel/%,$(LIB_OBJ)) $(UNIT_OBJ): | $(SKELS)
# With sanitizers the tests themselves compile in half the time without optimization.
ifneq ($(SAN),)
$(UNIT_OBJ): ALL_CFLAGS += -O0 -DSANITIZED
endif
$(B)/%.o: %.c
	$(call msg,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -c -o $@ $<

# The one file that knows libcurl is made again when PUSH is another than last time.
$(B)/user/daemon/push_post.o: ALL_CFLAGS += -DBPFPROF_PUSH=$(filter 1,$(PUSH))+0
$(B)/user/daemon/push_post.o: $(B)/push-$(PUSH)
$(B)/push-$(PUSH):
	$(Q)mkdir -p $(@D) && rm -f $(B)/push-? && touch $@

# Embedded by .incbin, which -MMD does not see.
$(B)/user/formats/html.o: user/formats/flame.css user/formats/flame_tree.js user/formats/flame.js \
	user/formats/timeline.js
$(B)/user/formats/svg.o: user/formats/svg.css user/formats/svg.js

# The BPF side: each file by itself, most of them linked into one object, then a skeleton header.
BPF_CC = $(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall $(if $(filter 1,$(WERROR)),-Werror) \
	-MMD -MP -Ivmlinux/$(ARCH) -Ibpf
$(BPF_B)/bpf/%.bpf.o: bpf/%.bpf.c
	$(call msg,BPF,$<)
	$(Q)mkdir -p $(@D) && $(BPF_CC) -c -o $@ $<

# Each header compiles when it is included first.
$(B)/bpf/%.bpf.h.ok: bpf/%.bpf.h
	$(call msg,HEADER,$<)
	$(Q)mkdir -p $(@D) && $(BPF_CC) -Werror -Wno-unused-function -x c -MF $(@:.ok=.d) -MT $@ -fsyntax-only $< && touch $@

$(BPF_B)/bpfprof.bpf.o: $(BPF_OBJ)
	$(call msg,GEN,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(BPF_ALONE:%=$(BPF_B)/%.bpf.o): $(BPF_B)/%.bpf.o: $(BPF_B)/bpf/%.bpf.o
	$(call msg,GEN,$@)
	$(Q)$(BPFTOOL) gen object $@ $<

$(SKELS): $(BPF_B)/%.skel.h: $(BPF_B)/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# Tests.
$(B)/unit: $(UNIT_OBJ) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcriterion -ldw

$(B)/unit-unsanitized: $(UNSANITIZED_OBJ) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcriterion

$(B)/hostbpf: $(HOSTBPF_OBJ) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcriterion -ldw

-include $(shell find $(B) $(filter-out $(B)/bpf,$(BPF_B)/bpf) -name '*.d' -type f -not -path '*/pythons/*' -not -path '*/heavy/*' 2>/dev/null)

deps: ; @tests/install-deps
demo: ; @tests/install-deps build && $(MAKE) --no-print-directory all && demo/run
check: deps ; @tests/run-all
check-heavy: deps ; @tests/run-heavy
prepare-heavy:
	@python3 -B tests/system/pythons.py $(B)/pythons; tests/kernels/run --prepare
	@tests/heavy/ray_and_torch --prepare; tests/heavy/python_builds --download
	@tests/heavy/browser --prepare
unit: $(B)/unit ; @tests/run-criterion $(B)/unit $(UNIT_FLAGS)
unit-unsanitized: $(B)/unit-unsanitized ; @tests/run-criterion $< $(UNIT_FLAGS)
counters: $(B)/unit ; @WRITE_PAGE=1 $(B)/unit --filter counters/page
hostbpf: $(B)/hostbpf ; @tests/run-criterion $(B)/hostbpf
system: all ; @tests/system/run
system-beside system-measured: system-%: all ; @tests/system/run --$*
kernels: all ; @tests/kernels/run
fuzz: ; @tests/fuzz/run $(FUZZ)
fuzz-smoke: ; @FUZZ_SECONDS=4 tests/fuzz/run
bench: all ; @tests/bench/run
soak: all ; @tests/soak/run $(SOAK_MINUTES)
soak-alarms: all ; @tests/soak/alarms $(SOAK_MINUTES)
image: all $(if $(shell command -v $(MUSL_CC)),standins) ; @deploy/image/build --program $(B)/bpfprof
lint: all $(patsubst %,$(B)/%.ok,$(wildcard bpf/*.bpf.h bpf/*/*.bpf.h)) ; @B=$(B) tests/lint
format: ; @git ls-files 'bpf/*.[ch]' 'user/*.[ch]' 'tests/*.[ch]' 'standins/*.[ch]' | xargs clang-format -i
layouts: ; @user/python/make-layouts --check
vmlinux: ; @vmlinux/generate

install: all
	install -D -m 755 $(B)/bpfprof $(DESTDIR)$(PREFIX)/bin/bpfprof
	install -m 755 deploy/k8s/kubectl-bpfprof $(DESTDIR)$(PREFIX)/bin/kubectl-bpfprof
	ln -sf kubectl-bpfprof $(DESTDIR)$(PREFIX)/bin/bpfprof-cluster
	install -D -m 644 man/bpfprof.1 $(DESTDIR)$(PREFIX)/share/man/man1/bpfprof.1
uninstall: ; rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,bpfprof kubectl-bpfprof bpfprof-cluster) $(DESTDIR)$(PREFIX)/share/man/man1/bpfprof.1
clean: ; rm -rf $(B)

help:
	@printf '%s\n' \
	'make              build $(B)/bpfprof (installs nothing)' \
	'make demo         install what is needed, build, profile a small workload, write demo/' \
	'make check        install what is needed, build, run every test' \
	'make check-heavy  the tests that need gigabytes of packages' \
	'make unit hostbpf system kernels fuzz-smoke lint    parts of check' \
	'make fuzz FUZZ=NAME   fuzz one parser until stopped' \
	'make standins    py-spy and memray that ask the agent, one static program (needs musl-gcc)' \
	'make PUSH=0       build without libcurl, daemon --push and --notify' \
	'make bench        measure costs side by side with perf' \
	'make soak         a daemon for two hours beside churn and attacks; SOAK_MINUTES=10' \
	'make soak-alarms  watch --stall beside ordinary work for two hours: no alarm' \
	'make image        the container image, $(B)/bpfprof-image.tar' \
	'make install      PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)' \
	'make counters     write the tables of docs/counters.md' \
	'make layouts      compare user/python/layouts.h with the CPython headers found here' \
	'make format vmlinux clean'
