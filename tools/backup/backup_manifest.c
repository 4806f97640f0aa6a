#include "tools/backup/backup_manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/report/error.h"

#define FORMAT_VERSION 1u
#define MOST_FILES     4096u
#define NAME           BACKUP_MANIFEST_NAME

static const char under_way[] = "under-way", complete[] = "complete";

uint64_t backup_header_check(const void *page)
{
    return XXH3_64bits(page, BACKUP_HEADER_BYTES);
}

bool backup_manifest_init(struct backup_manifest *manifest, uint32_t count)
{
    *manifest = (struct backup_manifest){.count = count};
    manifest->files = calloc(count, sizeof *manifest->files);
    return manifest->files;
}

void backup_manifest_free(struct backup_manifest *manifest)
{
    free(manifest->files);
    *manifest = (struct backup_manifest){0};
}

char *backup_manifest_print(const struct backup_manifest *manifest, size_t *size)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    if (!stream)
        return NULL;
    fprintf(stream, "mqkv backup %u\nstate %s\ntime_ms %" PRIu64 "\n", FORMAT_VERSION,
            manifest->under_way ? under_way : complete, manifest->time_ms);
    fprintf(stream, "store %016" PRIx64 "\nfiles %" PRIu32 "\n", manifest->store_seed,
            manifest->count);
    for (uint32_t number = 0; number < manifest->count; number++) {
        const struct backup_file *file = &manifest->files[number];
        fprintf(stream, "data.%04" PRIu32 " %016" PRIx64 " %" PRIu64 " %016" PRIx64 "\n", number,
                file->generation, file->bytes, file->header_check);
    }
    fflush(stream);
    fprintf(stream, "check %016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, *size));
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

/* Reads the number of the line "NAME NUMBER" and moves *at behind the line. */
static bool take_number(const char **at, const char *name, int base, uint64_t *number)
{
    size_t size = strlen(name);
    if (strncmp(*at, name, size) != 0 || (*at)[size] != ' ')
        return false;
    char *end;
    *number = strtoull(*at + size + 1, &end, base);
    if (*end != '\n')
        return false;
    *at = end + 1;
    return true;
}

static bool take_manifest_state(const char **at, bool *is_under_way)
{
    char word[16];
    int used = 0;
    if (sscanf(*at, "state %15[a-z-]\n%n", word, &used) != 1 || used == 0)
        return false;
    *is_under_way = strcmp(word, under_way) == 0;
    *at += used;
    return *is_under_way || strcmp(word, complete) == 0;
}

static bool take_file(const char **at, uint32_t number, struct backup_file *file)
{
    uint32_t said;
    int used = 0;
    if (sscanf(*at, "data.%" SCNu32 " %" SCNx64 " %" SCNu64 " %" SCNx64 "%n", &said,
               &file->generation, &file->bytes, &file->header_check, &used) != 4 ||
        (*at)[used] != '\n' || said != number || file->bytes < BACKUP_HEADER_BYTES)
        return false;
    *at += used + 1;
    return true;
}

static bool take_files(const char **at, struct backup_manifest *manifest)
{
    for (uint32_t number = 0; number < manifest->count; number++)
        if (!take_file(at, number, &manifest->files[number]))
            return false;
    return true;
}

/* Returns what is wrong with the text (NUL-terminated), or NULL. */
static const char *parse(struct backup_manifest *manifest, const char *text)
{
    const char *at = text;
    uint64_t version, time_ms, seed, count, check;
    bool is_under_way;
    if (!take_number(&at, "mqkv backup", 10, &version))
        return "it is not of a backup";
    if (version != FORMAT_VERSION)
        return "its format version is not 1";
    if (!take_manifest_state(&at, &is_under_way) || !take_number(&at, "time_ms", 10, &time_ms) ||
        !take_number(&at, "store", 16, &seed) || !take_number(&at, "files", 10, &count) ||
        count == 0 || count > MOST_FILES)
        return "it is damaged";
    if (!backup_manifest_init(manifest, (uint32_t)count))
        return "no memory for it";
    manifest->under_way = is_under_way;
    manifest->time_ms = time_ms;
    manifest->store_seed = seed;
    if (!take_files(&at, manifest))
        return "it is damaged";
    uint64_t is = XXH3_64bits(text, (size_t)(at - text));
    return take_number(&at, "check", 16, &check) && check == is ? NULL : "its checksum is wrong";
}

enum kv_status backup_manifest_parse(struct backup_manifest *manifest, const char *text,
                                     size_t size, struct kv_error *error)
{
    *manifest = (struct backup_manifest){0};
    char *copy = size <= BACKUP_MANIFEST_MAX_BYTES ? malloc(size + 1) : NULL;
    if (!copy)
        return kv_error_set(error, KV_CORRUPT, NAME ": the file is too large to be of a backup");
    memcpy(copy, text, size);
    copy[size] = '\0';
    const char *fault = parse(manifest, copy);
    free(copy);
    if (!fault)
        return KV_OK;
    backup_manifest_free(manifest);
    return kv_error_set(error, KV_CORRUPT, NAME ": %s", fault);
}
