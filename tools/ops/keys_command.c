#include "tools/ops/keys_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "tools/ops/admin_request.h"
#include "clientk/program/cli/json_reader.h"
#include "tools/ops/listing.h"
#include "common/text/escape.h"

#define BIG "bigkeys"
#define HOT "hotkeys"

#define MAX_LIMIT    1000u
#define MAX_TIME_MS  60000u
#define SHOWN_BYTES  128u /* most bytes of a key that are shown */
#define MAX_FILES    4096u
#define CURSOR_SHIFT 52 /* a cursor has the number of the data file in the bits above */

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

/* One listed key. */
struct big_key {
    uint64_t bytes; /* bytes of the value */
    size_t key_bytes;
    char key[SHOWN_BYTES];
};

/* The largest keys so far, the largest first. */
struct big_search {
    uint64_t limit, looked_at;
    uint64_t keys;       /* keys of the store, as the server counts them; 0: it does not */
    uint64_t unreadable; /* records that were skipped */
    size_t count;
    struct big_key *found;
};

static int larger_first(const void *left, const void *right)
{
    const struct big_key *a = left, *b = right;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

/* Returns true if the key is listed already: the parts of a sample may overlap if keys of a data
 * file expire or are deleted meanwhile. Of a long key not enough is kept to recognise it. */
static bool is_listed(const struct big_search *search, struct kv_slice key)
{
    for (size_t i = 0; i < search->count && key.size <= SHOWN_BYTES; i++)
        if (search->found[i].key_bytes == key.size &&
            memcmp(search->found[i].key, key.data, key.size) == 0)
            return true;
    return false;
}

/* A clientk_visit. */
static bool consider(void *context, const struct clientk_entry *entry)
{
    struct big_search *search = context;
    bool is_full = search->count == search->limit;
    search->looked_at++;
    if ((is_full && entry->value.size <= search->found[search->count - 1].bytes) ||
        is_listed(search, entry->key))
        return !interrupt_pending();
    struct big_key *place = &search->found[is_full ? search->count - 1 : search->count++];
    *place = (struct big_key){.bytes = entry->value.size, .key_bytes = entry->key.size};
    memcpy(place->key, entry->key.data,
           entry->key.size < SHOWN_BYTES ? entry->key.size : SHOWN_BYTES);
    qsort(search->found, search->count, sizeof *search->found, larger_first);
    return !interrupt_pending();
}

static uint64_t key_number(const struct json_value *object, const char *name)
{
    const struct json_value *value = json_member(object, name);
    bool is_count =
        value && value->kind == JSON_NUMBER && value->number > 0 && value->number < 1e18;
    return is_count ? (uint64_t)value->number : 0;
}

/* Asks the server about its data files; NULL in *document: its answer is malformed. */
static enum kv_status ask_files(struct cli_context *context, struct json_value **document)
{
    struct clientk_value answer = {0};
    enum kv_status status = clientk_stats(context->client, "files", &answer);
    *document = status == KV_OK ? json_parse(answer.data, answer.size) : NULL;
    clientk_value_free(&answer);
    return status;
}

/* Returns the number of keys of a file; UINT64_MAX: the server lists no such file. */
static uint64_t keys_of_file(const struct json_value *files, uint64_t number)
{
    const struct json_value *each = json_member(files, "each");
    for (const struct json_value *file = each ? each->first : NULL; file; file = file->next)
        if (key_number(file, "file") == number)
            return key_number(file, "keys");
    return UINT64_MAX;
}

/* Scans like clientk_scan, but continues behind a record that is damaged or cannot be read. */
static enum kv_status look_from(struct cli_context *context, struct big_search *search,
                                uint64_t cursor, uint64_t limit)
{
    uint64_t before, left = limit;
    enum kv_status status;
    bool passed_over;
    do {
        uint64_t looked_at = search->looked_at;
        before = cursor;
        status = clientk_scan(context->client, kv_slice(NULL, 0), false, &cursor, left, consider,
                              search);
        passed_over = (status == KV_CORRUPT || status == KV_IO) && cursor != before;
        search->unreadable += passed_over;
        left -= limit > 0 ? search->looked_at - looked_at : 0;
    } while (passed_over && cursor != 0 && (limit == 0 || left > 0) && !interrupt_pending());
    return passed_over ? KV_OK : status;
}

/* Looks at a sample of each data file. The order of a scan is that of a secret hash, so the first
 * entries of a file are a fair sample. A scan does not stop at the end of its file, so no more
 * entries are asked for than the file has. */
static enum kv_status look_at_all(struct cli_context *context, struct big_search *search,
                                  const struct json_value *files, uint64_t sample)
{
    enum kv_status status = KV_OK;
    uint64_t count = key_number(json_member(files, "sum"), "files");
    if (sample == 0 || (search->keys > 0 && sample >= search->keys))
        return look_from(context, search, 0, 0);
    count = count == 0 || count > MAX_FILES ? 1 : count;
    for (uint64_t file = 0; file < count && status == KV_OK && !interrupt_pending(); file++) {
        uint64_t share = sample / count + (file < sample % count);
        uint64_t keys = keys_of_file(files, file);
        if (share > 0 && keys > 0)
            status = look_from(context, search, file << CURSOR_SHIFT, share < keys ? share : keys);
    }
    return status;
}

/* Prints the key: as JSON has it, and in a table as scan does, a word of a batch line. */
static void print_key(FILE *out, struct kv_slice key, enum output_format format)
{
    char *word = NULL;
    size_t size = 0;
    if (format == OUTPUT_JSON) {
        output_json_bytes(out, "key", key);
        return;
    }
    FILE *text = open_memstream(&word, &size);
    if (!text)
        return;
    if (format == OUTPUT_TEXT)
        escape_print_word(text, key);
    else if (escape_is_printable(key, false))
        fwrite(key.data, 1, key.size, text);
    else
        escape_print(text, key);
    fclose(text);
    fputs("\"key\":", out);
    escape_print_json(out, kv_slice(word, size));
    free(word);
}

static void print_big(const struct big_search *search, FILE *out, enum output_format format)
{
    fputc('[', out);
    for (size_t i = 0; i < search->count; i++) {
        const struct big_key *key = &search->found[i];
        bool cut = key->key_bytes > SHOWN_BYTES;
        fprintf(out, "%s{\"bytes\":%" PRIu64 ",\"key_bytes\":%zu,", i > 0 ? "," : "", key->bytes,
                key->key_bytes);
        print_key(out, kv_slice(key->key, cut ? SHOWN_BYTES : key->key_bytes), format);
        fputc('}', out);
    }
    fputc(']', out);
}

static enum kv_status list_big(struct cli_context *context, const struct big_search *search)
{
    static const struct listing_column columns[] = {
        {"bytes", "BYTES", true}, {"key_bytes", "KEY BYTES", true}, {"key", "KEY", false}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return KV_NO_MEMORY;
    print_big(search, out, context->output.format);
    enum kv_status status = fclose(out) == 0 ? KV_OK : KV_NO_MEMORY;
    if (status == KV_OK)
        status = listing_print_text(&context->output, kv_slice(text, size), columns,
                                    sizeof columns / sizeof columns[0]);
    free(text);
    if (status == KV_OK && context->output.format == OUTPUT_TEXT)
        fprintf(context->output.stream, "%" PRIu64 " of %" PRIu64 " keys looked at\n",
                search->looked_at, search->keys);
    return status;
}

static int tell_unreadable(struct cli_context *context, uint64_t records)
{
    char sentence[96];
    snprintf(sentence, sizeof sentence, "%" PRIu64 " damaged or unreadable record%s left out",
             records, records == 1 ? " is" : "s are");
    return output_failure(&context->output, BIG, KV_CORRUPT, sentence);
}

int bigkeys_run(struct cli_context *context, const void *options, const struct word *operands,
                size_t count)
{
    (void)operands, (void)count;
    const struct bigkeys_options *given = options;
    struct json_value *document = NULL;
    struct big_search search = {.limit = given->limit};
    int code = cli_connect_for(context, BIG);
    if (code != EXIT_DONE)
        return code;
    search.found = calloc(given->limit + 1, sizeof *search.found);
    enum kv_status status = search.found ? ask_files(context, &document) : KV_NO_MEMORY;
    const struct json_value *files = json_member(document, "files");
    search.keys = key_number(json_member(files, "sum"), "keys");
    if (status == KV_OK)
        status = look_at_all(context, &search, files, given->sample);
    const char *sentence = status == KV_OK ? NULL : cli_sentence(status);
    if (status == KV_OK)
        status = list_big(context, &search);
    json_free(document);
    free(search.found);
    if (status != KV_OK)
        return output_failure(&context->output, BIG, status, sentence);
    return search.unreadable > 0 ? tell_unreadable(context, search.unreadable) : EXIT_DONE;
}

/* Hot keys ------------------------------------------------------------------------------------- */

static int list_hot_keys(struct cli_context *context, struct kv_slice json)
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
    bool is_silent = context->output.format == OUTPUT_TEXT && !keys->first;
    if (is_silent)
        fputs("no keys were asked for: ", context->output.stream);
    else
        listing_print(&context->output, json, keys, columns, sizeof columns / sizeof columns[0]);
    if (context->output.format == OUTPUT_TEXT)
        fprintf(context->output.stream,
                "of %.0f operations; reads without the server (--direct) are not among them\n",
                seen->number);
    json_free(document);
    return EXIT_DONE;
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
        struct timespec pause = {(time_t)(given->time_ms / 1000),
                                 (long)(given->time_ms % 1000) * 1000000};
        nanosleep(&pause, NULL); /* Ctrl-C ends the pause, and what was found until then is shown */
        interrupt_clear();
        snprintf(argument, sizeof argument, "%" PRIu64, given->limit);
        code = admin_request(context, HOT, "hot-keys", argument, &answer);
    }
    if (code == EXIT_DONE)
        code = list_hot_keys(context, kv_slice(answer.data, answer.size));
    clientk_value_free(&answer);
    return code;
}
