#include "clientk/program/settings.h"

#include <stddef.h>
#include <stdlib.h>

#include "mqkv/clientk.h"
#include "clientk/program/output.h"

#define LONGEST_TIMEOUT_MS (24u * 3600 * 1000)

const struct option_row settings_options[] = {
    {.name = "mq",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .help = "the server's request queue (default $MQKV_QUEUE, else /serverk)",
     .offset = offsetof(struct settings, queue)},
    {.name = "server-uid",
     .kind = OPTION_TEXT,
     .argument = "UID",
     .help =
         "talk to a server of this user only: number or name (default $MQKV_SERVER_UID, else any)",
     .offset = offsetof(struct settings, server_uid)},
    {.name = "timeout",
     .kind = OPTION_DURATION_MS,
     .argument = "MS",
     .help = "how long a call may take, reconnecting included (default 5000)",
     .offset = offsetof(struct settings, timeout_ms),
     .min = 1,
     .max = LONGEST_TIMEOUT_MS},
    {.name = "wait",
     .kind = OPTION_FLAG,
     .help = "wait for a server to come, as long as --timeout",
     .offset = offsetof(struct settings, wait)},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .argument = "FORMAT",
     .help = "text (default), raw, json or csv",
     .offset = offsetof(struct settings, format),
     .choices = output_format_names},
    {.name = "escapes",
     .letter = 'e',
     .kind = OPTION_FLAG,
     .help = "arguments hold escapes: \\\\ \\n \\r \\t \\0 \\xHH",
     .offset = offsetof(struct settings, escapes)},
    {.name = "spin",
     .kind = OPTION_TEXT,
     .argument = "auto|off|USEC",
     .help = "poll for the answer before sleeping (default auto)",
     .offset = offsetof(struct settings, spin)},
    {.name = "priority",
     .kind = OPTION_NUMBER,
     .argument = "0..31",
     .help = "of the messages; higher is served first (default 0)",
     .offset = offsetof(struct settings, priority),
     .max = CLIENTK_MAX_PRIORITY},
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .help = "show help (of the command, if there is one)",
     .offset = offsetof(struct settings, help)},
    {.name = "version",
     .letter = 'V',
     .kind = OPTION_FLAG,
     .help = "show the version",
     .offset = offsetof(struct settings, version)},
    {.name = NULL},
};

struct settings settings_defaults(void)
{
    const char *queue = getenv("MQKV_QUEUE");
    return (struct settings){.queue = queue && *queue ? queue : CLIENTK_DEFAULT_QUEUE,
                             .timeout_ms = CLIENTK_DEFAULT_TIMEOUT_MS};
}
