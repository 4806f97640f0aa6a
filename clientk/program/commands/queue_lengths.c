#include "clientk/program/commands/queue_lengths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "common/report/error.h"
#include "common/text/escape.h"

#define NAME        "queue"
#define QUEUES_MOST 65536u /* more are refused */

/* Which queues a store has. Nothing lists them: they are found among their keys. */
struct found_queues {
    char **names; /* in the order of their bytes */
    size_t count;
};

static const char queue_prefix[] = "queue:";

struct queue_search {
    struct found_queues *found;
    size_t room;
    enum kv_status status;
};

/* Returns the size of the name in queue:NAME:tails or queue:NAME:later, of which every queue that
 * was used has one at least; 0: it is no such key. */
static size_t name_in(struct kv_slice key)
{
    const size_t before = sizeof queue_prefix - 1;
    const char *name = (const char *)key.data + before;
    const char *end = memchr(name, ':', key.size - before);
    size_t size = end ? (size_t)(end - name) : 0;
    bool is_whole = end && key.size - before - size == sizeof ":tails" - 1 &&
                    (memcmp(end, ":tails", sizeof ":tails" - 1) == 0 ||
                     memcmp(end, ":later", sizeof ":later" - 1) == 0);
    for (size_t i = 0; i < size; i++)
        is_whole &= (unsigned char)name[i] >= ' ' && name[i] != '\x7f';
    return is_whole && size <= CLIENTK_MAX_QUEUE_NAME ? size : 0;
}

static enum kv_status add_name(struct queue_search *search, const char *name, size_t size)
{
    struct found_queues *found = search->found;
    if (found->count == search->room) {
        size_t room = search->room > 0 ? search->room * 2 : 64;
        char **larger = realloc(found->names, room * sizeof *larger);
        if (!larger)
            return KV_NO_MEMORY;
        found->names = larger;
        search->room = room;
    }
    if (found->count == 2 * QUEUES_MOST)
        return KV_LIMIT;
    char *copy = strndup(name, size);
    if (!copy)
        return KV_NO_MEMORY;
    found->names[found->count++] = copy;
    return KV_OK;
}

/* A clientk_visit. */
static bool look_for_queue(void *context, const struct clientk_entry *entry)
{
    struct queue_search *search = context;
    size_t size = name_in(entry->key);
    if (size > 0)
        search->status =
            add_name(search, (const char *)entry->key.data + sizeof queue_prefix - 1, size);
    return search->status == KV_OK && !interrupt_pending();
}

static int compare_queue_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Puts the names in order, each once. */
static void arrange(struct found_queues *found)
{
    size_t kept = 0;
    if (found->count > 0)
        qsort(found->names, found->count, sizeof *found->names, compare_queue_names);
    for (size_t i = 0; i < found->count; i++)
        if (kept > 0 && strcmp(found->names[kept - 1], found->names[i]) == 0)
            free(found->names[i]);
        else
            found->names[kept++] = found->names[i];
    found->count = kept;
}

/* Looks at all keys of queues (of a server without order: at all keys). KV_OK; KV_LIMIT: there are
 * too many queues; KV_NO_MEMORY; or what clientk_scan returns. The caller frees *found. */
static enum kv_status find_queues(struct cli_context *context, struct found_queues *found)
{
    *found = (struct found_queues){.names = NULL};
    struct queue_search search = {.found = found, .status = KV_OK};
    enum kv_status status =
        clientk_scan(context->client, kv_slice(queue_prefix, sizeof queue_prefix - 1), true, NULL,
                     0, look_for_queue, &search);
    arrange(found);
    if (status == KV_OK)
        status = search.status;
    return status == KV_OK && found->count > QUEUES_MOST ? KV_LIMIT : status;
}

static void free_names(struct found_queues *found)
{
    for (size_t i = 0; i < found->count; i++)
        free(found->names[i]);
    free(found->names);
    *found = (struct found_queues){.names = NULL};
}

/* Prints lengths: name: of which queue, in a line of a list; NULL: of the only one. */
static void print_lengths(const struct output *output, const char *name,
                          const struct clientk_queue_lengths *lengths)
{
    FILE *stream = output->stream;
    const char between = name ? ' ' : '\n';
    switch (output->format) {
    case OUTPUT_JSON:
        fputc('{', stream);
        if (name) {
            output_json_bytes(stream, "queue", kv_slice_from_string(name));
            fputc(',', stream);
        }
        fprintf(stream,
                "\"ready\":%" PRIu64 ",\"leased\":%" PRIu64 ",\"later\":%" PRIu64
                ",\"dead\":%" PRIu64 "}\n",
                lengths->ready, lengths->leased, lengths->later, lengths->dead);
        break;
    case OUTPUT_CSV:
        if (name) {
            output_csv_bytes(stream, kv_slice_from_string(name));
            fputc(',', stream);
        }
        fprintf(stream, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", lengths->ready,
                lengths->leased, lengths->later, lengths->dead);
        break;
    case OUTPUT_TEXT:
    case OUTPUT_RAW:
        if (name) {
            escape_print_word(stream, kv_slice_from_string(name));
            fputc(' ', stream);
        }
        fprintf(stream,
                "ready %" PRIu64 "%cleased %" PRIu64 "%clater %" PRIu64 "%cdead %" PRIu64 "\n",
                lengths->ready, between, lengths->leased, between, lengths->later, between,
                lengths->dead);
        break;
    }
}

static void print_lengths_header(struct output *output, const char *names)
{
    if (output->format == OUTPUT_CSV)
        fprintf(output->stream, "%sready,leased,later,dead\n", names);
    output->csv_started = false;
}

int queue_lengths_print(struct cli_context *context, struct clientk_queue *queue)
{
    struct clientk_queue_lengths lengths;
    enum kv_status status = clientk_queue_length(queue, &lengths);
    if (status != KV_OK)
        return output_failure(&context->output, NAME, status, cli_sentence(status));
    print_lengths_header(&context->output, "");
    print_lengths(&context->output, NULL, &lengths);
    return EXIT_DONE;
}

/* Prints the lengths of the queue of that name. */
static int list_queue(struct cli_context *context, const char *name)
{
    struct clientk_queue *queue = NULL;
    struct clientk_queue_lengths lengths;
    struct kv_error error = {0};
    enum kv_status status =
        clientk_queue_open(context->client, kv_slice_from_string(name), NULL, &queue, &error);
    if (status != KV_OK)
        return output_failure(&context->output, NAME, status, error.text);
    status = clientk_queue_length(queue, &lengths);
    int code = status == KV_OK
                   ? EXIT_DONE
                   : output_failure(&context->output, NAME, status, cli_sentence(status));
    if (status == KV_OK)
        print_lengths(&context->output, name, &lengths);
    clientk_queue_close(queue);
    return code;
}

int queue_lengths_print_all(struct cli_context *context)
{
    struct found_queues found;
    int worst = cli_connect_for(context, NAME);
    if (worst != EXIT_DONE)
        return worst;
    enum kv_status status = find_queues(context, &found);
    if (status == KV_OK)
        print_lengths_header(&context->output, "queue,");
    else
        worst = output_failure(&context->output, NAME, status,
                               status == KV_LIMIT ? "there are more than 65,536 queues"
                                                  : cli_sentence(status));
    for (size_t i = 0; i < found.count && status == KV_OK && !interrupt_pending(); i++) {
        int code = list_queue(context, found.names[i]);
        worst = code > worst ? code : worst;
    }
    free_names(&found);
    return worst;
}
