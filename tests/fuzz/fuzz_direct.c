/*
 * covers: clientk/direct/direct_read.c clientk/direct/direct_scan.c
 *
 * A reader of a shared store that is damaged, under libFuzzer: whatever lies in the object and in
 * the log, reads and scans come to an end, touch nothing that is not theirs, and give nothing whose
 * checksum does not hold.
 *
 * Each input is a row of changes, PATCH_BYTES each:
 *
 *   byte 0     what is changed: the states of the data file, its directory, a slot of a segment,
 *              the log, or any word of the object behind the header
 *   byte 1..2  which word of it
 *   byte 3..   the word
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct.h"
#include "clientk/direct/direct_scan.h"
#include "common/memory/cursor.h"
#include "kvstore/format/fileheader.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/handmade_store.h"

#define PATCH_BYTES 11u
#define MAX_PATCHES 64u
#define KEYS        40u
#define LOG_WORDS   2000u

static struct handmade_store made;
static struct client_settings settings = {.direct = CLIENTK_DIRECT_MAP};
static struct direct direct;
static struct direct_reader reader;
static uint8_t *sound;     /* the object as it was */
static uint8_t *sound_log; /* the log likewise, LOG_WORDS * 8 bytes */
static int log_fd;

static struct kv_slice key_of(char buffer[16], unsigned number)
{
    snprintf(buffer, 16, "key %u", number);
    return kv_slice_from_string(buffer);
}

static void clean_up(void)
{
    direct_free(&direct);
    handmade_store_remove(&made);
}

static void begin(void)
{
    handmade_store_make(&made, 1);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16], value[8 * KEYS];
        memset(value, (int)i, sizeof value);
        handmade_put(&made, key_of(key, i), kv_slice(value, 8 * i), i % 9 == 0 ? 1 : 0);
    }
    log_fd = handmade_log(&made, 0);
    sound = malloc(made.free_offset);
    sound_log = malloc(LOG_WORDS * 8);
    require(sound && sound_log);
    memcpy(sound, made.object, made.free_offset);
    require(pread(log_fd, sound_log, LOG_WORDS * 8, 0) == (ssize_t)(LOG_WORDS * 8));
    direct_init(&direct, &settings);
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = made.device,
                                   .store_inode = made.inode};
    int pidfd = eventfd(0, EFD_CLOEXEC);
    direct_welcome(&direct, &welcome, geteuid(), (struct direct_server){.fd = pidfd});
    close(pidfd);
    atexit(clean_up);
}

static void change(uint8_t what, uint64_t which, uint64_t word)
{
    struct shared_generation *state = handmade_state(&made.files[0]);
    uint64_t words = made.free_offset / 8;
    switch (what % 5) {
    case 0:
        ((uint64_t *)made.files)[which % (sizeof(struct shared_file) / 8)] = word;
        break;
    case 1:
        ((uint32_t *)made.object)[((state->directory >> 8) * 4 + which % 8) % (words * 2)] =
            (uint32_t)word;
        break;
    case 2:
        ((uint64_t *)made.object)[(SHARED_STORE_HEADER_BYTES / 8 + 60 + which) % words] = word;
        break;
    case 3:
        require(pwrite(log_fd, &word, 8, (off_t)(which % LOG_WORDS * 8)) == 8);
        break;
    default:
        ((uint64_t *)
             made.object)[SHARED_STORE_HEADER_BYTES / 8 +
                          (which * 8 + word % 8) % (words - SHARED_STORE_HEADER_BYTES / 8)] = word;
    }
}

static bool visit(void *context, const struct clientk_entry *entry)
{
    unsigned *visits = context;
    require(entry->key.size > 0 && ++*visits < 100000);
    return true;
}

static void read_all_keys(void)
{
    struct clientk_value value = {.data = NULL};
    for (unsigned i = 0; i < KEYS; i += 3) {
        char key[16];
        enum kv_status status = KV_IO;
        if (!direct_get(&direct, &reader, key_of(key, i), i % 2 == 0, &value, &status))
            continue;
        require(status == KV_OK || status == KV_NOT_FOUND);
    }
    clientk_value_free(&value);
}

static void scan_all(void)
{
    struct clientk_result page = {.status = KV_OK};
    struct clientk_scan_options options = {.limit = 10};
    unsigned visits = 0;
    do {
        if (!direct_scan_page(&direct, &reader, kv_slice(NULL, 0), &options, &page))
            break;
        require(page.status == KV_OK);
        require(clientk_read_page(&page.value, visit, &visits) == KV_OK);
        require(page.number == 0 || (uint64_t)page.number != options.cursor);
        options.cursor = (uint64_t)page.number;
    } while (options.cursor != 0);
    clientk_value_free(&page.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sound)
        begin();
    memcpy(made.object, sound, made.free_offset);
    require(pwrite(log_fd, sound_log, LOG_WORDS * 8, 0) == (ssize_t)(LOG_WORDS * 8));
    for (size_t i = 0; i < size / PATCH_BYTES && i < MAX_PATCHES; i++) {
        const uint8_t *patch = data + i * PATCH_BYTES;
        change(patch[0], load_u16(patch + 1), load_u64(patch + 3));
    }
    made.files[0].states[0].moves &= ~UINT64_C(1); /* odd, nothing would be looked at */
    made.files[0].states[1].moves &= ~UINT64_C(1);
    read_all_keys();
    scan_all();
    return 0;
}
