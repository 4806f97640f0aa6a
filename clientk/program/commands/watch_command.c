#include "clientk/program/commands/watch_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/child_program.h"
#include "common/text/escape.h"

#define MOST_KEY_BYTES 65535u

/* The time after a failure before the server is asked again. */
#define RETRY_MS 200

/* At most this many changes are printed before the stream is flushed: they may be printed twice if
 * a write failed. */
#define FLUSH_CHANGES 1000u

const struct option_row watch_option_rows[] = {
    {"since", 0, OPTION_TEXT, "POSITION",
     "begin at this position, not now; @FILE: read it from FILE",
     OPTION_FIELD(struct watch_options, since), .min = 1, .expects = "a position"},
    {"limit", 0, OPTION_NUMBER, "N", "stop after N changes",
     OPTION_FIELD(struct watch_options, limit), .min = 1, .max = UINT64_MAX},
    {"keys", 0, OPTION_FLAG, NULL, "leave out the values",
     OPTION_FIELD(struct watch_options, keys_only)},
    {"positions", 0, OPTION_FLAG, NULL, "print the position behind each change",
     OPTION_FIELD(struct watch_options, positions)},
    {"transactions", 0, OPTION_FLAG, NULL, "tell which changes belong to one transaction",
     OPTION_FIELD(struct watch_options, transactions)},
    {.name = NULL},
};
const struct watch_options watch_option_defaults = {0};

/* The state of one run of the command. */
struct change_listing {
    struct output *output;
    const struct watch_options *options;
    struct clientk_watch *watch;
    struct clientk_value position; /* position as text */
    struct clientk_value
        written; /* the position behind the last change that surely left the stream */
    uint64_t count;
    uint64_t unflushed;         /* number of changes */
    const struct word *program; /* what runs for each change; NULL: changes are printed */
    size_t program_words;
    int program_code; /* of the last one that failed */
    bool cannot_run;
    bool missed;
    bool troubled; /* the last failure was reported; until the next change no other is */
};

static const char *name_of(enum clientk_change_kind kind)
{
    return kind == CLIENTK_CHANGE_DELETE   ? "delete"
           : kind == CLIENTK_CHANGE_EXPIRE ? "expire"
                                           : "put";
}

/* Fills in listing->position and returns its text. */
static const char *position_of(struct change_listing *listing)
{
    if (clientk_watch_position(listing->watch, &listing->position) != KV_OK)
        return "";
    return listing->position.data;
}

static void print_transaction_json(struct change_listing *listing)
{
    struct clientk_change_transaction told;
    clientk_watch_transaction(listing->watch, &told);
    fprintf(listing->output->stream,
            ",\"transaction\":%" PRIu64 ",\"parts\":%" PRIu32 ",\"goes_on\":%s", told.number,
            told.parts, told.goes_on ? "true" : "false");
}

/* Prints a line behind a change of a transaction: whether the next one belongs to it, too; if not,
 * the number, and of how many parts this was one, unless it is the only one. */
static void print_transaction_text(struct change_listing *listing)
{
    FILE *stream = listing->output->stream;
    struct clientk_change_transaction told;
    clientk_watch_transaction(listing->watch, &told);
    if (told.goes_on)
        fputs("together with the next\n", stream);
    else if (told.number > 0)
        fprintf(stream, "part of transaction %" PRIu64 " with %" PRIu32 " parts\n", told.number,
                told.parts);
}

/* Runs the program for the change; NULL: some changes were missed. Its exit code is kept, and a
 * signal that came meanwhile counts for this program, too. */
static void run_for_change(struct change_listing *listing, const struct clientk_change *change)
{
    char key[MOST_KEY_BYTES + 1], version[24];
    struct child_program child;
    struct kv_error error = {0};
    size_t size = change ? change->key.size : 0;
    if (size > MOST_KEY_BYTES || (size > 0 && memchr(change->key.data, '\0', size))) {
        fputs("clientk: watch: no environment can hold this key, and no program ran: ", stderr);
        escape_print_word(stderr, change->key);
        fputc('\n', stderr);
        listing->program_code = EXIT_REFUSED;
        return;
    }
    if (size > 0)
        memcpy(key, change->key.data, size);
    key[size] = '\0';
    snprintf(version, sizeof version, "%" PRIu64, change ? change->version : 0);
    setenv("MQKV_CHANGE", change ? name_of(change->kind) : "missed", 1);
    setenv("MQKV_KEY", key, 1);
    setenv("MQKV_VERSION", version, 1);
    enum kv_status status =
        child_program_start(&child, listing->program, listing->program_words, &error);
    if (status != KV_OK) {
        listing->program_code =
            output_failure(listing->output, "watch", KV_IO, error.text) != EXIT_DONE
                ? child_program_failure_code(&error)
                : EXIT_DONE;
        listing->cannot_run = true;
        return;
    }
    child_program_wait(&child, -1);
    child_program_end(&child);
    if (child.exit_code != 0)
        listing->program_code = child.exit_code;
    if (child.signal != 0)
        raise(child.signal);
}

/* Prints the change; NULL: some changes were missed. */
static void print_change_json(struct change_listing *listing, const struct clientk_change *change)
{
    FILE *stream = listing->output->stream;
    fprintf(stream, "{\"change\":\"%s\"", change ? name_of(change->kind) : "missed");
    if (change) {
        fputc(',', stream);
        output_json_bytes(stream, "key", change->key);
        if (change->kind == CLIENTK_CHANGE_PUT && !listing->options->keys_only) {
            fputc(',', stream);
            output_json_bytes(stream, "value", change->value);
        }
        fprintf(stream, ",\"version\":%" PRIu64 ",\"expiry_ms\":%" PRIu64, change->version,
                change->expiry_ms);
    }
    if (change && listing->options->transactions)
        print_transaction_json(listing);
    if (listing->options->positions)
        fprintf(stream, ",\"position\":\"%s\"", position_of(listing));
    fputs("}\n", stream);
}

static void print_change_csv(struct change_listing *listing, const struct clientk_change *change)
{
    static const struct clientk_change none;
    FILE *stream = listing->output->stream;
    fprintf(stream, "%s,", change ? name_of(change->kind) : "missed");
    if (!change)
        change = &none;
    output_csv_bytes(stream, change->key);
    fputc(',', stream);
    if (!listing->options->keys_only)
        output_csv_bytes(stream, change->value);
    fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%s\n", change->version, change->expiry_ms,
            listing->options->positions ? position_of(listing) : "");
}

static void print_change_text(struct change_listing *listing, const struct clientk_change *change)
{
    FILE *stream = listing->output->stream;
    fputs(change ? name_of(change->kind) : "missed", stream);
    if (change) {
        fputc(' ', stream);
        escape_print_word(stream, change->key);
    }
    if (change && change->kind == CLIENTK_CHANGE_PUT && !listing->options->keys_only) {
        fputc(' ', stream);
        output_print_value(listing->output, change->value);
    }
    fputc('\n', stream);
    if (change && listing->options->transactions)
        print_transaction_text(listing);
    if (listing->options->positions)
        fprintf(stream, "position %s\n", position_of(listing));
}

/* Prints the change, or runs the program for it. */
static void print_change(struct change_listing *listing, const struct clientk_change *change)
{
    if (listing->program) {
        run_for_change(listing, change);
        return;
    }
    switch (listing->output->format) {
    case OUTPUT_TEXT:
    case OUTPUT_RAW:
        print_change_text(listing, change);
        break;
    case OUTPUT_JSON:
        print_change_json(listing, change);
        break;
    case OUTPUT_CSV:
        print_change_csv(listing, change);
        break;
    }
}

/* Flushes the stream. Until then --since would have to begin before the changes that the stream
 * keeps. */
static void flush_changes(struct change_listing *listing)
{
    listing->unflushed = 0;
    if (listing->cannot_run)
        return; /* the change was not dealt with */
    if (fflush(listing->output->stream) == 0 && !ferror(listing->output->stream))
        clientk_watch_position(listing->watch, &listing->written);
}

static void pause_before_retry(void)
{
    struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* Reports a failure, but only the first in a row. False: continuing is of no use. */
static bool go_on_after(struct change_listing *listing, enum kv_status status)
{
    if (status == KV_MISSED) {
        listing->missed = true;
        print_change(listing, NULL);
    }
    if (!listing->troubled || status == KV_MISSED)
        fprintf(stderr, "clientk: watch: %s\n", cli_sentence(status));
    listing->troubled = true;
    switch (status) {
    case KV_MISSED:
        return true;
    case KV_NO_SERVER:
    case KV_DEADLINE:
    case KV_TIMEOUT:
    case KV_OVERLOADED:
    case KV_QUOTA:
    case KV_LIMIT:
    case KV_NO_SESSION:
    case KV_OUTCOME_UNKNOWN:
        pause_before_retry();
        return true;
    default:
        return false;
    }
}

static bool is_over(const struct change_listing *listing)
{
    uint64_t limit = listing->options->limit;
    return interrupt_pending() || ferror(listing->output->stream) || listing->cannot_run ||
           (limit > 0 && listing->count >= limit);
}

/* Prints the changes. What can be read without waiting is printed before the stream is flushed,
 * unless it is more than FLUSH_CHANGES. */
static enum kv_status follow_changes(struct change_listing *listing)
{
    struct clientk_change change;
    int timeout_ms = 0;
    flush_changes(listing);
    while (!is_over(listing)) {
        enum kv_status status = clientk_watch_next(listing->watch, timeout_ms, &change);
        if (status == KV_OK) {
            listing->count++;
            listing->troubled = false;
            print_change(listing, &change);
            if (++listing->unflushed == FLUSH_CHANGES || listing->program)
                flush_changes(listing);
            timeout_ms = 0;
        } else if (status == KV_TIMEOUT && timeout_ms == 0) {
            flush_changes(listing);
            timeout_ms = -1;
        } else if (status == KV_TIMEOUT && interrupt_pending()) {
            break;
        } else if (go_on_after(listing, status)) {
            timeout_ms = 0;
        } else {
            return status;
        }
    }
    return KV_OK;
}

/* Returns the position that --since names: itself, or the contents of the file in "@FILE". NULL:
 * errno. */
static char *read_since(const char *since)
{
    if (*since != '@')
        return strdup(since);
    FILE *file = fopen(since + 1, "re");
    char *line = NULL;
    size_t room = 0;
    if (!file)
        return NULL;
    ssize_t length = getline(&line, &room, file);
    fclose(file);
    if (length < 0) {
        free(line);
        errno = ENODATA;
        return NULL;
    }
    line[strcspn(line, " \t\r\n")] = '\0';
    return line;
}

static int open_and_follow(struct cli_context *context, struct change_listing *listing,
                           const struct clientk_watch_options *watch_options)
{
    struct kv_error error = {0};
    enum kv_status status =
        clientk_watch_open(context->client, watch_options, &listing->watch, &error);
    if (status != KV_OK)
        return output_failure(&context->output, "watch", status, error.text);
    if (context->output.format == OUTPUT_CSV && !listing->program)
        fputs("change,key,value,version,expiry_ms,position\n", context->output.stream);
    context->output.csv_started = false; /* so that the next command of a prompt prints a header */
    status = follow_changes(listing);
    flush_changes(listing);
    if (listing->written.size > 0)
        fprintf(stderr, "clientk: watch: to go on from here: --since %s\n",
                (const char *)listing->written.data);
    if (status == KV_UNSUPPORTED && cli_is_clustered(context))
        return output_failure(&context->output, "watch", status,
                              "the store is in a NATS cluster (--engine nats), whose changes the "
                              "server does not know; nats kv watch shows them (CLUSTER.md)");
    if (status != KV_OK)
        return output_failure(&context->output, "watch", status, cli_sentence(status));
    if (listing->program_code != 0)
        return listing->program_code;
    return listing->missed && !listing->program ? EXIT_REFUSED : EXIT_DONE;
}

int watch_run(struct cli_context *context, const void *options_given, const struct word *operands,
              size_t count)
{
    const struct watch_options *options = options_given;
    if (count > 1 && !context->output.one_shot)
        return output_failure(
            &context->output, "watch", KV_USAGE,
            "a program runs from the shell only: clientk watch PREFIX -- PROGRAM");
    if (count > 1 && (options->positions || options->transactions))
        return output_failure(&context->output, "watch", KV_USAGE,
                              "--positions and --transactions print, and a program does not");
    char *since = options->since ? read_since(options->since) : NULL;
    if (options->since && !since) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "--since %s: %s", options->since, strerror(errno));
        return output_failure(&context->output, "watch", KV_USAGE, sentence);
    }
    int code = cli_connect_for(context, "watch");
    if (code == EXIT_DONE) {
        struct change_listing listing = {.output = &context->output,
                                         .options = options,
                                         .program = count > 1 ? operands + 1 : NULL,
                                         .program_words = count > 1 ? count - 1 : 0};
        struct clientk_watch_options watch_options = {.prefix = count > 0 ? word_slice(&operands[0])
                                                                          : kv_slice(NULL, 0),
                                                      .since = since,
                                                      .keys_only = options->keys_only || count > 1};
        code = open_and_follow(context, &listing, &watch_options);
        clientk_watch_close(listing.watch);
        clientk_value_free(&listing.position);
        clientk_value_free(&listing.written);
    }
    free(since);
    return code;
}
