# The programs that `make bench` compares mqkv with, on the peers' protocols and libraries. Nothing of
# `make all` or `make test` needs them or their packages.

PEER_PROGRAMS := $(addprefix $(OUT)/peers/,peer_redis peer_memcached peer_lmdb peer_copy peer_echo echo_server engine_load range_load \
	transfer_load)
peer_object = $(OUT)/obj/experiments/peers/$(1).o

# The clientk program, object for object, on a backend instead of libclientk (backend.h).
peer_objects = $(CLIENTK_PROGRAM_OBJ) $(foreach part,backend backend_pipeline backend_$(1),\
	$(call peer_object,$(part)))
PEER_LIBS_redis := -lhiredis
PEER_LIBS_lmdb := -llmdb
PEER_LIBS_nats := -lnats
PEER_LIBS_etcd := -lcurl -lcrypto
PEER_OBJ_nats := $(call peer_object,backend_versioned)
PEER_OBJ_etcd := $(PEER_OBJ_nats)
PEER_OBJ_echo := $(foreach part,echo echo_link echo_group,$(call peer_object,$(part)))

define peer_rule
$(OUT)/peers/peer_$(1): $(call peer_objects,$(1)) $(PEER_OBJ_$(1)) $(patsubst %,$(OUT)/obj/kvstore/shared/%.o,shared_store store_leftovers) \
		$(patsubst %,$(OUT)/obj/kvstore/format/%.o,file_chapters file_name record verified_bitmap wide_checksum wide_checksum_avx2) $(WIRE_OBJ) $(COMMON_OBJ)
	@mkdir -p $$(@D)
	$$(CC) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $(PEER_LIBS_$(1)) -ledit -lxxhash -lzstd -lm
endef
$(foreach peer,redis memcached lmdb copy echo nats etcd,$(eval $(call peer_rule,$(peer))))

$(OUT)/peers/echo_server: $(call peer_object,echo_server) $(call peer_object,echo) $(WIRE_OBJ) $(COMMON_OBJ)
	@mkdir -p $(@D)
	$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ -lm

$(OUT)/peers/engine_load: $(call peer_object,engine_load) $(call peer_object,engine) $(OUT)/libkvstore.a
	@mkdir -p $(@D)
	$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ -lxxhash -llmdb -lrocksdb -lleveldb -lm

$(OUT)/peers/range_load: $(foreach part,range_load range_served engine load_row,$(call peer_object,$(part))) \
		$(OUT)/obj/tools/bench/distribution.o $(OUT)/libclientk.a $(OUT)/libkvstore.a
	@mkdir -p $(@D)
	$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ -lhiredis -lxxhash -llmdb -lrocksdb -lleveldb -lm

$(OUT)/peers/transfer_load: $(foreach part,load mqkv redis sqlite lmdb,$(call peer_object,transfer_$(part))) \
		$(call peer_object,load_row) $(OUT)/libclientk.a
	@mkdir -p $(@D)
	$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ -lhiredis -lsqlite3 -llmdb -lxxhash -lm
