# Schedules from a seed: see tests/explore/explore.h. The rooms are compiled as for the thread sanitizer, and linked with
# the functions of tests/explore instead of its library.
#   tests/explore/explore_<noun>.c     a harness, or some; explored_server.c is the server of those of clients,
#                                      explored_redis_store.c the store of those of kresp,
#                                      explored_nats.c the cluster of those of natskv
#   every other tests/explore/*.c      the scheduler, which is no part of what it schedules

# MQKV_EXPLORED: with the fences, which the thread sanitizer does not know.
EXPLORE_CFLAGS := -DMQKV_EXPLORED -Wno-tsan -DCOMMIT_LOG_BYTES=16384 -DPLACE_MIN_BYTES=800u -DVERIFIED_MIN_BYTES=512u -DLINK_SLOTS=16u -DORDER_KEYS_PER_HOLD=2u -DORDER_LEAF_ITEMS=4u -DORDER_CHILDREN=4u -DLOOKS_TO_LOSE=2u -DRANGE_WHOLE_BYTES=0u \
	-O1 -fno-omit-frame-pointer -fno-inline-functions-called-once
EXPLORE_HARNESSES := $(wildcard tests/explore/explore_*.c) tests/explore/explored_server.c \
	tests/explore/explored_redis_store.c tests/history/history.c
EXPLORE_RUNTIME := $(filter-out $(EXPLORE_HARNESSES),$(wildcard tests/explore/*.c))
# natskv is one with NATS, whose library is not: explored_nats.c stands for it, and for the cluster.
EXPLORE_NATS := tests/explore/explore_natskv.c tests/explore/explore_natskv_bank.c tests/explore/explored_nats.c
ifeq ($(NATS),)
EXPLORE_HARNESSES := $(filter-out $(EXPLORE_NATS),$(EXPLORE_HARNESSES))
EXPLORE_RUNTIME := $(filter-out $(EXPLORE_NATS),$(EXPLORE_RUNTIME))
endif
# The daemon is one without the lab.
EXPLORE_ROOMS := $(foreach room,config dispatch execute lanes receive session,$(call objects,serverk/$(room))) \
	$(foreach noun,backup_dir backup_manifest backup_source backup_target file_copy restore_target tar_stream, \
	$(OUT)/obj/tools/backup/$(noun).o) $(call without_main,$(KVCHECK_OBJ)) \
	$(filter-out %/bridge_sandbox.o,$(call objects,bridges/kresp/bridge)) \
	$(foreach room,channels commands protocol session,$(call objects,bridges/kresp/$(room))) $(SCRIPT_OBJ) \
	$(filter-out %/nats_connect.o %_absent.o,$(NATSKV_OBJ)) $(CLIENTK_OBJ) $(COMMON_OBJ) $(WIRE_OBJ) $(KVSTORE_OBJ)
EXPLORE_OBJ := $(patsubst $(OUT)/obj/%,$(EXPLORE_OUT)/obj/%,$(sort $(EXPLORE_ROOMS))) $(EXPLORE_HARNESSES:%.c=$(EXPLORE_OUT)/obj/%.o)
EXPLORE_RUNTIME_OBJ := $(EXPLORE_RUNTIME:%.c=$(EXPLORE_OUT)/obj/%.o)
# The C library's functions that the scheduler stands for: in the objects of the rooms, each is renamed to explored_<name>.
# The list changes the objects when it changes.
EXPLORE_RENAMED := $(EXPLORE_OUT)/renamed

$(EXPLORE_RENAMED): $(EXPLORE_RUNTIME)
	@mkdir -p $(@D)
	@grep -oh '\bexplored_[a-zA-Z0-9_]*' $^ | sort -u | sed 's/explored_\(.*\)/\1 explored_\1/' >$@.new
	@cmp -s $@.new $@ || cp $@.new $@

# Functions of the rooms that a harness stands for; and opendir, which has the machine's directories.
EXPLORE_WRAPPED := opendir lane_names_remove_stale guest_lanes_remove_stale \
	redis_store_execute redis_store_transact redis_store_refresh redis_store_max_value_bytes \
	redis_store_interrupt listen_socket_open_unix bridge_sandbox_enter nats_connect nats_connect_prepare nats_urls_shown

# The stores of an older version that explore_machine_upgrade has.
OLD_STORE_TAR := $(EXPLORE_OUT)/store-0.1.0.tar
$(OLD_STORE_TAR): tests/data/store-0.1.0.tar.gz
	@mkdir -p $(@D)
	@gzip -dc $< >$@
$(EXPLORE_OUT)/obj/tests/explore/explore_machine_upgrade.o: $(OLD_STORE_TAR)
$(EXPLORE_OUT)/obj/tests/explore/explore_machine_upgrade.o: EXPLORE_CFLAGS += -DOLD_STORE_TAR='"$(OLD_STORE_TAR)"'

$(EXPLORE_OUT)/obj/tests/explore/explore_kresp.o: EXPLORE_CFLAGS += $(if $(LUA),-DSCRIPTS=1)

$(EXPLORE_RUNTIME_OBJ): $(EXPLORE_OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -g -O2 -fno-stack-protector -fno-pie -c -o $@ $<

$(filter-out $(EXPLORE_RUNTIME_OBJ),$(EXPLORE_OBJ)): $(EXPLORE_OUT)/obj/%.o: %.c $(EXPLORE_RENAMED) Makefile tests/explore/explore.mk
	@mkdir -p $(@D)
	$(CC) -isystem tests/explore/outside $(BASE_CFLAGS) -g $(EXPLORE_CFLAGS) -DMQKV_ASSERT -fsanitize=thread -D__SANITIZE_THREAD__=1 -c -o $@ $<
	@$(OBJCOPY) --redefine-syms=$(EXPLORE_RENAMED) $(if $(filter tests/%,$<),,--rename-section .data=room_data --rename-section .bss=room_bss) $@

$(EXPLORE_OUT)/explore: $(EXPLORE_OBJ) $(EXPLORE_RUNTIME_OBJ)
	$(CC) -no-pie -pthread $(EXPLORE_WRAPPED:%=-Wl,--wrap=%) -o $@ $^ -lxxhash -linih $(LUA_LIBS) -lm

-include $(shell find $(EXPLORE_OUT) -name '*.d' 2>/dev/null)

# What examples/labs links with.
.PHONY: explore-objects
explore-objects: $(EXPLORE_RUNTIME_OBJ) $(EXPLORE_RENAMED)

# Each harness for EXPLORE_SECONDS; HARNESSES="a b": these.
EXPLORE_SECONDS ?= 60
.PHONY: explore
explore: $(EXPLORE_OUT)/explore
	@$< --seconds $(EXPLORE_SECONDS) $(HARNESSES)

# The faults of tests/explore/planted: whether the explorer finds each.
.PHONY: explore-planted
explore-planted: $(EXPLORE_OUT)/explore
	@tests/explore/planted/find
