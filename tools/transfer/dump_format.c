#include "tools/transfer/dump_format.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "common/text/escape.h"

#define FORMAT_VERSION  1
#define HEADER_START    "# mqkv dump "
#define TRAILER_START   "# mqkv dump end: "
#define LONGEST_COMMENT 200

uint64_t dump_checksum(uint64_t checksum, const void *line, size_t size)
{
    return XXH3_64bits_withSeed(line, size, checksum);
}

void dump_print_header(FILE *stream, const char *queue)
{
    char when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fprintf(stream, HEADER_START "%d, queue %s, %s\n", FORMAT_VERSION, queue, when);
}

static char *append_dump_text(char *at, const char *text)
{
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

size_t dump_put_entry(char *text, struct kv_slice key, struct kv_slice value, uint64_t expiry_ms)
{
    char *at = append_dump_text(text, "PUT \"");
    at = escape_to(at, key);
    at = append_dump_text(at, "\" \"");
    at = escape_to(at, value);
    *at++ = '"';
    if (expiry_ms != 0)
        at += sprintf(at, " --expires-at %" PRIu64, expiry_ms);
    *at++ = '\n';
    return (size_t)(at - text);
}

void dump_print_trailer(FILE *stream, uint64_t entries, uint64_t checksum)
{
    fprintf(stream, TRAILER_START "%" PRIu64 " entries, checksum %016" PRIx64 "\n", entries,
            checksum);
}

static bool line_begins_with(const char *line, size_t size, const char *start)
{
    return size >= strlen(start) && memcmp(line, start, strlen(start)) == 0;
}

bool dump_check_line(struct dump_check *check, const char *line, size_t size)
{
    char text[LONGEST_COMMENT + 1] = "";
    if (size <= LONGEST_COMMENT && size > 0)
        memcpy(text, line, size);
    if (line_begins_with(text, size, TRAILER_START)) {
        check->has_trailer = sscanf(text, TRAILER_START "%" SCNu64 " entries, checksum %" SCNx64,
                                    &check->trailer_entries, &check->trailer_checksum) == 2;
        return true;
    }
    if (line_begins_with(text, size, HEADER_START)) {
        int version = 0;
        check->has_header = true;
        check->other_version =
            sscanf(text, HEADER_START "%d", &version) != 1 || version != FORMAT_VERSION;
        return true;
    }
    check->entries++;
    check->checksum = dump_checksum(check->checksum, line, size);
    return false;
}

const char *dump_check_verdict(const struct dump_check *check, char reason[160])
{
    if (!check->has_header)
        return NULL;
    if (check->other_version)
        snprintf(reason, 160, "its format version is not %d", FORMAT_VERSION);
    else if (!check->has_trailer)
        snprintf(reason, 160, "it has no trailer: the dump was cut off after %" PRIu64 " entries",
                 check->entries);
    else if (check->entries != check->trailer_entries)
        snprintf(reason, 160, "it has %" PRIu64 " entries, its trailer says %" PRIu64,
                 check->entries, check->trailer_entries);
    else if (check->checksum != check->trailer_checksum)
        snprintf(reason, 160,
                 "its checksum is %016" PRIx64 ", its trailer says %016" PRIx64
                 ": the dump was changed",
                 check->checksum, check->trailer_checksum);
    else
        return NULL;
    return reason;
}
