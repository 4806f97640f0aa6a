#include "tests/support/handmade_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/format/file_name.h"
#include "kvstore/format/fileheader.h"

#define MAX_FILES  8u
#define STORE_SEED UINT64_C(0x5eed)
#define SALT       UINT64_C(0x5a17)
#define ENTRIES    (1u << HANDMADE_DEPTH)

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    abort();
}

static uint64_t take(struct handmade_store *store, uint64_t bytes)
{
    uint64_t offset = store->free_offset;
    store->free_offset += (bytes + 15) / 16 * 16;
    must(store->free_offset <= HANDMADE_OBJECT_BYTES, "handmade: the object is full");
    return offset;
}

/* A log without records. */
static void make_log(const struct handmade_store *store, uint32_t number,
                     struct shared_generation *state)
{
    char path[STORE_DIR_BYTES + FILE_NAME_BYTES + 8], new_path[sizeof path + 8];
    struct stat is;
    snprintf(path, sizeof path, "%s/%s", store->dir, file_name(number, FILE_LOG).text);
    snprintf(new_path, sizeof new_path, "%s.new", path);
    int fd = open(new_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && ftruncate(fd, (off_t)HANDMADE_LOG_BYTES) == 0 && fstat(fd, &is) == 0 &&
             rename(new_path, path) == 0,
         "handmade: log");
    close(fd);
    state->tail = FILE_HEADER_BYTES;
    state->salt = SALT + state->inode;
    state->device = is.st_dev;
    state->inode = is.st_ino;
}

/* An index without entries. */
static void make_index(struct handmade_store *store, struct shared_generation *state)
{
    uint64_t directory = take(store, ENTRIES * sizeof(uint32_t));
    uint32_t *entries = (uint32_t *)(store->object + directory);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint64_t offset = take(store, sizeof(struct index_segment));
        struct index_segment *segment = (struct index_segment *)(store->object + offset);
        memset(segment, 0, sizeof *segment);
        segment->depth = HANDMADE_DEPTH;
        segment->expiry_bound_ms = SEGMENT_NO_EXPIRY;
        entries[i] = (uint32_t)(offset / SHARED_STORE_REFERENCE_UNIT);
    }
    state->directory = shared_directory(directory / SHARED_STORE_REFERENCE_UNIT, HANDMADE_DEPTH);
}

static void make_object(struct handmade_store *store, uint32_t datafiles)
{
    struct stat is;
    must(stat(store->dir, &is) == 0, "handmade: directory");
    store->device = is.st_dev;
    store->inode = is.st_ino;
    store->name = shared_store_name(is.st_dev, is.st_ino);
    shm_unlink(
        store->name.text); /* of a test that was killed, and whose directory's number this is */
    store->object_fd = shm_open(store->name.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(store->object_fd >= 0 && ftruncate(store->object_fd, (off_t)HANDMADE_OBJECT_BYTES) == 0,
         "handmade: object");
    void *at =
        mmap(NULL, HANDMADE_OBJECT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, store->object_fd, 0);
    must(at != MAP_FAILED, "handmade: mapping");
    store->object = at;
    store->header = at;
    store->free_offset = SHARED_STORE_HEADER_BYTES;
    store->files =
        (struct shared_file *)(store->object + take(store, datafiles * sizeof(struct shared_file)));
}

void handmade_store_make(struct handmade_store *store, uint32_t datafiles)
{
    *store = (struct handmade_store){.next_version = 1};
    must(datafiles <= MAX_FILES, "handmade: too many files");
    store_dir_make(store->dir);
    make_object(store, datafiles);
    for (uint32_t i = 0; i < datafiles; i++) {
        make_log(store, i, &store->files[i].states[0]);
        make_index(store, &store->files[i].states[0]);
    }
    struct shared_store *header = store->header;
    header->magic = SHARED_STORE_MAGIC;
    header->layout = SHARED_STORE_LAYOUT;
    header->instance = 1;
    header->shared_bytes = HANDMADE_OBJECT_BYTES;
    header->store_seed = STORE_SEED;
    header->hash_key = (struct hash_key){{1, 2}};
    header->datafiles = datafiles;
    header->files_offset = SHARED_STORE_HEADER_BYTES;
    header->daemon_pid = (uint32_t)getpid();
    memcpy(header->dir, store->dir, strlen(store->dir) + 1);
    __atomic_store_n(&header->condition, SHARED_STORE_IN_USE, __ATOMIC_RELEASE);
}

void handmade_store_remove(struct handmade_store *store)
{
    munmap(store->object, HANDMADE_OBJECT_BYTES);
    close(store->object_fd);
    shm_unlink(store->name.text);
    store_dir_remove(store->dir);
}

int handmade_log(const struct handmade_store *store, uint32_t number)
{
    char path[STORE_DIR_BYTES + FILE_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", store->dir, file_name(number, FILE_LOG).text);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    must(fd >= 0, path);
    return fd;
}

struct shared_file *handmade_file(struct handmade_store *store, struct kv_slice key)
{
    return &store->files[keyhash_file(store->header->store_seed, key, store->header->datafiles)];
}

struct shared_generation *handmade_state(struct shared_file *file)
{
    return &file->states[file->generation % 2];
}

static uint32_t hash_of(const struct handmade_store *store, struct kv_slice key)
{
    return keyhash_index(keyhash(&store->header->hash_key, key));
}

static struct index_segment *segment_in(const struct handmade_store *store,
                                        const struct shared_generation *state, struct kv_slice key)
{
    const uint32_t *entries =
        (const uint32_t *)(store->object + shared_directory_offset(state->directory));
    uint64_t offset = (uint64_t)entries[hash_of(store, key) >> (32 - HANDMADE_DEPTH)] *
                      SHARED_STORE_REFERENCE_UNIT;
    return (struct index_segment *)(store->object + offset);
}

struct index_segment *handmade_segment(struct handmade_store *store, struct kv_slice key)
{
    return segment_in(store, handmade_state(handmade_file(store, key)), key);
}

static bool key_is_at(int fd, uint64_t offset, struct kv_slice key)
{
    uint8_t bytes[512];
    struct record record;
    uint64_t size_bytes;
    memset(bytes, 0, sizeof bytes);
    ssize_t got = pread(fd, bytes, sizeof bytes, (off_t)offset);
    return got > 0 && key.size < sizeof bytes / 2 &&
           record_parse(bytes, UINT64_MAX / 2, &record, &size_bytes) == RECORD_VALID &&
           kv_slice_equal(record.key, key);
}

/* The slot of the key; NULL: it is not there. */
static slot *slot_of_key(const struct handmade_store *store, const struct shared_generation *state,
                         int fd, struct kv_slice key)
{
    struct index_segment *segment = segment_in(store, state, key);
    struct segment_probe probe;
    uint64_t offset;
    segment_probe_start(&probe, segment, hash_of(store, key));
    while (segment_probe_next(&probe, &offset))
        if (key_is_at(fd, offset, key))
            return &segment->slots[(probe.position - 1) & SEGMENT_HOME_MASK];
    return NULL;
}

static void insert(struct index_segment *segment, slot item)
{
    uint32_t position = slot_hash(item) & SEGMENT_HOME_MASK;
    must(segment->count < INDEX_SEGMENT_SLOTS - 1, "handmade: a segment is full");
    for (uint32_t distance = 0; segment->slots[position] != 0; distance++) {
        slot resident = segment->slots[position];
        if (slot_distance(resident, position) < distance) {
            store_slot(&segment->slots[position], item);
            distance = slot_distance(resident, position);
            item = resident;
        }
        position = (position + 1) & SEGMENT_HOME_MASK;
    }
    store_slot(&segment->slots[position], item);
    segment->count++;
}

static void move(struct shared_generation *state)
{
    __atomic_store_n(&state->moves, state->moves + 1, __ATOMIC_RELEASE);
}

static uint64_t put_into(const struct handmade_store *store, struct shared_generation *state,
                         int fd, const struct record *record)
{
    uint64_t offset = state->tail;
    uint8_t *bytes =
        calloc(1, record_size(record->key.size, record->value.size, record->expiry_ms != 0));
    must(bytes != NULL, "handmade: memory");
    uint64_t size = record_write(bytes, record, kv_slice(NULL, 0), state->salt, offset);
    must(pwrite(fd, bytes, size, (off_t)offset) == (ssize_t)size, "handmade: write");
    free(bytes);
    __atomic_store_n(&state->tail, offset + size, __ATOMIC_RELEASE);
    slot item = index_slot_of(hash_of(store, record->key), offset);
    slot *at = slot_of_key(store, state, fd, record->key);
    if (at) {
        store_slot(at, item);
    } else {
        move(state);
        insert(segment_in(store, state, record->key), item);
        move(state);
    }
    return offset;
}

uint64_t handmade_put(struct handmade_store *store, struct kv_slice key, struct kv_slice value,
                      uint64_t expiry_ms)
{
    struct shared_file *file = handmade_file(store, key);
    int fd = handmade_log(store, (uint32_t)(file - store->files));
    struct record record = {.kind = RECORD_PUT,
                            .version = store->next_version++,
                            .expiry_ms = expiry_ms,
                            .key = key,
                            .value = value};
    uint64_t offset = put_into(store, handmade_state(file), fd, &record);
    close(fd);
    return offset;
}

void handmade_delete(struct handmade_store *store, struct kv_slice key)
{
    struct shared_file *file = handmade_file(store, key);
    struct shared_generation *state = handmade_state(file);
    struct index_segment *segment = handmade_segment(store, key);
    int fd = handmade_log(store, (uint32_t)(file - store->files));
    slot *at = slot_of_key(store, state, fd, key);
    must(at != NULL, "handmade: no such key");
    move(state);
    for (uint32_t hole = (uint32_t)(at - segment->slots);;) {
        uint32_t next = (hole + 1) & SEGMENT_HOME_MASK;
        if (segment->slots[next] == 0 || slot_distance(segment->slots[next], next) == 0) {
            store_slot(&segment->slots[hole], 0);
            break;
        }
        store_slot(&segment->slots[hole], segment->slots[next]);
        hole = next;
    }
    move(state);
    segment->count--;
    close(fd);
}

/* Puts the records of the old log that the index has into the new one. */
static void copy_entries(const struct handmade_store *store, struct shared_generation *next,
                         int next_log, const struct shared_generation *old, int old_log)
{
    const uint32_t *entries =
        (const uint32_t *)(store->object + shared_directory_offset(old->directory));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct index_segment *segment =
            (const struct index_segment *)(store->object +
                                           (uint64_t)entries[i] * SHARED_STORE_REFERENCE_UNIT);
        for (uint32_t at = 0; at < INDEX_SEGMENT_SLOTS; at++) {
            static uint8_t bytes[HANDMADE_LOG_BYTES];
            struct record record;
            uint64_t size_bytes;
            if (segment->slots[at] == 0)
                continue;
            ssize_t got =
                pread(old_log, bytes, sizeof bytes, (off_t)index_slot_offset(segment->slots[at]));
            must(got > 0 &&
                     record_parse(bytes, (uint64_t)got, &record, &size_bytes) == RECORD_VALID,
                 "handmade: a record");
            put_into(store, next, next_log, &record);
        }
    }
}

static void punch_log(int log)
{
    must(fallocate(log, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HANDMADE_LOG_BYTES) ==
             0,
         "handmade: hole");
}

static void punch(struct handmade_store *store, const struct shared_generation *old, int old_log)
{
    const uint32_t *entries =
        (const uint32_t *)(store->object + shared_directory_offset(old->directory));
    for (uint32_t i = 0; i < ENTRIES; i++)
        memset(store->object + (uint64_t)entries[i] * SHARED_STORE_REFERENCE_UNIT, 0,
               sizeof(struct index_segment));
    punch_log(old_log);
}

void handmade_replace(struct handmade_store *store, uint32_t number, bool with_hole)
{
    struct shared_file *file = &store->files[number];
    struct shared_generation *old = handmade_state(file);
    struct shared_generation *next = &file->states[(file->generation + 1) % 2];
    int old_log = handmade_log(store, number);
    *next = (struct shared_generation){.inode = old->inode};
    make_log(store, number, next);
    make_index(store, next);
    int next_log = handmade_log(store, number);
    copy_entries(store, next, next_log, old, old_log);
    close(next_log);
    __atomic_store_n(&file->generation, file->generation + 1, __ATOMIC_RELEASE);
    if (with_hole)
        punch(store, old, old_log);
    close(old_log);
}

void handmade_lose_log(struct handmade_store *store, uint32_t number)
{
    struct shared_generation elsewhere = {.inode = 0};
    int old_log = handmade_log(store, number);
    make_log(store, number, &elsewhere);
    punch_log(old_log);
    close(old_log);
}
