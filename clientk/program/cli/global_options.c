#include "clientk/program/cli/global_options.h"

#include <stddef.h>
#include <stdlib.h>

#include "mqkv/clientk.h"
#include "clientk/program/cli/output.h"

#define LONGEST_TIMEOUT_MS (24u * 3600 * 1000)

const char *direct_name(int direct)
{
    static const char *const names[] = {[CLIENTK_DIRECT_AUTO] = "auto",
                                        [CLIENTK_DIRECT_OFF] = "off",
                                        [CLIENTK_DIRECT_MAP] = "map",
                                        [CLIENTK_DIRECT_PREAD] = "pread"};
    return direct >= 0 && direct < (int)(sizeof names / sizeof names[0]) ? names[direct] : NULL;
}

const struct option_row global_option_rows[] = {
    {"mq", 'm', OPTION_TEXT, "NAME",
     "the server's request queue (default $MQKV_QUEUE, else /serverk)",
     OPTION_FIELD(struct global_options, queue)},
    {"server-uid", 0, OPTION_TEXT, "UID",
     "accept only a server of this user: uid or name (default $MQKV_SERVER_UID, else any)",
     OPTION_FIELD(struct global_options, server_uid)},
    {"timeout", 0, OPTION_DURATION_MS, "MS",
     "time limit of a call, including reconnects (default 5000)",
     OPTION_FIELD(struct global_options, timeout_ms), .min = 1, .max = LONGEST_TIMEOUT_MS},
    {"wait", 0, OPTION_FLAG, NULL, "wait for a server, up to --timeout",
     OPTION_FIELD(struct global_options, wait)},
    {"format", 0, OPTION_CHOICE, "FORMAT", "text (default), raw, json or csv",
     OPTION_FIELD(struct global_options, format), .choice_name = output_format_name},
    {"escapes", 'e', OPTION_FLAG, NULL, "arguments hold escapes: \\\\ \\n \\r \\t \\0 \\xHH",
     OPTION_FIELD(struct global_options, escapes)},
    {"spin", 0, OPTION_TEXT, "auto|off|USEC", "poll for the answer before sleeping (default auto)",
     OPTION_FIELD(struct global_options, spin)},
    {"replies", 0, OPTION_TEXT, "auto|queue|shared",
     "replies through shared memory or a queue (default $MQKV_REPLIES, else auto)",
     OPTION_FIELD(struct global_options, replies)},
    {"direct", 0, OPTION_CHOICE, "WHEN",
     "auto|off|map|pread: read without messages (default $MQKV_DIRECT, else auto)",
     OPTION_FIELD(struct global_options, direct), .choice_name = direct_name},
    {"direct-stale", 0, OPTION_DURATION_MS, "MS",
     "read on for this time after the server was killed (default 0)",
     OPTION_FIELD(struct global_options, direct_stale_ms), .max = LONGEST_TIMEOUT_MS},
    {"priority", 0, OPTION_NUMBER, "0..31",
     "priority of the messages; higher is served first (default 0)",
     OPTION_FIELD(struct global_options, priority), .max = CLIENTK_MAX_PRIORITY},
    {"help", 'h', OPTION_FLAG, NULL, "show help, or the help of the command",
     OPTION_FIELD(struct global_options, help)},
    {"version", 'V', OPTION_FLAG, NULL, "show the version",
     OPTION_FIELD(struct global_options, version)},
    {.name = NULL},
};

struct global_options global_option_defaults(void)
{
    const char *queue = getenv("MQKV_QUEUE");
    return (struct global_options){.queue = queue && *queue ? queue : CLIENTK_DEFAULT_QUEUE,
                                   .timeout_ms = CLIENTK_DEFAULT_TIMEOUT_MS,
                                   .direct = -1};
}
