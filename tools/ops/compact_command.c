#include "tools/ops/compact_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "tools/ops/admin_request.h"
#include "clientk/program/cli/json_reader.h"
#include "common/text/parse.h"
#include "common/time/clock.h"

#define NAME    "compact"
#define POLL_MS 200u

const struct option_row compact_option_rows[] = {
    {"no-wait", 0, OPTION_FLAG, NULL, "do not wait until the files are compacted",
     OPTION_FIELD(struct compact_options, no_wait)},
    {.name = NULL},
};
const struct compact_options compact_option_defaults = {0};

/* Sums over all data files. */
struct compact_sums {
    double compactions, failures, file_bytes;
};

static int compact_fail(struct cli_context *context, enum kv_status status, const char *sentence)
{
    return output_failure(&context->output, NAME, status, sentence);
}

static double compaction_number(const struct json_value *object, const char *name)
{
    const struct json_value *value = object ? json_member(object, name) : NULL;
    return value && value->kind == JSON_NUMBER ? value->number : 0;
}

/* Reads the sums. EXIT_DONE, or the code of the failure that was printed. */
static int read_sums(struct cli_context *context, struct compact_sums *sums)
{
    struct clientk_value text = {0};
    enum kv_status status = clientk_stats(context->client, "files", &text);
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    const struct json_value *files = document ? json_member(document, "files") : NULL;
    const struct json_value *sum = files ? json_member(files, "sum") : NULL;
    *sums = (struct compact_sums){compaction_number(sum, "compactions"),
                                  compaction_number(sum, "compaction_failures"),
                                  compaction_number(sum, "file_bytes")};
    bool understood = sum != NULL;
    json_free(document);
    clientk_value_free(&text);
    if (status != KV_OK)
        return compact_fail(context, status, cli_sentence(status));
    return understood ? EXIT_DONE
                      : compact_fail(context, KV_IO, "the server's answer is malformed");
}

static int answer_compaction(struct cli_context *context, double queued, const char *text)
{
    return output_answer(&context->output, &(struct answer){.command = NAME,
                                                            .text = text,
                                                            .has_number = true,
                                                            .number = (int64_t)queued});
}

static int report_compaction(struct cli_context *context, double queued,
                             const struct compact_sums *before, const struct compact_sums *after)
{
    char text[160], fitting[32];
    double given_back = before->file_bytes - after->file_bytes;
    if (after->failures > before->failures)
        return compact_fail(context, KV_IO,
                            "a data file could not be compacted; the server's log says why");
    snprintf(text, sizeof text, "%.0f data file%s compacted, %s given back", queued,
             queued == 1 ? "" : "s",
             format_size(given_back > 0 ? (uint64_t)given_back : 0, fitting));
    return answer_compaction(context, queued, text);
}

/* Returns how many files the server's answer says are queued. */
static double queued_of(const struct clientk_value *answer)
{
    struct json_value *document = json_parse(answer->data, answer->size);
    double queued = compaction_number(document, "queued");
    json_free(document);
    return queued;
}

/* Which server was asked: a server that was started again is another one. */
struct asked_server {
    uint64_t reconnects; /* reconnects of the client when the server was asked */
    char instance[32];
};

static uint64_t reconnects_of(struct cli_context *context)
{
    struct clientk_info info;
    clientk_info(context->client, &info);
    return info.reconnects;
}

/* Asks which server this is. EXIT_DONE, or the code of the failure that was printed. */
static int look_at_server(struct cli_context *context, struct asked_server *server)
{
    struct clientk_value text = {0};
    server->reconnects = reconnects_of(context);
    enum kv_status status = clientk_stats(context->client, "server", &text);
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    const struct json_value *instance = json_member(json_member(document, "server"), "instance");
    snprintf(server->instance, sizeof server->instance, "%s",
             instance && instance->text ? instance->text : "");
    json_free(document);
    clientk_value_free(&text);
    return status == KV_OK ? EXIT_DONE : compact_fail(context, status, cli_sentence(status));
}

/* Checks that it is still the same server; a session can be replaced while its server goes on.
 * EXIT_DONE, or the code of the failure that was printed. */
static int check_server_compacts(struct cli_context *context, struct asked_server *asked)
{
    struct asked_server now;
    if (reconnects_of(context) == asked->reconnects)
        return EXIT_DONE;
    int code = look_at_server(context, &now);
    if (code == EXIT_DONE && strcmp(now.instance, asked->instance) != 0)
        return compact_fail(context, KV_OUTCOME_UNKNOWN,
                            "the server was started again: compact again");
    asked->reconnects = now.reconnects;
    return code;
}

/* Waits until `queued` more files are compacted, or could not be. Gives up if the server was
 * started again: such a server counts from 0, and has forgotten what it was asked for. */
static int wait_for_compaction(struct cli_context *context, double queued,
                               struct asked_server *asked, const struct compact_sums *before,
                               struct compact_sums *now)
{
    int code = EXIT_DONE;
    *now = *before;
    while (code == EXIT_DONE &&
           now->compactions + now->failures < before->compactions + before->failures + queued) {
        if (interrupt_pending())
            return compact_fail(context, KV_TIMEOUT, "interrupted; the server goes on compacting");
        clock_sleep_ms(POLL_MS);
        code = read_sums(context, now);
        if (code == EXIT_DONE)
            code = check_server_compacts(context, asked);
    }
    return code;
}

int compact_run(struct cli_context *context, const void *options_given, const struct word *operands,
                size_t count)
{
    const struct compact_options *options = options_given;
    struct clientk_value reply = {0};
    struct compact_sums before = {0}, now = {0};
    struct asked_server asked = {0};
    (void)operands;
    (void)count;
    int code = cli_connect_for(context, NAME);
    if (code == EXIT_DONE)
        code = look_at_server(context, &asked);
    if (code == EXIT_DONE)
        code = read_sums(context, &before);
    if (code == EXIT_DONE)
        code = admin_request(context, NAME, "compact", "", &reply);
    double queued = code == EXIT_DONE ? queued_of(&reply) : 0;
    clientk_value_free(&reply);
    if (code == EXIT_DONE && options->no_wait) {
        char text[64];
        snprintf(text, sizeof text, "%.0f data file%s will be compacted", queued,
                 queued == 1 ? "" : "s");
        return answer_compaction(context, queued, text);
    }
    if (code == EXIT_DONE)
        code = wait_for_compaction(context, queued, &asked, &before, &now);
    return code == EXIT_DONE ? report_compaction(context, queued, &before, &now) : code;
}
