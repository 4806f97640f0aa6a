/*
 * lab_seam: what the lab registers with the daemon: the options of studies, and what they do. The
 * daemon calls `lab` at the places named here and knows nothing else of the lab. lab/lab.c defines
 * `lab`; a daemon without the lab links lab_absent.c, which has no options and does nothing.
 */
#ifndef MQKV_SERVERK_CONFIG_LAB_SEAM_H
#define MQKV_SERVERK_CONFIG_LAB_SEAM_H

#include <stdbool.h>

#include "common/options/option_table.h"
#include "mqkv/error.h"

struct execution_context;
struct json;
struct kvstore_options;
struct message_order;
struct parsed_line;
struct server_options;
struct service;
struct stats_source;

/* The most rows that the lab may have. */
#define LAB_MAX_ROWS 16u

struct lab {
    /* Rows for struct parsed_line; the last has no name. Values that the daemon has no field for
     * lie in options.lab. */
    const struct option_row *rows;

    /* Sets the defaults of those rows. */
    void (*begin)(struct parsed_line *line);

    /* Settles what follows from the rows, in *options, before the rules of the daemon's own options
     * look at it. False: some do not go together, and *error says which. */
    bool (*check)(const struct parsed_line *line, struct server_options *options,
                  struct kv_error *error);

    /* Logs, once the daemon has started, which of its options have no effect, or one that nobody
     * wants who serves clients. */
    void (*warn)(const struct server_options *options);

    /* Changes what the store is opened with. */
    void (*open_store)(const struct server_options *options, struct kvstore_options *opening);

    /* The name of ORDER_LAB, and what help says of --sched, where there is such an order; else
     * NULL. */
    const char *order_name, *sched_help;

    /* Makes the order of messages of ORDER_LAB, for all workers of the service. NULL: out of
     * memory. */
    struct message_order *(*create_order)(const struct service *service);

    /* Changes what a worker executes operations with, before its first message. */
    void (*begin_worker)(const struct server_options *options, struct execution_context *context);

    /* Adds members to section "server" of the statistics. Threads: any. */
    void (*put_stats)(const struct stats_source *source, struct json *json);
};

extern const struct lab lab;

#endif
