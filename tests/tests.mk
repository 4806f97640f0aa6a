# Tests, checks and fuzzing: see tests/README.md. Everything is found by its name, nothing is listed:
#   tests/unit/test_<room>_*.c with tests/unit/main.c          the binary build/tests/unit_<room>
#   tests/<folder>/<name>.c that has a main function           the program build/tests/<name>
#   every other tests/<folder>/*.c                             the helpers that both may call
#   tests/scenario/*.sh, executable                            a scenario with real daemons
#   tests/hostile/*.sh, executable                             the same with users that attack one another
#   tests/fuzz/fuzz_<name>.c                                   the fuzzer build/fuzz/tests/fuzz_<name>

CHECK_LIBS = $(shell $(PKG_CONFIG) --libs check)

sources_with_main = $(if $(strip $(1)),$(shell grep -lE '^int main\b' $(1)))
objects_of = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
without_main = $(filter-out $(call objects_of,$(call sources_with_main,$(patsubst \
	$(OUT)/obj/%.o,%.c,$(1)))),$(1))

# Helpers and programs ----------------------------------------------------------------------------

SUPPORT_SRC := $(filter-out tests/unit/% tests/fuzz/% tests/explore/%,$(wildcard tests/*/*.c))
TEST_PROGRAM_SRC := $(call sources_with_main,$(SUPPORT_SRC))
TEST_PROGRAMS := $(addprefix $(OUT)/tests/,$(basename $(notdir $(TEST_PROGRAM_SRC))))
LIBSUPPORT := $(OUT)/tests/libsupport.a

$(LIBSUPPORT): $(call objects_of,$(filter-out $(TEST_PROGRAM_SRC),$(SUPPORT_SRC)))
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcsD $@ $^

# What one needs beside the libraries: the parts of serverk that microbench measures.
PROGRAM_NEEDS_microbench := $(call without_main,$(SERVERK_OBJ))
PROGRAM_NEEDS_held_disk := $(call without_main,$(SERVERK_OBJ))
# microbench counts calls without the system calls that send and receive.
PROGRAM_LDFLAGS_microbench := -Wl,--wrap=mq_send,--wrap=mq_receive

define test_program_rule
$(OUT)/tests/$(basename $(notdir $(1))): $(call objects_of,$(1)) $(LIBSUPPORT) $(PROGRAM_NEEDS_$(basename $(notdir $(1)))) $(LIBS)
	$$(CC) $$(BASE_LDFLAGS) $$(PROGRAM_LDFLAGS_$(basename $(notdir $(1)))) $$(LDFLAGS) -o $$@ $$^ -lxxhash -lm \
	  $(if $(PROGRAM_NEEDS_$(basename $(notdir $(1)))),-lseccomp -linih $(NATS_LIBS))
endef
$(foreach source,$(TEST_PROGRAM_SRC),$(eval $(call test_program_rule,$(source))))

# Unit binaries: what a room may call is what its tests are linked with ----------------------------

room_of = $(word 2,$(subst _, ,$(notdir $(1))))
UNIT_ROOMS := $(filter-out $(if $(NATS),,natskv) $(if $(filter no,$(LAB)),lab allocator),$(sort $(foreach source,$(wildcard tests/unit/test_*.c), \
	$(call room_of,$(source)))))
UNIT_BINARIES := $(addprefix $(OUT)/tests/unit_,$(UNIT_ROOMS))

UNIT_NEEDS_common := $(COMMON_OBJ)
UNIT_NEEDS_allocator := $(OUT)/liballocator.a
UNIT_NEEDS_kvstore := $(OUT)/libkvstore.a
UNIT_NEEDS_wire := $(WIRE_OBJ) $(COMMON_OBJ)
UNIT_NEEDS_serverk := $(call without_main,$(SERVERK_OBJ)) $(WIRE_OBJ) $(OUT)/libkvstore.a
UNIT_NEEDS_lab := $(UNIT_NEEDS_serverk)
UNIT_NEEDS_natskv := $(NATSKV_OBJ) $(COMMON_OBJ)
UNIT_NEEDS_mirror := $(call objects,bridges/cluster/mirror) $(NATSKV_OBJ) $(OUT)/libkvstore.a
UNIT_NEEDS_program := $(call without_main,$(CLIENTK_PROGRAM_OBJ)) $(OUT)/libclientk.a
UNIT_NEEDS_kresp := $(call without_main,$(KRESP_OBJ)) $(OUT)/libclientk.a
UNIT_NEEDS_clientk := $(call without_main,$(CLIENTK_PROGRAM_OBJ)) $(OUT)/libclientk.a $(OUT)/libkvstore.a

define unit_binary_rule
$(OUT)/tests/unit_$(1): $(call objects_of,tests/unit/main.c $(filter-out $(if $(LUA),,%/test_kresp_scripts.c),$(wildcard tests/unit/test_$(1)_*.c))) \
		$(LIBSUPPORT) $(UNIT_NEEDS_$(1))
	$$(CC) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(CHECK_LIBS) -lxxhash -lm \
	  $(if $(filter clientk program,$(1)),-ledit -lzstd) $(if $(filter serverk lab kresp,$(1)),-lseccomp) $(if $(filter serverk lab,$(1)),-linih) $(if $(filter serverk lab natskv mirror,$(1)),$(NATS_LIBS)) $(if $(filter kresp,$(1)),$(LUA_LIBS))
.PHONY: unit-$(1)
unit-$(1): $(OUT)/tests/unit_$(1) $(if $(filter clientk serverk,$(1)),$(PROGRAMS))
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run $$<
endef
$(foreach room,$(UNIT_ROOMS),$(eval $(call unit_binary_rule,$(room))))

# Recursive makes use every CPU, unless whoever called make said otherwise.
PARALLEL = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# Running -----------------------------------------------------------------------------------------

QUEUE_FREE := $(filter %_common %_allocator %_kvstore %_history %_program %_kresp,$(UNIT_BINARIES))
QUEUE_USERS := $(filter-out $(QUEUE_FREE),$(UNIT_BINARIES))
# What takes long says so in a line of its own, and why: `make check` runs it, and not `make test`.
ALL_SCENARIOS = $(sort $(filter-out %/lib.sh,$(wildcard tests/scenario/*.sh tests/hostile/*.sh)))
LONG_SCENARIOS = $(shell grep -lE '^\# long: ' $(ALL_SCENARIOS))
SCENARIOS = $(filter-out $(LONG_SCENARIOS),$(ALL_SCENARIOS))

.PHONY: test check check-asan check-tsan test-binaries test-run check-run
# The echo's load program stands for those of all peers: they link with what clientk calls.
test-binaries: all $(TEST_PROGRAMS) $(UNIT_BINARIES) $(OUT)/peers/peer_echo $(OUT)/peers/echo_server \
	$(if $(filter release,$(VARIANT)),$(EXPLORE_OUT)/explore) \
	$(if $(filter-out tsan fuzz,$(VARIANT)),$(PYTHON_IF_THERE))

test:
	@tests/deps
	@$(MAKE) --no-print-directory test-run

# The sanitizers' code makes gcc guess more: there its warnings are no errors.
TEST_CFLAGS = $(CFLAGS) $(if $(filter release,$(VARIANT)),-Werror)
build_tests = mkdir -p $(OUT) && echo 'building into $(OUT)' && \
	$(MAKE) --no-print-directory -s $(PARALLEL) CFLAGS='$(TEST_CFLAGS)' test-binaries \
	  >$(OUT)/test-build.log 2>&1 || { cat $(OUT)/test-build.log; echo 'the build failed'; echo '0 passed, 1 failed'; exit 1; }

test-run:
	@$(build_tests)
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run \
	  $(QUEUE_FREE) -- $(QUEUE_USERS) $(SCENARIOS)

# The programs of the coverage build are those that tests/bench/on_the_way counts.
check:
	@tests/deps
	@tests/deps check || echo 'check: what needs these packages is skipped' >&2
	@$(MAKE) --no-print-directory check-run

check-run:
	@$(build_tests)
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run $(LONG_SCENARIOS)

check-asan check-tsan: check-%:
	@tests/deps
	@$(MAKE) --no-print-directory VARIANT=$* OUT=$(OUT)/$* test-run

# The same tests with programs that clang built.
.PHONY: check-clang
check-clang:
	@tests/deps
	@$(MAKE) --no-print-directory CC=clang OUT=$(OUT)/clang test-run

# Which lines and branches the tests reach: by the unit tests alone, and by all.
.PHONY: coverage
coverage:
	@tests/deps coverage
	@$(MAKE) --no-print-directory -s $(PARALLEL) VARIANT=coverage OUT=$(OUT)/coverage test-binaries
	@tests/coverage/measure $(OUT)/coverage $(UNIT_BINARIES:$(OUT)/%=$(OUT)/coverage/%) -- $(ALL_SCENARIOS)

# The figures of docs/TESTING.md, from runs of today: of all, or of FIGURES="NAME...".
.PHONY: testing-page
FIGURES ?=
testing-page:
	@tests/figures --build $(OUT) $(FIGURES)

# That of the long checks whose last green run in docs/TESTING.md is oldest.
.PHONY: rota
rota:
	@tests/figures --build $(OUT) --rota

# For targets that first install what the build needs.
.PHONY: test-programs
test-programs: all $(TEST_PROGRAMS)

# Redis' tools, client libraries and other people's tests (REDIS_SOURCE, RESP_COMPATIBILITY, REDIS_PY: source
# trees) on kresp; what is not there is skipped by name.
.PHONY: check-redis
check-redis:
	@tests/deps redis
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-programs
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run $(wildcard tests/redis/check_*.sh) \
	  $(wildcard tests/scenario/kresp_*.sh)

# Other people's tests and programs on the Python package: from PyPI, into an environment in build/check-python.
.PHONY: check-python
check-python:
	@tests/deps wheel
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-programs python
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run $(wildcard tests/python/check_*.sh)

.PHONY: check-nats
check-nats:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-programs
	@MQKV_BUILD=$(OUT) MQKV_VARIANT=$(VARIANT) tests/run $(wildcard tests/nats/cluster_*.sh)

.PHONY: crash-test
CRASH_ROUNDS ?= 50
crash-test:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-programs
	MQKV_BUILD=$(OUT) CRASH_ROUNDS=$(CRASH_ROUNDS) tests/crash/crash-loop

# Other judges for histories than tests/history; skips by name what is not there. SEED takes the same keys and calls again.
.PHONY: check-porcupine
HISTORIES ?= 15
check-porcupine:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-programs
	@MQKV_BUILD=$(OUT) HISTORIES=$(HISTORIES) tests/porcupine/run

# Fuzzing -----------------------------------------------------------------------------------------

FUZZ_SECONDS ?= 30
FUZZERS_ONLY ?=
FUZZERS := $(filter-out $(if $(LUA),,%/fuzz_script),$(patsubst tests/fuzz/%.c,$(OUT)/tests/%,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_ROOMS := $(OUT)/tests/librooms.a
# Fuzzing systems of others bring a libFuzzer of their own (.clusterfuzzlite/build.sh).
FUZZ_LINK ?= $(CC) -fprofile-instr-generate -fsanitize=fuzzer

.PHONY: fuzz fuzz-binaries
fuzz:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) OUT=$(OUT)/fuzz CC=clang VARIANT=fuzz fuzz-binaries
	@MQKV_BUILD=$(OUT)/fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run $(FUZZERS_ONLY)

fuzz-binaries: $(FUZZERS)

$(FUZZ_ROOMS): $(COMMON_OBJ) $(KVSTORE_OBJ) $(WIRE_OBJ) $(CLIENTK_OBJ) \
		$(call without_main,$(SERVERK_OBJ) $(CLIENTK_PROGRAM_OBJ) $(KRESP_OBJ))
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcsD $@ $^

$(OUT)/tests/fuzz_%: $(OUT)/obj/tests/fuzz/fuzz_%.o $(LIBSUPPORT) $(FUZZ_ROOMS)
	$(FUZZ_LINK) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ -lxxhash -ledit -lzstd -lseccomp -linih $(NATS_LIBS) $(LUA_LIBS) -lm

# Hostile input at scale: with the sanitizers, for HOSTILE_SECONDS in all, or for so many messages and stores.
.PHONY: hostile
HOSTILE_SECONDS ?= 180
HOSTILE_MESSAGES ?= 0
HOSTILE_STORES ?= 0
HOSTILE_SEED ?= 0
hostile:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) test-binaries
	@$(MAKE) --no-print-directory -s $(PARALLEL) VARIANT=asan OUT=$(OUT)/asan test-binaries
	@python3 tests/hostile/long --build $(OUT)/asan --plain-build $(OUT) --seconds $(HOSTILE_SECONDS) --seed $(HOSTILE_SEED) \
	  --messages $(HOSTILE_MESSAGES) --stores $(HOSTILE_STORES) $(HOSTILE_OPTIONS)

# Linting: each check is a target of its own ------------------------------------------------------

LINT_OUT = $(OUT)/lint
C_FILES := $(sort $(foreach room,$(ROOMS) bridges/python,$(call sources,$(room))) $(wildcard tests/*/*.c) \
	$(filter-out experiments/peers/%,$(wildcard experiments/*/*.c)))
H_FILES := $(sort $(wildcard $(foreach room,$(ROOMS) bridges/python,$(room)/*.h $(room)/*/*.h $(room)/*/*/*.h) include/mqkv/*.h tests/*/*.h))
SHELL_FILES = $(shell find . \( -path ./.git -o -path ./build -o -path ./datafiles \
	-o -path ./tests/fuzz/corpus -o -path ./experiments/runs \) -prune \
	-o -type f -not -name '*.[ch]' -not -name '*.md' -print | xargs grep -lE -m 1 '^\#!.*\b(ba)?sh\b')
MAN_FILES = $(wildcard docs/*.[13])

PYTHON_FILES = $(wildcard tests/*/*.py tests/*/*/*.py experiments/*/*.py bridges/python/*.py bridges/python/*/*.py) \
	$(shell grep -lE -m 1 '^\#!.*\bpython3' experiments/* tests/* tests/*/* demo/* packaging/* 2>/dev/null | grep -v '\.py$$')

LINTS := lint-format lint-names lint-width lint-includes lint-orders lint-headers lint-gcc lint-clang \
	lint-cppcheck lint-tidy lint-shell lint-python lint-man lint-docs lint-figures lint-abi lint-sentences lint-words lint-rota
.PHONY: lint $(LINTS)
lint:
	@tests/deps
	@$(MAKE) --no-print-directory -k -Otarget $(PARALLEL) $(LINTS)
	@echo 'lint: nothing to complain about'

lint-format:
	@clang-format --dry-run -Werror $(C_FILES) $(H_FILES)
	@echo 'lint: format is right'

lint-includes:
	@tests/lint/includes

# How much code each part of the tree has.
LINES_OF_core := include common sandbox wire kvstore engine serverk clientk
LINES_OF_tools := tools
LINES_OF_lab := lab
LINES_OF_bridges := bridges
.PHONY: lines
lines:
	@$(foreach part,core tools lab bridges,for room in $(LINES_OF_$(part)) $(if $(word 2,$(LINES_OF_$(part))),'$(LINES_OF_$(part))'); do \
	  printf '%-8s %6d lines in %4d files  %s\n' $(part) $$(git ls-files $$room | grep -E '\.(c|h|py)$$' | tee $(OUT)/lines | \
	  xargs cat | wc -l) $$(wc -l <$(OUT)/lines) "$$room"; done;)

lint-docs:
	@tests/lint/docs
	@echo 'lint: the pages name files that exist'

lint-figures:
	@tests/lint/figures
	@echo 'lint: the pages quote figures as they were measured'

lint-orders:
	@tests/lint/orders

# A sentence is for people; a status decides.
lint-sentences:
	@tests/lint/sentences

# One word for one thing: not those that another has replaced.
lint-words:
	@tests/lint/words

lint-names:
	@tests/lint/names $(C_FILES) $(H_FILES) $(wildcard experiments/peers/*.[ch])

lint-width:
	@tests/lint/width $(C_FILES) $(H_FILES) $(wildcard experiments/peers/*.[ch]) $(SHELL_FILES:./%=%) \
	  $(PYTHON_FILES)

lint-python:
	@pyflakes3 $(PYTHON_FILES)
	@echo 'lint: nothing from pyflakes'
	@cd bridges/python && mypy --no-error-summary --cache-dir=/dev/null
	@echo 'lint: nothing from mypy'

# Each header alone, as C; the public ones also as C++.
lint-headers:
	@for header in $(H_FILES); do \
	  printf '#include "%s"\nextern int one_declaration;\n' $$header | \
	    $(CC) $(BASE_CFLAGS) $(PYTHON_CFLAGS) -MF /dev/null -Werror -fsyntax-only -xc - || exit 1; done
	@for header in $(PUBLIC_HEADERS); do \
	  printf '#include "%s"\nextern int one_declaration;\n' $$header | \
	    clang -Iinclude -Wall -Wextra -Werror -fsyntax-only -xc++ - || exit 1; done
	@echo 'lint: every header compiles alone'

lint-gcc lint-clang: lint-%:
	@$(MAKE) --no-print-directory -s OUT=$(LINT_OUT)/$* CC=$* CFLAGS='-O2 -g -Werror' lint-objects
	@echo 'lint: no warnings from $*'

.PHONY: lint-objects
lint-objects: $(call objects_of,$(C_FILES))

lint-cppcheck:
	@mkdir -p $(LINT_OUT)/cppcheck
	@cppcheck --quiet --std=c11 --language=c -I. -Iinclude --error-exitcode=1 --inline-suppr \
	  --enable=warning,performance,portability --suppressions-list=tests/lint/cppcheck.txt \
	  --cppcheck-build-dir=$(LINT_OUT)/cppcheck -D_GNU_SOURCE -DMQKV_ASSERT -DMQKV_VERSION='""' $(C_FILES)
	@echo 'lint: nothing from cppcheck'

# One stamp a file: only what changed is looked at again.
lint-tidy: $(patsubst %.c,$(LINT_OUT)/tidy/%.ok,$(C_FILES))
	@echo 'lint: nothing from clang-tidy'

$(LINT_OUT)/tidy/%.ok: %.c $(H_FILES) .clang-tidy
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- -std=gnu11 -D_GNU_SOURCE -DMQKV_ASSERT -I. -Iinclude $(PYTHON_CFLAGS) $(LUA_CFLAGS) -DMQKV_VERSION='""' 2>/dev/null
	@touch $@

lint-shell:
	@shellcheck -x $(SHELL_FILES)
	@echo 'lint: nothing from shellcheck'

# Says which of the long checks nobody has seen green for two weeks, and fails nobody's work for it.
lint-rota:
	@tests/figures --overdue | sed 's/^/lint: overdue: /'

# What a library exports, and how large it is to programs: a change needs a decision (tests/lint/abi says which).
lint-abi:
	@tests/lint/abi check

lint-man:
	@$(if $(MAN_FILES),mandoc -T lint -W warning $(MAN_FILES))
	@echo 'lint: manual pages are right'

#?
#? make test          the tests; the last line is "N passed, N failed" (make unit-kvstore: one room)
#? make check         the tests that take long (packages, releases built twice, floods, NATS, studies)
#? make check-asan    the same tests with the address and undefined-behaviour sanitizers
#? make check-tsan    the same tests with the thread sanitizer
#? make check-clang   the same tests with programs built by clang
#? make coverage      lines and branches that unit tests and scenarios reach, by room; HTML in build/coverage
#? make testing-page  the figures of docs/TESTING.md from runs of today (hours); FIGURES="explore fuzz": of some
#? make rota          the long check whose last green run is oldest, 25 minutes at most; .ci/run takes it, too
#? make lines         lines of core, lab and bridges, by room
#? make lint          formatting, static analysis, includes, scripts, man pages
#? make fuzz          each fuzzer for FUZZ_SECONDS (default 30), and what it reached; FUZZERS_ONLY="fuzz_json ..."
#? make check-nats    serverk on one and on three NATS servers, some of which are killed; builds nats-server
#?                    with Go where it is missing (NATS_SERVER names another; NATS_SERVER_OLDEST and
#?                    NATS_SERVER_NEWEST those of the mixed load)
#? make check-redis   redis-cli, redis-benchmark, redis_exporter, client libraries and Django on kresp;
#?                    REDIS_SOURCE=DIR, RESP_COMPATIBILITY=DIR, REDIS_PY=DIR: the tests of those source trees too
#? make check-python  diskcache's own tests, and adapters for programs of PyPI, on the Python package
#? make check-porcupine   HISTORIES (15) of each kind, kills among them, judged by Porcupine (needs Go) and by adya or elle-cli
#? make hostile       mutated messages, damaged stores and full disks at programs built with the sanitizers, for
#?                    HOSTILE_SECONDS (default 180), or HOSTILE_MESSAGES=1000000 HOSTILE_STORES=10000
#? make explore       schedules of the real code from seeds, each harness for EXPLORE_SECONDS (60); HARNESSES="a b"
#? make explore-planted   whether it finds the faults that were planted
#? make crash-test    kill -9 under load, CRASH_ROUNDS (default 50) times a durability level
