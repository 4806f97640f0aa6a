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

wheel: $(OUT)/libclientk.a
	@tests/deps wheel
	@MQKV_BUILD=$(abspath $(OUT)) $(PYTHON) -m pip wheel --quiet --no-deps --no-index --no-build-isolation \
	  --wheel-dir $(OUT)/wheel ./bridges/python
	@ls $(OUT)/wheel/*.whl

# What make test builds.
PYTHON_IF_THERE := $(if $(wildcard $(PYTHON_INCLUDE)/Python.h),python)

#? make python        the Python package, into build/python (PYTHONPATH=build/python)
#? make wheel         the same as a wheel, into build/wheel
