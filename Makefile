# mqkv: `make help` lists the targets. Nothing here needs more than GNU make, gcc and pkg-config;
# `make deps` installs the Debian packages that the build, the tests and the plots use.

# The version stands in the header that programs see.
VERSION := $(shell sed -n 's/^.define MQKV_VERSION_STRING "\(.*\)"$$/\1/p' include/mqkv/version.h)
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= gcc
PKG_CONFIG ?= pkg-config

# VARIANT: release (the default), debug, asan, tsan, fuzz, coverage. Each builds into its own folder. All but
# release check assertions (common/assert/assert.h).
VARIANT ?= release
OUT := build$(if $(filter-out release,$(VARIANT)),/$(VARIANT))

# CFLAGS and LDFLAGS belong to whoever calls make. What a variant is made of, and what hardens a release,
# comes behind them, so that no CFLAGS of the environment can take it away.
CFLAGS ?= -g -O2
LDFLAGS ?=

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wformat=2 \
	-Wundef -Wnull-dereference -Wimplicit-fallthrough

# Fortification needs optimisation, and its third level a compiler that knows it.
FORTIFY_LEVEL := $(shell echo 'int x;' | $(CC) -O2 -D_FORTIFY_SOURCE=3 -include features.h -Werror \
	-xc -fsyntax-only - 2>/dev/null && echo 3 || echo 2)
FORTIFY = $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY_LEVEL))

VARIANT_CFLAGS_release = -fstack-protector-strong -fstack-clash-protection $(FORTIFY)
VARIANT_CFLAGS_debug := -O0
VARIANT_CFLAGS_asan := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
# clang does not define the name that gcc does.
VARIANT_CFLAGS_tsan := -O1 -fno-omit-frame-pointer -fsanitize=thread -D__SANITIZE_THREAD__=1
VARIANT_CFLAGS_fuzz := $(VARIANT_CFLAGS_asan) -fsanitize=fuzzer-no-link \
	-fprofile-instr-generate -fcoverage-mapping
VARIANT_CFLAGS_coverage := -O1 --coverage -fprofile-update=atomic -fno-builtin-fork \
	-include tests/coverage/counters_at_exit.h
# What a variant needs at linking as well.
VARIANT_LDFLAGS = $(filter-out -fsanitize=fuzzer-no-link,$(filter -fsanitize=% --coverage,$(VARIANT_CFLAGS_$(VARIANT))))

BASE_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. -Iinclude $(LUA_CFLAGS) -fPIC -fvisibility=hidden -pthread -MMD -MP $(WARNINGS) \
	'-ffile-prefix-map=$(CURDIR)=.' -DMQKV_VERSION='"$(VERSION)"' \
	$(if $(filter asan tsan coverage,$(VARIANT)),-DMQKV_SANITIZER='"$(VARIANT)"') \
	$(if $(filter-out release,$(VARIANT)),-DMQKV_ASSERT)
ALL_CFLAGS = $(BASE_CFLAGS) $(CFLAGS) $(VARIANT_CFLAGS_$(VARIANT))
BASE_LDFLAGS = -pthread -Wl,-z,relro,-z,now $(VARIANT_LDFLAGS)
PIE := -pie

# The rooms. A room is a folder; its .c files, and those of its sub-rooms, are its modules; what may call what is
# in ARCHITECTURE.md and checked by tests/lint/includes.
ROOMS := common sandbox kvstore engine wire serverk clientk tools lab bridges/cluster bridges/kresp
sources = $(sort $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c))
objects = $(patsubst %.c,$(OUT)/obj/%.o,$(call sources,$(1)))

COMMON_OBJ := $(call objects,common)
# The lab registers itself with the engine and with the daemon; LAB=no builds without it.
LAB ?= yes
lab_objects = $(if $(filter-out no,$(LAB)),$(call objects,$(1)))
without_absent = $(if $(filter-out no,$(LAB)),$(filter-out %_absent.o,$(1)),$(1))
ALLOCATOR_OBJ := $(OUT)/obj/kvstore/cache/system_allocator.o $(call lab_objects,lab/allocator)
KVCHECK_OBJ := $(call objects,kvstore/kvcheck)
KVSTORE_OBJ := $(call without_absent,$(filter-out $(KVCHECK_OBJ),$(call objects,kvstore))) \
	$(call lab_objects,lab/locking) $(call lab_objects,lab/allocator)
LAB_OBJ := $(patsubst %,$(OUT)/obj/lab/%.o,$(if $(filter-out no,$(LAB)),lab lab_options)) \
	$(call lab_objects,lab/dispatch) $(call lab_objects,lab/schedule) $(call lab_objects,lab/service)
WIRE_OBJ := $(call objects,wire)
ENGINE_OBJ := $(call objects,engine)
# The engine for a NATS cluster, where its client library is there; NATS= builds without.
NATS ?= $(shell $(PKG_CONFIG) --exists libnats 2>/dev/null && echo yes)
NATSKV_SRC := $(call sources,bridges/cluster/natskv)
NATSKV_ABSENT_OBJ := $(patsubst %.c,$(OUT)/obj/%.o,$(filter %_absent.c %/bucket_name.c,$(NATSKV_SRC)))
NATSKV_OBJ := $(if $(NATS),$(patsubst %.c,$(OUT)/obj/%.o,$(filter-out %_absent.c,$(NATSKV_SRC))),$(NATSKV_ABSENT_OBJ))
NATS_LIBS := $(if $(NATS),-lnats)
SANDBOX_OBJ := $(call objects,sandbox)
SERVERK_OBJ := $(call without_absent,$(call objects,serverk)) $(LAB_OBJ) $(SANDBOX_OBJ) $(call objects,bridges/cluster/mirror) $(ENGINE_OBJ) $(NATSKV_OBJ)
# The clientk command compares header pages of data files (tools/backup).
CLIENTK_PROGRAM_OBJ := $(call objects,clientk/program) $(call objects,tools) $(OUT)/obj/kvstore/format/file_chapters.o
# The client library reads the files of a store itself (clientk/direct): by the code that knows their bytes.
CLIENTK_OBJ := $(filter-out $(CLIENTK_PROGRAM_OBJ),$(call objects,clientk)) \
	$(call objects,kvstore/shared) $(patsubst %,$(OUT)/obj/kvstore/format/%.o,file_name record verified_bitmap wide_checksum wide_checksum_avx2)
# Lua runs the scripts of kresp's clients, where it is there; LUA= builds without.
LUA ?= $(shell $(PKG_CONFIG) --exists lua5.1 2>/dev/null && echo yes)
LUA_CFLAGS := $(if $(LUA),$(shell $(PKG_CONFIG) --cflags lua5.1))
LUA_LIBS := $(if $(LUA),$(shell $(PKG_CONFIG) --libs lua5.1))
SCRIPT_SRC := $(call sources,bridges/kresp/script)
SCRIPT_OBJ := $(patsubst %.c,$(OUT)/obj/%.o,$(if $(LUA),$(filter-out %_absent.c,$(SCRIPT_SRC)),$(filter %_absent.c,$(SCRIPT_SRC))))
KRESP_OBJ := $(filter-out $(OUT)/obj/bridges/kresp/script/%,$(call objects,bridges/kresp)) $(SCRIPT_OBJ) $(SANDBOX_OBJ)

LIBS := $(OUT)/libkvstore.a $(OUT)/libclientk.a $(if $(filter-out no,$(LAB)),$(OUT)/liballocator.a)
SHARED_LIBS := $(OUT)/libclientk.so $(OUT)/libkvstore.so
PROGRAMS := $(OUT)/serverk $(OUT)/clientk $(OUT)/kvcheck $(OUT)/kresp

.PHONY: all
all: $(PROGRAMS) $(LIBS) $(SHARED_LIBS)

$(OUT)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(OUT)/libkvstore.a: $(KVSTORE_OBJ) $(COMMON_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^

$(OUT)/liballocator.a: $(ALLOCATOR_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^

$(OUT)/libclientk.a: $(CLIENTK_OBJ) $(WIRE_OBJ) $(COMMON_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^

# The number of each library's binary interface: one more whenever a program that was built before would not run
# as it did (a public struct that changed, a symbol that is gone): see tests/lint/abi.
LIBCLIENTK_ABI := 1
LIBKVSTORE_ABI := 1
LIBCLIENTK_SO := libclientk.so.$(LIBCLIENTK_ABI)
LIBKVSTORE_SO := libkvstore.so.$(LIBKVSTORE_ABI)

# A library that was loaded stays: a thread that used it runs its code once more when it ends.
link_shared = $(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,-soname,$(1) \
	-Wl,--version-script=$(filter %.map,$^) -o $@ $(filter %.o,$^)

$(OUT)/$(LIBCLIENTK_SO).$(VERSION): $(CLIENTK_OBJ) $(WIRE_OBJ) $(COMMON_OBJ) clientk/libclientk.map
	$(call link_shared,$(LIBCLIENTK_SO)) -lm
$(OUT)/$(LIBKVSTORE_SO).$(VERSION): $(KVSTORE_OBJ) $(COMMON_OBJ) kvstore/libkvstore.map
	$(call link_shared,$(LIBKVSTORE_SO)) -lxxhash -lm

$(OUT)/libclientk.so: $(OUT)/$(LIBCLIENTK_SO).$(VERSION)
$(OUT)/libkvstore.so: $(OUT)/$(LIBKVSTORE_SO).$(VERSION)
$(SHARED_LIBS):
	ln -sf $(<F) $(OUT)/$(patsubst %.$(VERSION),%,$(<F))
	ln -sf $(<F) $@

# The libraries of each program, but for libc's and that of NATS.
SERVERK_LIBS := -lxxhash -lseccomp -linih
CLIENTK_LIBS := -ledit -lxxhash -lzstd
KRESP_LIBS := -lseccomp $(LUA_LIBS)
KVCHECK_LIBS := -lxxhash

$(OUT)/serverk: $(SERVERK_OBJ) $(WIRE_OBJ) $(OUT)/libkvstore.a
	$(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $(SERVERK_OBJ) $(WIRE_OBJ) $(OUT)/libkvstore.a $(SERVERK_LIBS) $(NATS_LIBS) -lm

$(OUT)/clientk: $(CLIENTK_PROGRAM_OBJ) $(OUT)/libclientk.a
	$(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(CLIENTK_LIBS) -lm

$(OUT)/kresp: $(KRESP_OBJ) $(OUT)/libclientk.a
	$(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(KRESP_LIBS) -lm

$(OUT)/kvcheck: $(KVCHECK_OBJ) $(OUT)/libkvstore.a
	$(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(KVCHECK_LIBS) -lm

-include $(shell find $(OUT)/obj $(OUT)/tests -name '*.d' 2>/dev/null)

include bridges/python/python.mk
EXPLORE_OUT := $(OUT)/explore
include tests/tests.mk
include tests/explore/explore.mk
include experiments/experiments.mk
include packaging/packaging.mk

# Set-up ------------------------------------------------------------------------------------------

.PHONY: deps
deps:
	@tests/deps

# Installing --------------------------------------------------------------------------------------

# What is installed of an archive defines the public names only: internal ones ("log_error") must not
# meet those of the programs that link with it. What both archives have (kv_*) is weak, so that a program
# may link with both.
OBJCOPY ?= objcopy
$(OUT)/installed/%.a: $(OUT)/%.a
	@mkdir -p $(@D)
	@rm -f $@
	$(LD) -r --whole-archive -o $(@:.a=.o) $<
	$(OBJCOPY) --localize-hidden --wildcard --weaken-symbol='kv_*' $(@:.a=.o)
	$(AR) rcsD $@ $(@:.a=.o)

INSTALL ?= install
bindir = $(DESTDIR)$(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
libdir = $(DESTDIR)$(LIBDIR)
includedir = $(DESTDIR)$(PREFIX)/include/mqkv
mandir = $(DESTDIR)$(PREFIX)/share/man
completiondir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir = $(DESTDIR)$(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
fishdir = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
SYSCONFDIR = $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
sysconfdir = $(DESTDIR)$(SYSCONFDIR)
UNITDIR ?= $(PREFIX)/lib/systemd/system
unitdir = $(DESTDIR)$(UNITDIR)
LIBEXECDIR = $(PREFIX)/libexec/mqkv
libexecdir = $(DESTDIR)$(LIBEXECDIR)
sysusersdir = $(DESTDIR)$(PREFIX)/lib/sysusers.d
tmpfilesdir = $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
exampledir = $(DESTDIR)$(PREFIX)/share/doc/mqkv/examples
place_pc = -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|'
UNITS := serverk.service serverk@.service kresp.service mqkv-backup.service mqkv-backup.timer
COMPLETIONS := clientk/clientk.bash-completion bridges/kresp/kresp.bash-completion serverk/serverk.bash-completion \
	kvstore/kvcheck/kvcheck.bash-completion
COMPLETED := $(patsubst %.bash-completion,%,$(notdir $(COMPLETIONS)))
PUBLIC_HEADERS := $(wildcard include/mqkv/*.h)

.PHONY: install uninstall
install: all $(LIBS:$(OUT)/%=$(OUT)/installed/%)
	$(INSTALL) -d $(bindir) $(includedir) $(libdir)/pkgconfig $(mandir)/man1 $(mandir)/man3 $(completiondir) $(zshdir) $(fishdir) \
	  $(sysconfdir)/mqkv $(sysconfdir)/logrotate.d $(unitdir) $(sysusersdir) $(tmpfilesdir) $(exampledir) $(libexecdir)
	$(INSTALL) -m 755 $(PROGRAMS) $(bindir)
	$(INSTALL) -m 755 bridges/python/mqkv/redis.py $(bindir)/mqkv-redis
	$(INSTALL) -m 644 $(LIBS:$(OUT)/%=$(OUT)/installed/%) $(libdir)
	for so in $(LIBCLIENTK_SO) $(LIBKVSTORE_SO); do \
	  $(INSTALL) -m 755 $(OUT)/$$so.$(VERSION) $(libdir) && ln -sf $$so.$(VERSION) $(libdir)/$$so && \
	  ln -sf $$so.$(VERSION) $(libdir)/$${so%.*} || exit 1; done
	$(INSTALL) -m 644 $(PUBLIC_HEADERS) $(includedir)
	sed $(place_pc) clientk/libclientk.pc.in > $(libdir)/pkgconfig/libclientk.pc
	sed $(place_pc) kvstore/libkvstore.pc.in > $(libdir)/pkgconfig/libkvstore.pc
	chmod 644 $(libdir)/pkgconfig/libclientk.pc $(libdir)/pkgconfig/libkvstore.pc
	$(INSTALL) -m 644 docs/*.1 $(mandir)/man1
	$(INSTALL) -m 644 docs/*.3 $(mandir)/man3
	for file in $(COMPLETIONS); do \
	  $(INSTALL) -m 644 $$file $(completiondir)/$$(basename $$file .bash-completion) || exit 1; done
	for program in $(COMPLETED); do for file in zsh:$(zshdir)/_$$program fish:$(fishdir)/$$program.fish; do \
	  sed "s|@PROGRAM@|$$program|g" packaging/completion.$${file%%:*} > $${file#*:} && chmod 644 $${file#*:} || exit 1; \
	  done; done
	[ -e $(sysconfdir)/mqkv/serverk.conf ] || $(INSTALL) -m 644 packaging/serverk.conf $(sysconfdir)/mqkv
	[ -e $(sysconfdir)/logrotate.d/mqkv ] || $(INSTALL) -m 644 packaging/mqkv.logrotate $(sysconfdir)/logrotate.d/mqkv
	$(INSTALL) -m 644 packaging/mqkv.sysusers $(sysusersdir)/mqkv.conf
	$(INSTALL) -m 644 packaging/mqkv.tmpfiles $(tmpfilesdir)/mqkv.conf
	$(INSTALL) -m 644 packaging/mqkv.sysctl $(exampledir)/60-mqkv.conf
	$(INSTALL) -m 644 packaging/mqkv-dashboard.json packaging/mqkv-alerts.yml $(exampledir)
	$(INSTALL) -m 755 packaging/mqkv-backup $(libexecdir)
	for unit in $(UNITS); do sed -e 's|@BINDIR@|$(PREFIX)/bin|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' \
	  -e 's|@LIBEXECDIR@|$(LIBEXECDIR)|' \
	  packaging/$$unit > $(unitdir)/$$unit && chmod 644 $(unitdir)/$$unit || exit 1; done
	@$(if $(DESTDIR),,$(announce_libraries))

# The dynamic linker finds a library in one of its directories once ldconfig has run, and elsewhere when told.
LDCONFIG ?= /sbin/ldconfig
define announce_libraries
if ! $(LDCONFIG) -v -N -X 2>/dev/null | grep -q '^$(PREFIX)/lib:'; then \
  echo 'The dynamic linker does not look into $(PREFIX)/lib: build programs with'; \
  echo '    cc PROGRAM.c $$(PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig pkg-config --cflags --libs libclientk) -Wl,-rpath,$(PREFIX)/lib'; \
  echo 'or run them with LD_LIBRARY_PATH=$(PREFIX)/lib.'; \
elif ! $(LDCONFIG); then \
  echo 'Run ldconfig as root, so that programs find the libraries in $(PREFIX)/lib.'; \
fi
endef

# A configuration that somebody changed stays.
uninstall:
	rm -f $(addprefix $(bindir)/,serverk clientk kvcheck kresp mqkv-redis) $(libdir)/libclientk.* $(libdir)/libkvstore.* \
	  $(libdir)/liballocator.a \
	  $(libdir)/pkgconfig/libclientk.pc $(libdir)/pkgconfig/libkvstore.pc \
	  $(addprefix $(mandir)/man1/,serverk.1 clientk.1 kvcheck.1 kresp.1 mqkv-redis.1) $(addprefix $(mandir)/man3/,clientk.3 clientk_queue.3 kvstore.3) \
	  $(COMPLETED:%=$(completiondir)/%) $(COMPLETED:%=$(zshdir)/_%) $(COMPLETED:%=$(fishdir)/%.fish) \
	  $(UNITS:%=$(unitdir)/%) $(sysusersdir)/mqkv.conf $(tmpfilesdir)/mqkv.conf $(exampledir)/60-mqkv.conf \
	  $(exampledir)/mqkv-dashboard.json $(exampledir)/mqkv-alerts.yml
	rm -rf $(libexecdir)
	for file in serverk.conf:mqkv/serverk.conf mqkv.logrotate:logrotate.d/mqkv; do \
	  cmp -s packaging/$${file%:*} $(sysconfdir)/$${file#*:} && rm $(sysconfdir)/$${file#*:}; done; true
	rm -rf $(includedir)

.PHONY: clean help
clean:
	rm -rf build

help:
	@sed -n 's/^#? //p' Makefile bridges/python/python.mk tests/tests.mk experiments/experiments.mk packaging/packaging.mk

#? make               build everything into build/
#? make deps          install what build, tests and plots need (Debian packages)
#? make install       install under PREFIX (default /usr/local), honours DESTDIR
#? make clean         remove build/
