# The C user's front door.
#   make demo    builds the library and runs the examples
#   make test    installs what the tests need and runs all of them
#   make model   runs the queues in every order of a few threads' steps
#   make lib     builds target/release/librte.so and .a
#   make install PREFIX=/usr/local LIBDIR=lib DESTDIR=
#                puts library, headers, pkg-config and CMake files there; without cargo what make lib has built before.
#                make uninstall takes them away. LIBRARY=folder: of another build
#   make dist    packs it all for who has no cargo: target/dist/rte-VERSION-TARGET.tar.gz, which says what glibc it needs;
#                GLIBC=2.17: linked for that one (fetches zig and cargo-zigbuild)
#   make abi     what an older host would notice: the goldens, and with ABI_OLD=librte.so of a release's make abi, abidiff
#   make header  writes include/rte.h anew from src/abi
#   make docs    makes pages of include/rte.h, target/docs/html: needs doxygen
#   make fuzz    runs the hosts of fuzz/ under libFuzzer, FUZZ_SECONDS (60) each; installs cargo-fuzz if it is not there
#   make mutants changes the core in one place at a time and says which changes no test sees: hours, see tests/mutants.md
#   make bench   prints what is measured, with the machine it was measured on

CARGO ?= cargo
LIBRARY := target/release

.PHONY: all lib install uninstall dist abi demo test model header docs fuzz mutants bench clean

all: lib

lib:
	$(CARGO) build --release
	ln -sf librte.so $(LIBRARY)/librte.so.0
	bindings/native_libs.sh $(LIBRARY) >$(LIBRARY)/librte.libs

PREFIX ?= /usr/local
LIBDIR ?= lib
export PREFIX LIBDIR DESTDIR
BUILT := $(if $(and $(filter file,$(origin LIBRARY)),$(shell command -v $(CARGO))),lib)

install: $(BUILT)
	LIBRARY="$(LIBRARY)" bindings/install.sh install

uninstall:
	bindings/install.sh uninstall

DIST ?= target/dist
export DIST

ifdef GLIBC
# The unwinder must be that of the host, libgcc_s, else an exception of its own that reaches the library crashes it; zig would
# link one of its own.
ZIG := target/zig
OLD := $(shell uname -m)-unknown-linux-gnu
OLD_FLAGS = -C link-arg=$(shell $(CC) -print-file-name=libgcc_s.so.1) -C link-arg=-Wl,--allow-shlib-undefined

dist: $(ZIG)/bin/cargo-zigbuild
	PATH="$(CURDIR)/$(ZIG)/bin:$$PATH" RUSTFLAGS="$(OLD_FLAGS)" \
	    $(CARGO) zigbuild --release --lib --target $(OLD).$(GLIBC) --target-dir target/old
	LIBRARY=target/old/$(OLD)/release GLIBC=$(GLIBC) bindings/dist.sh

$(ZIG)/bin/cargo-zigbuild:
	python3 -m venv $(ZIG)
	$(ZIG)/bin/pip install --quiet cargo-zigbuild ziglang
else
dist: $(BUILT)
	LIBRARY="$(LIBRARY)" bindings/dist.sh
endif

demo: lib
	$(MAKE) -C examples_c demo

test:
	./tests/install.sh
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) test -- --show-output
	$(MAKE) model
	$(MAKE) lib
	$(MAKE) -C examples_c test

model:
	RUSTFLAGS="--cfg loom" $(CARGO) test --lib --target-dir target/model interleavings

# The types are in the debug information, of which a release has less.
abi:
	$(CARGO) test --test header --test layout --test symbols --test abi
	CARGO_PROFILE_RELEASE_DEBUG=full $(CARGO) build --release --lib --target-dir target/abi
ifdef ABI_OLD
	@command -v abidiff || { echo "abidiff is missing: it comes with abigail-tools"; exit 1; }
	abidiff --no-added-syms $(ABI_OLD) target/abi/release/librte.so
else
	@echo "To be kept with a release, as ABI_OLD of the next: target/abi/release/librte.so"
endif

header:
	RTE_BLESS=1 $(CARGO) test --test header

docs:
	mkdir -p target/docs
	doxygen docs/Doxyfile

# The sanitizer that it brings is not in the stable compiler yet.
fuzz:
	command -v cargo-fuzz || $(CARGO) install --locked cargo-fuzz
	for target in descriptors messages; do \
	    mkdir -p fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	        -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=1500 || exit 1; \
	done

# Each pass tries what those before it have missed, and the last one says what is left.
MUTANTS := RTE_ORACLE_SCHEDULES=40 RTE_INVARIANCE_SCHEDULES=40 RTE_SIMULATOR_SEEDS=40 RTE_OUTPUT_SCHEDULES=40 \
    $(CARGO) mutants --iterate
QUICK := oracle_engine failures own_outputs slow_consumers endings stops device_outputs reports parking threads \
    encode_isolation serve_thread
SLOW := invariance lane_simulator farewell serve replay replica on_output no_allocation virtual_time semantics bad_input \
    boundary stress

mutants:
	command -v cargo-mutants || $(CARGO) install --locked cargo-mutants
	rm -rf mutants.out mutants.out.old
	-$(MUTANTS) -C=--lib
	-RUSTFLAGS="--cfg loom" $(MUTANTS) -f 'src/queue/*.rs' -C=--lib -- -- interleavings
	-$(MUTANTS) $(QUICK:%=-C=--test=%)
	-$(MUTANTS) $(SLOW:%=-C=--test=%)
	cat mutants.out/missed.txt

bench:
	$(CARGO) bench --bench tick
	$(CARGO) bench --bench pace

clean:
	$(CARGO) clean
	$(MAKE) -C examples_c clean
