/*
 * damage_store: does something to the files of a store that nobody uses, chosen by a seed, and says
 * on one line what. Some of it keeps the checksums right, as no accident does.
 *
 *   damage_store DIR SEED         one to three damages
 *   damage_store --open DIR       opens the store as serverk does, by mapping and by calls, reads
 *                                 all of it, writes, closes. Exit status 0: opened, 1: refused
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/memory/cursor.h"
#include "common/report/log.h"
#include "common/numbers/random.h"
#include "kvstore/format/fileheader.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/record.h"

#define MAX_FILES      64
#define MAX_FILE_BYTES (UINT64_C(64) << 20) /* that is read into memory */
#define MAX_DAMAGES    3u

struct file {
    char name[256];
    uint8_t *bytes; /* with room for one page more */
    size_t size;
};

static struct random_state randomness;
static int dir_fd;
static char names[MAX_FILES][256];
static size_t name_count;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "damage_store: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t below(uint64_t bound)
{
    return random_below(&randomness, bound == 0 ? 1 : bound);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_files(const char *dir)
{
    DIR *listing = opendir(dir);
    require(listing != NULL, dir);
    name_count = 0;
    for (const struct dirent *entry; name_count < MAX_FILES && (entry = readdir(listing));) {
        struct stat facts;
        if (strncmp(entry->d_name, "data.", 5) != 0 ||
            fstatat(dir_fd, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(facts.st_mode))
            continue;
        snprintf(names[name_count++], sizeof names[0], "%s", entry->d_name);
    }
    closedir(listing);
    qsort(names, name_count, sizeof names[0], compare_names); /* the seed decides, not the disk */
}

static void load(struct file *file, const char *name)
{
    struct stat facts;
    snprintf(file->name, sizeof file->name, "%s", name);
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    require(fd >= 0 && fstat(fd, &facts) == 0, name);
    file->size = (uint64_t)facts.st_size < MAX_FILE_BYTES ? (size_t)facts.st_size : MAX_FILE_BYTES;
    file->bytes = calloc(1, file->size + FILE_HEADER_BYTES);
    require(file->bytes && pread(fd, file->bytes, file->size, 0) == (ssize_t)file->size, name);
    close(fd);
}

static void save(struct file *file)
{
    int fd = openat(dir_fd, file->name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && pwrite(fd, file->bytes, file->size, 0) == (ssize_t)file->size, file->name);
    close(fd);
    free(file->bytes);
}

/* Where the zeros begin that last to its end. */
static size_t used(const struct file *file)
{
    size_t size = file->size;
    while (size > 0 && file->bytes[size - 1] == 0)
        size--;
    return size;
}

/* A number of the kind that breaks sums. */
static uint64_t odd_number(void)
{
    uint64_t bit = UINT64_C(1) << below(64);
    switch (below(4)) {
    case 0:
        return bit;
    case 1:
        return bit - 1;
    case 2:
        return 0 - bit;
    default:
        return random_next(&randomness);
    }
}

/* Damages of one file's bytes ------------------------------------------------------------------ */

static void flip_bits(struct file *file)
{
    for (uint64_t left = 1 + below(4); left > 0 && used(file) > 0; left--)
        file->bytes[below(used(file))] ^= (uint8_t)(1u << below(8));
}

static void put_number(struct file *file)
{
    if (used(file) >= 8)
        store_u64(file->bytes + below(used(file) / 4 - 1) * 4, odd_number());
}

static void blank_block(struct file *file)
{
    size_t from = below(used(file) + 1);
    size_t size = below(file->size - from + 1);
    memset(file->bytes + from, below(2) == 0 ? 0 : 0xff, size > 9000 ? 9000 : size);
}

static void move_block(struct file *file)
{
    size_t size = 8 * (1 + below(512));
    if (used(file) > size)
        memmove(file->bytes + below(used(file) - size) / 8 * 8,
                file->bytes + below(used(file) - size) / 8 * 8, size);
}

/* Fields of the header page, with the checksums that belong to them. */
static void seal_header(struct file *file)
{
    struct file_identity identity;
    struct file_progress progress;
    if (file->size < FILE_HEADER_BYTES ||
        fileheader_read_identity(file->bytes, &identity) != FILEHEADER_VALID ||
        !fileheader_read_progress(file->bytes, identity.salt, &progress))
        return;
    uint8_t note[FILE_NOTE_BYTES];
    for (size_t i = 0; i < sizeof note; i++)
        note[i] = (uint8_t)below(256);
    progress.sequence++;
    switch (below(8)) {
    case 0:
        identity.datafiles = (uint32_t)odd_number();
        break;
    case 1:
        identity.number = (uint32_t)odd_number();
        break;
    case 2:
        identity.store_seed = odd_number();
        break;
    case 3:
        progress.synced_offset = below(2) == 0 ? odd_number() : below(file->size) / 8 * 8;
        break;
    case 4:
        progress.version_floor = odd_number();
        break;
    case 5:
        progress.sequence = odd_number();
        break;
    case 6:
        fileheader_write_note(file->bytes, FILE_NOTE_BOOT, identity.salt, note);
        break;
    default:
        fileheader_write_note(file->bytes, FILE_NOTE_HASH_KEY, identity.salt, note);
        break;
    }
    fileheader_write_identity(file->bytes, &identity);
    fileheader_write_progress(file->bytes, identity.salt, &progress);
}

/* One of the log's records, with other fields and its checksum: "records" counts down to it. */
static void seal_record(struct file *file)
{
    struct file_identity identity;
    if (file->size < FILE_HEADER_BYTES ||
        fileheader_read_identity(file->bytes, &identity) != FILEHEADER_VALID)
        return;
    struct record record;
    uint64_t size_bytes = 0, at = FILE_HEADER_BYTES;
    for (uint64_t records = below(40); records > 0; records--, at += size_bytes)
        if (record_read(file->bytes + at, file->size - at, identity.salt, at, &record,
                        &size_bytes) != RECORD_VALID)
            break;
    if (record_read(file->bytes + at, file->size - at, identity.salt, at, &record, &size_bytes) !=
        RECORD_VALID)
        return;
    uint8_t *copy = malloc(size_bytes);
    require(copy != NULL, "malloc");
    memcpy(copy, file->bytes + at, size_bytes);
    if (record_parse(copy, size_bytes, &record, &size_bytes) == RECORD_VALID) {
        switch (below(3)) {
        case 0: /* a version below or far above */
            record.version = odd_number() % RECORD_VERSION_LIMIT;
            break;
        case 1:
            record.kind = RECORD_DELETE;
            record.value.size = 0;
            break;
        default:
            record.key.size = 1 + below(record.key.size);
            break;
        }
        if (record.version > 0)
            record_write(file->bytes + at, &record, kv_slice(NULL, 0), identity.salt, at);
    }
    free(copy);
}

/* A number of a checkpoint, with its checksum: that of this generation, that matches its log. */
static void seal_checkpoint(struct file *file)
{
    const size_t salt_at = 16, checksum_bytes = 8;
    if (file->size < 96 || !strstr(file->name, ".index"))
        return;
    size_t numbers = (file->size - checksum_bytes) / 4;
    store_u32(file->bytes + 4 * below(below(2) == 0 ? 24 : numbers), (uint32_t)odd_number());
    size_t checked = file->size - checksum_bytes;
    store_u64(file->bytes + checked,
              XXH3_64bits_withSeed(file->bytes, checked, load_u64(file->bytes + salt_at)));
}

static const struct {
    const char *what;
    void (*apply)(struct file *file);
} byte_damages[] = {
    {"bits flipped", flip_bits},
    {"a number overwritten", put_number},
    {"a block blanked", blank_block},
    {"a block moved", move_block},
    {"the header changed and sealed", seal_header},
    {"a record changed and sealed", seal_record},
    {"another record changed and sealed", seal_record},
    {"a number of the checkpoint changed and sealed", seal_checkpoint},
    {"another number of the checkpoint changed and sealed", seal_checkpoint},
};

#define BYTE_DAMAGES (sizeof byte_damages / sizeof byte_damages[0])

/* Damages of whole files ----------------------------------------------------------------------- */

static void resize(const char *name)
{
    static const off_t large[] = {(off_t)1 << 30, ((off_t)32 << 30) - 8, (off_t)32 << 30,
                                  ((off_t)32 << 30) + 8, (off_t)1 << 40};
    struct stat facts;
    require(fstatat(dir_fd, name, &facts, 0) == 0, name);
    off_t size = (off_t)below((uint64_t)facts.st_size + 1);
    if (below(3) == 0)
        size = facts.st_size + (off_t)below(100000);
    if (below(4) == 0)
        size = large[below(sizeof large / sizeof large[0])];
    int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, size) == 0, name);
    if (below(2) == 0 && size > 0)
        require(pwrite(fd, "damage", 1 + below(6), (off_t)below((uint64_t)size)) > 0, name);
    close(fd);
    printf("%s resized to %lld; ", name, (long long)size);
}

static void swap_files(const char *name)
{
    const char *other = names[below(name_count)];
    require(
        renameat2(dir_fd, name, dir_fd, other, strcmp(name, other) == 0 ? 0 : RENAME_EXCHANGE) == 0,
        other);
    printf("%s and %s swapped; ", name, other);
}

/* By what it is not. */
static void replace(const char *name)
{
    static const char *const whats[] = {"nothing",          "a FIFO",   "a directory",
                                        "a link to itself", "a device", "an empty file",
                                        "a copy of another"};
    uint64_t what = below(sizeof whats / sizeof whats[0]);
    const char *other = names[below(name_count)];
    struct file copy = {.size = 0};
    load(&copy, other);
    require(unlinkat(dir_fd, name, 0) == 0, name);
    int result = 0;
    switch (what) {
    case 1:
        result = mkfifoat(dir_fd, name, 0600);
        break;
    case 2:
        result = mkdirat(dir_fd, name, 0700);
        break;
    case 3:
        result = symlinkat(name, dir_fd, name);
        break;
    case 4:
        result = symlinkat("/dev/zero", dir_fd, name);
        break;
    case 5:
        copy.size = 0;
        break;
    default:
        break;
    }
    require(result == 0, name);
    snprintf(copy.name, sizeof copy.name, "%s", name);
    if (what >= 5)
        save(&copy);
    else
        free(copy.bytes);
    printf("%s replaced by %s; ", name, whats[what]);
}

static void damage_once(const char *dir)
{
    list_files(dir);
    if (name_count == 0)
        return;
    const char *name = names[below(name_count)];
    uint64_t choice = below(BYTE_DAMAGES + 4);
    if (choice == BYTE_DAMAGES) {
        swap_files(name);
    } else if (choice == BYTE_DAMAGES + 1) {
        replace(name);
    } else if (choice > BYTE_DAMAGES) {
        resize(name);
    } else {
        struct file file = {.size = 0};
        load(&file, name);
        byte_damages[choice].apply(&file);
        save(&file);
        printf("%s: %s; ", name, byte_damages[choice].what);
    }
}

/* Opening -------------------------------------------------------------------------------------- */

static bool count_entry(void *context, const struct kvstore_scanned *entry)
{
    uint64_t *bytes = context;
    *bytes += entry->key.size + entry->value.size;
    return true;
}

static void use(struct kvstore *store)
{
    uint64_t cursor = 0, bytes = 0, before;
    static char value[1 << 20];
    do {
        before = cursor;
        kvstore_scan(store, &cursor, kv_slice(NULL, 0), 100, count_entry, &bytes, NULL);
    } while (cursor != 0 && cursor != before);
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        kvstore_get(store, kv_slice_from_string(key), value, sizeof value, NULL);
        kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string(key), NULL, NULL);
        kvstore_delete(store, kv_slice_from_string(key), 0, NULL);
    }
}

static int open_store(const char *dir)
{
    for (int io = 0; io < KVSTORE_IO_COUNT; io++) {
        struct kvstore_options options = {.io = (enum kvstore_io)io};
        struct kv_error error = {0};
        struct kvstore *store;
        enum kv_status status = kvstore_open(dir, &options, &store, &error);
        if (status == KV_UNSUPPORTED) /* of the file system: reads past the page cache */
            continue;
        if (status != KV_OK) {
            printf("refused: %s\n", error.text);
            return 1;
        }
        use(store);
        if (kvstore_close(store, &error) != KV_OK)
            printf("closed with: %s\n", error.text);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: damage_store DIR SEED | --open DIR\n");
        return 2;
    }
    log_set_level(LOG_LEVEL_ERROR);
    if (strcmp(argv[1], "--open") == 0)
        return open_store(argv[2]);
    random_seed(&randomness, strtoull(argv[2], NULL, 0));
    dir_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(dir_fd >= 0, argv[1]);
    for (uint64_t left = 1 + below(MAX_DAMAGES); left > 0; left--)
        damage_once(argv[1]);
    putchar('\n');
    return 0;
}
