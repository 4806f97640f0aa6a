/* A daemon without the lab (make LAB=no). */
#include "serverk/config/lab_seam.h"

static void begin_nothing(struct parsed_line *line)
{
    (void)line;
}

static bool check_nothing(const struct parsed_line *line, struct server_options *options,
                          struct kv_error *error)
{
    (void)line, (void)options, (void)error;
    return true;
}

static void warn_of_nothing(const struct server_options *options)
{
    (void)options;
}

static void open_store_plainly(const struct server_options *options,
                               struct kvstore_options *opening)
{
    (void)options, (void)opening;
}

static struct message_order *create_no_order(const struct service *service)
{
    (void)service;
    return NULL;
}

static void begin_plain_worker(const struct server_options *options,
                               struct execution_context *context)
{
    (void)options, (void)context;
}

static void put_no_stats(const struct stats_source *source, struct json *json)
{
    (void)source, (void)json;
}

const struct lab lab = {.rows = (const struct option_row[]){{.name = NULL}},
                        .begin = begin_nothing,
                        .check = check_nothing,
                        .warn = warn_of_nothing,
                        .open_store = open_store_plainly,
                        .create_order = create_no_order,
                        .begin_worker = begin_plain_worker,
                        .put_stats = put_no_stats};
