#include "clientk/program/cli/global_options.h"

#include <stddef.h>
#include <stdlib.h>

#include "mqkv/clientk.h"
#include "clientk/program/cli/output.h"

#define LONGEST_TIMEOUT_MS (24u * 3600 * 1000)

const struct option_row global_option_rows[] = {
    {.name = "mq",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .help = "the server's request queue (default $MQKV_QUEUE, else /serverk)",
     .offset = offsetof(struct global_options, queue)},
    {.name = "server-uid",
     .kind = OPTION_TEXT,
     .argument = "UID",
     .help =
         "talk to a server of this user only: number or name (default $MQKV_SERVER_UID, else any)",
     .offset = offsetof(struct global_options, server_uid)},
    {.name = "timeout",
     .kind = OPTION_DURATION_MS,
     .argument = "MS",
     .help = "how long a call may take, reconnecting included (default 5000)",
     .offset = offsetof(struct global_options, timeout_ms),
     .min = 1,
     .max = LONGEST_TIMEOUT_MS},
    {.name = "wait",
     .kind = OPTION_FLAG,
     .help = "wait for a server to come, as long as --timeout",
     .offset = offsetof(struct global_options, wait)},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .argument = "FORMAT",
     .help = "text (default), raw, json or csv",
     .offset = offsetof(struct global_options, format),
     .choices = output_format_names},
    {.name = "escapes",
     .letter = 'e',
     .kind = OPTION_FLAG,
     .help = "arguments hold escapes: \\\\ \\n \\r \\t \\0 \\xHH",
     .offset = offsetof(struct global_options, escapes)},
    {.name = "spin",
     .kind = OPTION_TEXT,
     .argument = "auto|off|USEC",
     .help = "poll for the answer before sleeping (default auto)",
     .offset = offsetof(struct global_options, spin)},
    {.name = "priority",
     .kind = OPTION_NUMBER,
     .argument = "0..31",
     .help = "of the messages; higher is served first (default 0)",
     .offset = offsetof(struct global_options, priority),
     .max = CLIENTK_MAX_PRIORITY},
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .help = "show help (of the command, if there is one)",
     .offset = offsetof(struct global_options, help)},
    {.name = "version",
     .letter = 'V',
     .kind = OPTION_FLAG,
     .help = "show the version",
     .offset = offsetof(struct global_options, version)},
    {.name = NULL},
};

struct global_options global_option_defaults(void)
{
    const char *queue = getenv("MQKV_QUEUE");
    return (struct global_options){.queue = queue && *queue ? queue : CLIENTK_DEFAULT_QUEUE,
                                   .timeout_ms = CLIENTK_DEFAULT_TIMEOUT_MS};
}
