# The whole build. One make, no recursion, no configure step.
#
#   V=1             show the commands
#   SAN=address     sanitizer build in its own tree (address, undefined, thread)
#   WERROR=         let warnings pass

ifeq ($(origin CC),default)
CC       := gcc
endif
Q        := $(if $(V),,@)
WERROR   ?= -Werror
B        := build/$(or $(SAN),release)
BIN      := $(if $(SAN),$(B)/bin,build/bin)
PKGS     := grpc libprotobuf-c libcjson libcrypto hdf5 libxxhash zlib

# ---- flags: ours, then yours (CPPFLAGS, CFLAGS, LDFLAGS come last) ---------
pre      := -Ilib -I. -I$(B)/gen -D_GNU_SOURCE $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
gen      := -std=gnu17 -O2 -g -ffp-contract=off -fno-math-errno -fno-common -fvisibility=hidden \
            -ffile-prefix-map=$(CURDIR)=.
warn     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2 \
            -Wcast-qual -Wwrite-strings -Wdouble-promotion -Wimplicit-fallthrough $(WERROR)
harden   := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection \
            -fcf-protection=full -ftrivial-auto-var-init=zero -fPIE
ldopt    := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed
libs     := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lgrpc -lgpr -lm -pthread
ifdef SAN
harden   := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
ldopt    := -fsanitize=$(SAN)
endif

# ---- what there is to build: found, never listed --------------------------
lib_c    := $(wildcard lib/*/*.c)
protos   := $(wildcard proto/*.proto)
gen_c    := $(protos:proto/%.proto=$(B)/gen/%.pb-c.c)
lib_o    := $(lib_c:%.c=$(B)/%.o) $(gen_c:%.c=%.o)
progs    := $(patsubst cmd/%/main.c,$(BIN)/%,$(wildcard cmd/*/main.c))
test_c   := $(wildcard tests/unit/test_*.c tests/conform/test_*.c tests/sim/test_*.c)
tests    := $(test_c:%.c=$(B)/%)
ref_o    := $(patsubst %.c,$(B)/%.o,$(wildcard tests/ref/*.c))
benches  := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
fuzzers  := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
replays  := $(fuzzers:%=%.replay)
libqring := $(B)/libqring.a

## make            the library and the programs: build/bin/qring, build/bin/qringd
all: $(libqring) $(progs)

## make test       everything that proves it: unit, conformance, golden, simulation and process tests
test: $(tests) $(replays) $(progs)
	$(Q)tests/run $(tests) $(replays)

## make help       this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

clean:
	rm -rf build compile_commands.json

# ---- how ------------------------------------------------------------------
# gcc 12's vectorisers form vfmaddsub even under -ffp-contract=off: kernel files are compiled without them.
novec := -fno-tree-vectorize -fno-tree-slp-vectorize
$(B)/lib/sim/kernel_portable.o: private isa := $(novec)
$(B)/lib/sim/kernel_avx2.o:     private isa := -mavx2 -mfma $(novec)
$(B)/lib/sim/kernel_avx512.o:   private isa := -mavx512f -mavx512dq -mfma $(novec)

flags   = $(pre) $(gen) $(warn) $(harden) $(CPPFLAGS) $(CFLAGS)
compile = $(CC) $(flags) $(isa) -MMD -MP -c $< -o $@
$(B)/%.o: %.c $(B)/.flags | $(gen_c)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(compile)

$(B)/gen/%.pb-c.c: proto/%.proto
	@mkdir -p $(@D)
	$(if $(Q),@echo "  PROTO $<")
	$(Q)protoc-c --proto_path=proto --c_out=$(B)/gen $<
$(B)/gen/%.pb-c.o: $(B)/gen/%.pb-c.c $(B)/.flags
	$(Q)$(CC) $(pre) $(gen) -w $(harden) -c $< -o $@

$(libqring): $(lib_o)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

link = $(CC) $(ldopt) $(LDFLAGS) $^ $(libs) -o $@
objs = $(addprefix $(B)/,$(addsuffix .o,$(basename $(wildcard $1/*.c))))
.SECONDEXPANSION:
$(progs): $(BIN)/%: $$(call objs,cmd/$$*) $(libqring)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(link)

$(tests) $(benches): %: %.o $(ref_o) $(libqring)
	$(Q)$(link)
$(replays): %.replay: %.o $(B)/tests/fuzz/replay.o $(libqring)
	$(Q)$(link)
$(fuzzers): %: %.o $(libqring)
	$(Q)$(CC) -fsanitize=fuzzer,address $^ $(libs) -o $@

# A change of flags rebuilds everything; an unchanged one rebuilds nothing.
$(B)/.flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(flags)' | cmp -s - $@ || echo '$(CC) $(flags)' > $@

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: all test help clean FORCE
.DEFAULT_GOAL := all
.SECONDARY:
