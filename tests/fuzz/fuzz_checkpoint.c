/*
 * covers: kvstore/table/checkpoint.c kvstore/index/index.c
 *
 * The checkpoint of a data file under libFuzzer: a store of one file and 200 keys, closed, whose
 * checkpoint is replaced by the input.
 *
 *   byte 0     bit 0: its checksum is made to hold; bit 1: the genuine header stands before it;
 *              bit 2: the input is a list of changes (u16 offset, u8 byte) to the genuine one
 *   the rest   the checkpoint, or the changes
 *
 * The store opens. A checkpoint whose checksum does not hold is ignored: every key has its value.
 * One that was forged, checksum and all, may hide keys, but never gives one the value of another.
 * What is put then can be read, also after another open. Syncs are left out.
 */
#include "tests/fuzz/fuzz_store.h"

#include <sys/stat.h>
#include <xxhash.h>

#include "common/memory/cursor.h"
#include "kvstore/format/fileheader.h"

enum { FIX_CHECKSUM = 1, GENUINE_HEADER = 2, CHANGES = 4 };

#define KEYS           200
#define HEADER_BYTES   72u
#define CHECKSUM_BYTES 8u
#define MOST_BYTES     65536u

struct bytes {
    uint8_t *data;
    size_t size;   /* of the data */
    off_t in_file; /* the file's size: behind the data it has zeros */
};

static struct bytes genuine_log, genuine_checkpoint;
static uint64_t salt;

static const struct kvstore_options options = {.datafiles = 1,
                                               .create = true,
                                               .max_value_bytes = KVSTORE_MAX_VALUE_BYTES,
                                               .compact_dead_percent = 100};

static struct bytes read_file(const char *name)
{
    struct stat status;
    struct bytes bytes = {0};
    int fd = fuzz_open_file(name, O_RDONLY);
    require(fstat(fd, &status) == 0);
    bytes.data = malloc((size_t)status.st_size);
    bytes.size = (size_t)status.st_size;
    bytes.in_file = status.st_size;
    require(bytes.data && read(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    while (bytes.size > 0 && bytes.data[bytes.size - 1] == 0)
        bytes.size--;
    close(fd);
    return bytes;
}

static void write_file(const char *name, const struct bytes *bytes)
{
    int fd = fuzz_open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    require(write(fd, bytes->data, bytes->size) == (ssize_t)bytes->size);
    require(ftruncate(fd, bytes->in_file) == 0);
    close(fd);
}

static void key_and_value(int number, char key[16], char value[32])
{
    snprintf(key, 16, "key %d", number);
    snprintf(value, 32, "the value of %d", number);
}

static struct kvstore *open_store(void)
{
    struct kvstore *store = NULL;
    struct kv_error error = {0};
    if (kvstore_open(fuzz_dir, &options, &store, &error) != KV_OK)
        fprintf(stderr, "%s\n", error.text);
    require(store != NULL);
    return store;
}

static void close_store(struct kvstore *store)
{
    struct kv_error error = {0};
    require(kvstore_close(store, &error) == KV_OK);
}

static void make_genuine(void)
{
    char key[16], value[32];
    struct kvstore *store = open_store();
    for (int i = 0; i < KEYS; i++) {
        struct kvstore_put_options put = {.expiry_ms = i % 7 ? 0 : UINT64_C(1) << 42};
        key_and_value(i, key, value);
        require(kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string(value), &put,
                            NULL) == KV_OK);
    }
    close_store(store);
    genuine_log = read_file("data.0000");
    genuine_checkpoint = read_file("data.0000.index");
    genuine_checkpoint.size = (size_t)genuine_checkpoint.in_file;
    salt = load_u64(genuine_checkpoint.data + 16);
}

static struct bytes changed(const uint8_t *data, size_t size)
{
    struct bytes made = {malloc(genuine_checkpoint.size), genuine_checkpoint.size, 0};
    require(made.data != NULL);
    memcpy(made.data, genuine_checkpoint.data, made.size);
    for (; size >= 3; data += 3, size -= 3)
        made.data[load_u16(data) % made.size] = data[2];
    return made;
}

/* The checkpoint that the input describes. */
static struct bytes make_checkpoint(uint8_t control, const uint8_t *data, size_t size)
{
    struct bytes made;
    if (control & CHANGES) {
        made = changed(data, size);
    } else {
        size_t header_bytes = control & GENUINE_HEADER ? HEADER_BYTES : 0;
        made = (struct bytes){malloc(header_bytes + size + 1), header_bytes + size, 0};
        require(made.data != NULL);
        memcpy(made.data, genuine_checkpoint.data, header_bytes);
        memcpy(made.data + header_bytes, data, size);
    }
    if (control & FIX_CHECKSUM && made.size >= CHECKSUM_BYTES)
        store_u64(made.data + made.size - CHECKSUM_BYTES,
                  XXH3_64bits_withSeed(made.data, made.size - CHECKSUM_BYTES, salt));
    made.in_file = (off_t)made.size;
    return made;
}

static void check_keys(struct kvstore *store, bool all_there)
{
    char key[16], value[32], got[32];
    for (int i = 0; i < KEYS; i++) {
        struct kvstore_entry entry = {0};
        key_and_value(i, key, value);
        enum kv_status status =
            kvstore_get(store, kv_slice_from_string(key), got, sizeof got, &entry);
        require(status == KV_OK || !all_there);
        if (status == KV_OK)
            require(memcmp(got, value, strlen(value)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (fuzz_make_dir())
        make_genuine();
    if (size == 0 || size > MOST_BYTES)
        return 0;
    struct bytes checkpoint = make_checkpoint(data[0], data + 1, size - 1);
    write_file("data.0000", &genuine_log);
    write_file("data.0000.index", &checkpoint);
    bool forged = data[0] & FIX_CHECKSUM;
    free(checkpoint.data);
    for (int round = 0; round < 2; round++) {
        struct kvstore *store = open_store();
        check_keys(store, !forged);
        fuzz_try_put(store);
        close_store(store);
    }
    return 0;
}
