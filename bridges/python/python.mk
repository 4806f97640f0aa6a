# The Python package: see bridges/python/README.md. The extension has Python's limited interface, so one binary serves
# Python 3.11 and all later versions. Without Python's header it is left out.

# Debian's own Python, for which tests/deps installs what the tests need.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHON_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
PYTHON_SRC := $(sort $(wildcard bridges/python/extension/*.c))
PYTHON_OBJ := $(PYTHON_SRC:%.c=$(OUT)/obj/%.o)
PYTHON_PACKAGE := $(OUT)/python/mqkv
PYTHON_SOURCES := $(wildcard bridges/python/mqkv/*.py bridges/python/mqkv/*.pyi) bridges/python/mqkv/py.typed

# The limited interface has no const where C has: keywords, docstrings.
PYTHON_CFLAGS = $(if $(PYTHON_INCLUDE),-isystem $(PYTHON_INCLUDE)) -Wno-write-strings
$(PYTHON_OBJ): BASE_CFLAGS += $(PYTHON_CFLAGS)

# The names of libclientk stay inside: the process may have loaded libclientk.so too. A distribution's package is
# made with $(OUT)/libclientk.so instead.
PYTHON_LIBCLIENTK ?= $(OUT)/libclientk.a
$(PYTHON_PACKAGE)/_mqkv.abi3.so: $(PYTHON_OBJ) $(PYTHON_LIBCLIENTK)
	@mkdir -p $(@D)
	$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,--exclude-libs,ALL -o $@ $^ -lm

$(PYTHON_PACKAGE)/%: bridges/python/mqkv/%
	@mkdir -p $(@D)
	cp $< $@

# PYTHONPATH=build/python finds it.
.PHONY: python wheel
python: $(PYTHON_PACKAGE)/_mqkv.abi3.so $(PYTHON_SOURCES:bridges/python/mqkv/%=$(PYTHON_PACKAGE)/%)

# The programs of a wheel run where nothing is installed: their libraries are linked into them. That of NATS, which brings
# OpenSSL, is left out. LICENSES has the terms of what is in them, as Debian's packages tell them.
WHEEL_PROGRAMS := $(addprefix $(OUT)/wheel/programs/,serverk clientk kvcheck kresp)
WHEEL_LIBRARIES := xxhash seccomp inih edit tinfo bsd md zstd $(if $(LUA),lua5.1)
link_for_wheel = mkdir -p $(@D) && $(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) -s -o $@ $^ -Wl,-Bstatic $(1) -Wl,-Bdynamic -lm

$(OUT)/wheel/programs/serverk: $(filter-out $(NATSKV_OBJ),$(SERVERK_OBJ)) $(NATSKV_ABSENT_OBJ) $(WIRE_OBJ) $(OUT)/libkvstore.a
	$(call link_for_wheel,$(SERVERK_LIBS))
$(OUT)/wheel/programs/clientk: $(CLIENTK_PROGRAM_OBJ) $(OUT)/libclientk.a
	$(call link_for_wheel,$(CLIENTK_LIBS) -ltinfo -lbsd -lmd)
$(OUT)/wheel/programs/kvcheck: $(KVCHECK_OBJ) $(OUT)/libkvstore.a
	$(call link_for_wheel,$(KVCHECK_LIBS))
$(OUT)/wheel/programs/kresp: $(KRESP_OBJ) $(OUT)/libclientk.a
	$(call link_for_wheel,$(KRESP_LIBS))
$(OUT)/wheel/programs/LICENSES: LICENSE bridges/python/python.mk
	@mkdir -p $(@D)
	@bridges/python/licenses $(CC) $(WHEEL_LIBRARIES) > $@.new && mv $@.new $@

wheel: $(OUT)/libclientk.a $(WHEEL_PROGRAMS) $(OUT)/wheel/programs/LICENSES
	@tests/deps wheel
	@MQKV_BUILD=$(abspath $(OUT)) PYTHON=$(PYTHON) bridges/python/make_wheel

# What make test builds.
PYTHON_IF_THERE := $(if $(wildcard $(PYTHON_INCLUDE)/Python.h),python)

#? make python        the Python package, into build/python (PYTHONPATH=build/python)
#? make wheel         the same as a wheel, into build/wheel, with the programs: nothing else need be installed
