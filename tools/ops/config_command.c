#include "tools/ops/config_command.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/ops/admin_request.h"
#include "clientk/program/cli/json_reader.h"
#include "tools/ops/listing.h"
#include "wire/identity.h"
#include "wire/queue.h"
#include "wire/queue_name.h"

#define NAME "config"

/* The longest argument of a request; the server takes no longer one. */
#define ARGUMENT_BYTES 4096u

static int config_fail(struct cli_context *context, enum kv_status status, const char *sentence)
{
    return output_failure(&context->output, NAME, status, sentence);
}

/* Prints one setting as its value, several as a table. */
static int print_settings(struct cli_context *context, struct kv_slice json, bool one)
{
    static const struct listing_column columns[] = {{"name", "SETTING", false},
                                                    {"value", "VALUE", false},
                                                    {"live", "LIVE", false},
                                                    {"origin", "FROM", false}};
    struct output *output = &context->output;
    struct json_value *document = json_parse(json.data, json.size);
    if (!document)
        return config_fail(context, KV_IO, "the server's answer is malformed");
    bool is_plain = output->format == OUTPUT_TEXT || output->format == OUTPUT_RAW;
    if (!one || !is_plain || !listing_print_cell(output, document, "value"))
        listing_print(output, json, document, columns, sizeof columns / sizeof columns[0]);
    json_free(document);
    return EXIT_DONE;
}

static int set_setting(struct cli_context *context, const char *name, const char *value)
{
    char argument[ARGUMENT_BYTES];
    struct clientk_value answer = {0};
    if ((size_t)snprintf(argument, sizeof argument, "%s %s", name, value) >= sizeof argument)
        return config_fail(context, KV_USAGE, "the value is too long");
    int code = admin_request(context, NAME, "config-set", argument, &answer);
    clientk_value_free(&answer);
    if (code != EXIT_DONE)
        return code;
    return output_answer(&context->output, &(struct answer){.command = NAME});
}

static int reload(struct cli_context *context)
{
    struct clientk_value answer = {0};
    int code = admin_request(context, NAME, "config-reload", "", &answer);
    clientk_value_free(&answer);
    if (code != EXIT_DONE)
        return code;
    return output_answer(&context->output, &(struct answer){.command = NAME});
}

const struct option_row config_option_rows[] = {
    {"pid", 0, OPTION_NUMBER, "PID", "the server of this process, whatever its queue is",
     OPTION_FIELD(struct config_options, pid), .min = 1, .max = INT32_MAX},
    {.name = NULL},
};

const struct config_options config_option_defaults = {0};

static int run_config_word(struct cli_context *context, const struct word *operands, size_t count)
{
    bool wants_get = word_is(&operands[0], "get"), wants_set = word_is(&operands[0], "set");
    for (size_t i = 0; i < count; i++)
        if (strlen(operands[i].data) != operands[i].size)
            return config_fail(context, KV_USAGE, "a setting has no NUL");
    if (wants_get && count <= 2) {
        const char *name = count == 2 ? operands[1].data : "";
        struct clientk_value answer = {0};
        int code = admin_request(context, NAME, "config-get", name, &answer);
        if (code == EXIT_DONE)
            code = print_settings(context, kv_slice(answer.data, answer.size), name[0] != '\0');
        clientk_value_free(&answer);
        return code;
    }
    if (wants_set && count == 3 && !strchr(operands[1].data, ' '))
        return set_setting(context, operands[1].data, operands[2].data);
    if (word_is(&operands[0], "reload") && count == 1)
        return reload(context);
    return config_fail(
        context, KV_USAGE,
        "usage: config get, config get NAME, config set NAME VALUE, or config reload");
}

/* --pid ---------------------------------------------------------------------------------------- */

#define CLAIM_ENDING ".lock"

static bool is_held_by(const char *file, pid_t pid)
{
    char name[NAME_MAX + 2];
    mqd_t claim;
    snprintf(name, sizeof name, "/%s", file);
    if (wire_queue_open(name, true, &claim, NULL, NULL) != KV_OK)
        return false;
    pid_t owner = wire_queue_owner(claim);
    mq_close(claim);
    return owner == pid;
}

/* Writes into `name` the queue whose claim (NAME.lock) the process `pid` holds. False: none that is
 * seen in /dev/mqueue and that this user may open. */
static bool find_server_queue(pid_t pid, char name[WIRE_QUEUE_NAME_BYTES])
{
    DIR *directory = opendir("/dev/mqueue");
    const struct dirent *entry;
    bool found = false;
    while (directory && !found && (entry = readdir(directory))) {
        size_t size = strlen(entry->d_name), ending = sizeof CLAIM_ENDING - 1;
        if (size <= ending || strcmp(entry->d_name + size - ending, CLAIM_ENDING) != 0)
            continue;
        snprintf(name, WIRE_QUEUE_NAME_BYTES, "/%.*s", (int)(size - ending), entry->d_name);
        found = wire_name_valid(name) && is_held_by(entry->d_name, pid);
    }
    if (directory)
        closedir(directory);
    return found;
}

/* At the prompt --pid is an error: there is a connection to a server already. */
int config_run(struct cli_context *context, const void *options_given, const struct word *operands,
               size_t count)
{
    const struct config_options *options = options_given;
    const char *before = context->global.queue;
    char queue[WIRE_QUEUE_NAME_BYTES], sentence[128];
    if (options->pid == 0)
        return run_config_word(context, operands, count);
    if (context->client)
        return config_fail(context, KV_USAGE,
                           "--pid is for the shell: here the server is that of the prompt");
    snprintf(sentence, sizeof sentence,
             "process %" PRIu32 " serves no queue that this user sees in /dev/mqueue",
             options->pid);
    if (!find_server_queue((pid_t)options->pid, queue))
        return config_fail(context, KV_NO_SERVER, sentence);
    context->global.queue = queue;
    int code = run_config_word(context, operands, count);
    context->global.queue = before;
    return code;
}
