#include "clientk/program/ops/keys_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/ops/admin_request.h"
#include "clientk/program/ops/json_reader.h"
#include "clientk/program/ops/listing.h"
#include "common/text/escape.h"

#define BIG "bigkeys"
#define HOT "hotkeys"

#define MAX_LIMIT    1000u
#define MAX_TIME_MS  60000u
#define SHOWN_BYTES  128u /* of a key */
#define CURSOR_SHIFT 52   /* the number of the data file in a cursor that begins it */

#define LIMIT_ROW(type)                                                  \
    {                                                                    \
        "limit", 0, OPTION_NUMBER, "N", "keys to list (default 10)",     \
            OPTION_FIELD(struct type, limit), .min = 1, .max = MAX_LIMIT \
    }

const struct option_row bigkeys_option_rows[] = {
    LIMIT_ROW(bigkeys_options),
    {"sample", 0, OPTION_NUMBER, "N", "keys to look at (default 10000; 0: all)",
     OPTION_FIELD(struct bigkeys_options, sample), .max = UINT64_MAX},
    {.name = NULL},
};
const struct bigkeys_options bigkeys_option_defaults = {.limit = 10, .sample = 10000};

const struct option_row hotkeys_option_rows[] = {
    LIMIT_ROW(hotkeys_options),
    {"time", 't', OPTION_DURATION_MS, "TIME", "how long to look (default 5s, at most 60s)",
     OPTION_FIELD(struct hotkeys_options, time_ms), .min = 1, .max = MAX_TIME_MS},
    {.name = NULL},
};
const struct hotkeys_options hotkeys_option_defaults = {.limit = 10, .time_ms = 5000};

/* Big keys ------------------------------------------------------------------------------------- */

/* One that is listed. */
struct big_key {
    uint64_t bytes; /* of the value */
    size_t key_bytes;
    char key[SHOWN_BYTES];
};

/* The largest so far; [0] is the smallest of them once there are `limit`. */
struct big_search {
    uint64_t limit, looked_at;
    size_t count;
    struct big_key *found;
};

static int larger_first(const void *left, const void *right)
{
    const struct big_key *a = left, *b = right;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

/* A clientk_visit. */
static bool consider(void *context, const struct clientk_entry *entry)
{
    struct big_search *search = context;
    search->looked_at++;
    struct big_key *place = &search->found[search->count];
    if (search->count == search->limit) {
        place = &search->found[search->count - 1]; /* the smallest: they are sorted */
        if (entry->value.size <= place->bytes)
            return !interrupt_pending();
    } else {
        search->count++;
    }
    *place = (struct big_key){.bytes = entry->value.size, .key_bytes = entry->key.size};
    memcpy(place->key, entry->key.data,
           entry->key.size < SHOWN_BYTES ? entry->key.size : SHOWN_BYTES);
    qsort(search->found, search->count, sizeof *search->found, larger_first);
    return !interrupt_pending();
}

/* Numbers of the server: its data files and its keys. */
static enum kv_status ask_size(struct cli_context *context, uint64_t *files, uint64_t *keys)
{
    struct clientk_value answer = {0};
    enum kv_status status = clientk_stats(context->client, "files", &answer);
    struct json_value *document = status == KV_OK ? json_parse(answer.data, answer.size) : NULL;
    const struct json_value *sum = json_member(json_member(document, "files"), "sum");
    const struct json_value *count = json_member(sum, "files"), *all = json_member(sum, "keys");
    *files = count && count->number >= 1 && count->number <= 4096 ? (uint64_t)count->number : 1;
    *keys = all && all->number > 0 ? (uint64_t)all->number : 0;
    json_free(document);
    clientk_value_free(&answer);
    return status;
}

/* A scan's order is that of a secret hash: so the first entries of each data file are a fair
 * sample. */
static enum kv_status look_at_all(struct cli_context *context, struct big_search *search,
                                  uint64_t files, uint64_t sample)
{
    enum kv_status status = KV_OK;
    if (sample == 0)
        return clientk_scan(context->client, kv_slice(NULL, 0), false, NULL, 0, consider, search);
    for (uint64_t file = 0; file < files && status == KV_OK && !interrupt_pending(); file++) {
        uint64_t cursor = file << CURSOR_SHIFT;
        uint64_t share = sample / files + (file < sample % files);
        if (share > 0)
            status = clientk_scan(context->client, kv_slice(NULL, 0), false, &cursor, share,
                                  consider, search);
    }
    return status;
}

static void print_big(const struct big_search *search, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < search->count; i++) {
        const struct big_key *key = &search->found[i];
        bool cut = key->key_bytes > SHOWN_BYTES;
        fprintf(out, "%s{\"bytes\":%" PRIu64 ",\"key_bytes\":%zu,\"key\":", i > 0 ? "," : "",
                key->bytes, key->key_bytes);
        escape_print_json(out, kv_slice(key->key, cut ? SHOWN_BYTES : key->key_bytes));
        fputc('}', out);
    }
    fputc(']', out);
}

static enum kv_status list_big(struct cli_context *context, const struct big_search *search,
                               uint64_t keys)
{
    static const struct listing_column columns[] = {
        {"bytes", "BYTES", true}, {"key_bytes", "KEY BYTES", true}, {"key", "KEY", false}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return KV_NO_MEMORY;
    print_big(search, out);
    enum kv_status status = fclose(out) == 0 ? KV_OK : KV_NO_MEMORY;
    if (status == KV_OK)
        status = listing_print_text(&context->output, kv_slice(text, size), columns,
                                    sizeof columns / sizeof columns[0]);
    free(text);
    if (status == KV_OK && context->output.format == OUTPUT_TEXT)
        fprintf(context->output.stream, "%" PRIu64 " of %" PRIu64 " keys looked at\n",
                search->looked_at, keys);
    return status;
}

int bigkeys_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count)
{
    (void)operands, (void)count;
    const struct bigkeys_options *given = options;
    uint64_t files, keys;
    struct big_search search = {.limit = given->limit};
    int code = cli_connect_for(context, BIG);
    if (code != EXIT_DONE)
        return code;
    search.found = calloc(given->limit + 1, sizeof *search.found);
    enum kv_status status = search.found ? ask_size(context, &files, &keys) : KV_NO_MEMORY;
    if (status == KV_OK)
        status = look_at_all(context, &search, files, given->sample);
    const char *sentence = status == KV_OK ? NULL : cli_sentence(status);
    if (status == KV_OK)
        status = list_big(context, &search, keys);
    free(search.found);
    return status == KV_OK ? EXIT_DONE : output_failure(&context->output, BIG, status, sentence);
}

/* Hot keys ------------------------------------------------------------------------------------- */

static int list_hot(struct cli_context *context, struct kv_slice json)
{
    static const struct listing_column columns[] = {{"share", "SHARE", true},
                                                    {"count", "COUNT", true},
                                                    {"error", "AT MOST TOO HIGH", true},
                                                    {"key", "KEY", false}};
    struct json_value *document = json_parse(json.data, json.size);
    const struct json_value *keys = json_member(document, "keys");
    const struct json_value *seen = json_member(document, "seen");
    if (!keys || !seen) {
        json_free(document);
        return output_failure(&context->output, HOT, KV_IO, "the server's answer is malformed");
    }
    listing_print(&context->output, json, keys, columns, sizeof columns / sizeof columns[0]);
    if (context->output.format == OUTPUT_TEXT)
        fprintf(context->output.stream,
                "of %.0f operations; reads without the server (--direct) are not among them\n",
                seen->number);
    json_free(document);
    return EXIT_DONE;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL); /* cut short by Ctrl-C, which then shows what there is */
}

int hotkeys_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count)
{
    (void)operands, (void)count;
    const struct hotkeys_options *given = options;
    char argument[32];
    struct clientk_value answer = {0};
    snprintf(argument, sizeof argument, "%" PRIu64, given->time_ms);
    int code = admin_request(context, HOT, "hot-begin", argument, &answer);
    if (code == EXIT_DONE) {
        sleep_ms(given->time_ms);
        interrupt_clear();
        snprintf(argument, sizeof argument, "%" PRIu64, given->limit);
        code = admin_request(context, HOT, "hot-keys", argument, &answer);
    }
    if (code == EXIT_DONE)
        code = list_hot(context, kv_slice(answer.data, answer.size));
    clientk_value_free(&answer);
    return code;
}
