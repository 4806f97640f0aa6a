#include "serverk/config/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "serverk/config/dispatch_model.h"
#include "serverk/config/lab_seam.h"
#include "serverk/config/option_file.h"
#include "wire/queue_name.h"

#define HINT         "serverk -h lists the options"
#define HELP_COLUMNS 26 /* the columns left of what an option means */

/* Which options go together -------------------------------------------------------------------- */

/* With --mirror: how long the cluster can be away before everything is copied again. */
#define MIRROR_KEEP_CHANGES_MS (UINT64_C(24) * 3600 * 1000)

static bool is_option_given(const struct server_options *options, const char *name)
{
    const struct option_origin *origin = &options->origins[options_index(name)];
    return origin->text && !origin->by;
}

/* Notes that --as-cache stands for option `name` with the value `text`; false: it was given. */
static bool cache_stands_for(struct server_options *options, const char *name, const char *text)
{
    if (is_option_given(options, name))
        return false;
    options->origins[options_index(name)] = (struct option_origin){.text = text, .by = "as-cache"};
    return true;
}

/* Fills in what --as-cache stands for. What was given beside it stays, if it leaves a cache. */
static enum options_outcome settle_cache(struct server_options *options, struct kv_error *error)
{
    const char *size = options_text_of(options, "as-cache");
    if (options->as_cache_bytes == 0)
        return OPTIONS_RUN;
    if (cache_stands_for(options, "max-bytes", size))
        options->max_bytes = options->as_cache_bytes;
    if (cache_stands_for(options, "evict", kvstore_evict_name(KVSTORE_EVICT_S3FIFO)))
        options->evict = KVSTORE_EVICT_S3FIFO;
    if (cache_stands_for(options, "sync", durability_name(KVSTORE_SYNC_NONE)))
        options->durability = KVSTORE_SYNC_NONE;
    if (options->max_bytes != options->as_cache_bytes)
        kv_error_set(
            error, KV_USAGE,
            "--max-bytes %.20s contradicts --as-cache %.20s, which is the same bound; leave "
            "out one of the two",
            options_text_of(options, "max-bytes"), size);
    else if (options->evict == KVSTORE_EVICT_NONE)
        kv_error_set(
            error, KV_USAGE,
            "--evict none contradicts --as-cache %.20s: a cache that is full evicts; leave "
            "out one of the two",
            size);
    else
        return OPTIONS_RUN;
    return OPTIONS_BAD;
}

/* Takes the request queue from the environment if neither the line nor a file names it. */
static enum options_outcome take_queue(struct server_options *options, struct kv_error *error)
{
    const char *name = getenv("MQKV_QUEUE");
    if (options->queue)
        return OPTIONS_RUN;
    options->queue = name && *name ? name : WIRE_DEFAULT_QUEUE_NAME;
    if (wire_name_valid(options->queue))
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "MQKV_QUEUE: '%.80s' is not '/' and then 1 to 64 letters, digits, '.', '_' or '-'",
                 options->queue);
    return OPTIONS_BAD;
}

/* Fills in the default of --direct. */
static void settle_direct(const struct parsed_line *line, struct server_options *options)
{
    if (options->evict == KVSTORE_EVICT_S3FIFO)
        options->no_direct = "--evict s3fifo would not see that an entry was used";
    else if (options->io == KVSTORE_IO_DIRECT)
        options->no_direct = "--io direct: who reads without the daemon does not wait for the disk";
    if (line->direct >= 0)
        options->direct = (enum kvstore_direct)line->direct;
    else
        options->direct = options->no_direct ? KVSTORE_DIRECT_OFF : KVSTORE_DIRECT_OWNER;
}

/* Refuses what would go around the rules for users. */
static enum options_outcome check_access(const struct server_options *options,
                                         struct kv_error *error)
{
    bool restricts = access_rules_restrict(options->access);
    if (restricts && options->direct == KVSTORE_DIRECT_GROUP)
        kv_error_set(error, KV_USAGE,
                     "--direct group: members of the group could read all keys, whatever the "
                     "sections about users say; leave out one of the two");
    else if (options->access && options->engine != ENGINE_KIND_KVSTORE)
        kv_error_set(error, KV_USAGE,
                     "sections about users and quotas are for data in this daemon: leave out "
                     "--engine or the sections");
    else
        return OPTIONS_RUN;
    return OPTIONS_BAD;
}

static enum options_outcome check_readers(const struct server_options *options,
                                          struct kv_error *error)
{
    if (options->read_group == (gid_t)-1 ||
        (options->lanes == LANES_AUTO && options->engine == ENGINE_KIND_KVSTORE))
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "--read-group is for --lanes auto and for data in this daemon: leave out %s",
                 options->lanes == LANES_AUTO ? "--engine" : "--lanes");
    return OPTIONS_BAD;
}

static enum options_outcome check_bound(const struct server_options *options,
                                        struct kv_error *error)
{
    if (options->evict == KVSTORE_EVICT_NONE || options->max_bytes > 0)
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "--evict %s: nothing is evicted without a bound; add --max-bytes SIZE",
                 kvstore_evict_name(options->evict));
    return OPTIONS_BAD;
}

static enum options_outcome check_sched(const struct server_options *options,
                                        struct kv_error *error)
{
    if (!options->nice || options->sched != ORDER_FIFO)
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "--nice: with --sched fifo requests bring no priority along; add --sched "
                 "priority%s%s",
                 lab.order_name ? " or --sched " : "", lab.order_name ? lab.order_name : "");
    return OPTIONS_BAD;
}

static enum options_outcome refuse_option(const char *option, const char *why,
                                          struct kv_error *error)
{
    kv_error_set(error, KV_USAGE, "--%s %s", option, why);
    return OPTIONS_BAD;
}

static bool is_of_cluster(const struct option_row *row)
{
    return row->section && strcmp(row->section, "cluster") == 0 && strcmp(row->name, "engine") != 0;
}

static bool is_of_store(const struct option_row *row)
{
    return row->section && strcmp(row->section, "store") == 0 &&
           strcmp(row->name, "max-value") != 0;
}

static bool is_row_among(const struct option_row *row, const char *const *names)
{
    while (*names && strcmp(row->name, *names) != 0)
        names++;
    return *names != NULL;
}

/* A second copy, or a store built from one: then data files and a cluster belong together. */
static bool uses_cluster(const struct server_options *options)
{
    return options->mirror || options->restore_from;
}

static bool is_of_copy(const struct option_row *row)
{
    static const char *const names[] = {"mirror", "mirror-lag", "restore-from",
                                        "restore-unfinished", NULL};
    return is_row_among(row, names);
}

static bool is_of_engine(const struct option_row *row)
{
    static const char *const names[] = {"nats", "reads", "nats-sync", NULL};
    return is_row_among(row, names);
}

static enum options_outcome check_identity(const struct server_options *options,
                                           struct kv_error *error)
{
    if (!options->nats.certificate != !options->nats.key)
        return refuse_option("nats-cert", "and --nats-key belong together", error);
    if (options->nats.password_file && !options->nats.user)
        return refuse_option("nats-password-file", "needs --nats-user", error);
    return OPTIONS_RUN;
}

/* The cluster of --mirror and --restore-from. */
static enum options_outcome check_copy(struct server_options *options, struct kv_error *error)
{
    if (options->mirror && options->restore_from)
        return refuse_option("restore-from", "and --mirror exclude each other: restore first",
                             error);
    if (!options->nats.bucket)
        return refuse_option(options->mirror ? "mirror" : "restore-from", "needs --bucket NAME",
                             error);
    if (options->mirror_over != MIRROR_OVER_NOTHING && !options->mirror)
        return refuse_option("mirror-lag", "needs --mirror", error);
    if (options->restore_unfinished && !options->restore_from)
        return refuse_option("restore-unfinished", "needs --restore-from", error);
    if (!is_option_given(options, "keep-changes"))
        options->keep_changes_ms = MIRROR_KEEP_CHANGES_MS;
    options->nats.urls = options->mirror ? options->mirror : options->restore_from;
    options->nats.read_any = false;
    options->nats.check_only = options->restore_from != NULL;
    return check_identity(options, error);
}

/* Options of the one engine are refused, rather than ignored, with the other; but a configuration
 * file may have those of a cluster that is not in use. */
static enum options_outcome check_engine(struct server_options *options, struct kv_error *error)
{
    bool nats = options->engine == ENGINE_KIND_NATS;
    for (unsigned i = 0; options_rows[i].name; i++) {
        const struct option_row *row = &options_rows[i];
        if (nats && (is_of_store(row) || is_of_copy(row)) && is_option_given(options, row->name))
            return refuse_option(row->name, "has no meaning with --engine nats", error);
        if (!nats && !(uses_cluster(options) && !is_of_engine(row)) && is_of_cluster(row) &&
            is_option_given(options, row->name) && !options->origins[i].file)
            return refuse_option(row->name,
                                 is_of_engine(row) ? "has a meaning with --engine nats only"
                                 : is_of_copy(row)
                                     ? "has a meaning with --mirror only"
                                     : "has a meaning with --engine nats, --mirror and "
                                       "--restore-from only",
                                 error);
    }
    if (!nats)
        return uses_cluster(options) ? check_copy(options, error) : OPTIONS_RUN;
    if (!options->nats.urls || !options->nats.bucket)
        return refuse_option("engine", "nats needs --nats URL,... and --bucket NAME", error);
    if (check_identity(options, error) != OPTIONS_RUN)
        return OPTIONS_BAD;
    options->direct = KVSTORE_DIRECT_OFF;
    options->nats.max_value_bytes =
        is_option_given(options, "max-value") ? options->max_value_bytes : 0;
    return OPTIONS_RUN;
}

/* Checks what no option can tell alone, and fills in the defaults that depend on others. *options:
 * those of the line, or a copy of them. OPTIONS_RUN, OPTIONS_BAD: *error names both options. */
static enum options_outcome check_together(const struct parsed_line *line,
                                           struct server_options *options, struct kv_error *error)
{
    enum options_outcome outcome = settle_cache(options, error);
    if (outcome == OPTIONS_RUN && !lab.check(line, options, error))
        outcome = OPTIONS_BAD;
    settle_direct(line, options);
    if (outcome == OPTIONS_RUN)
        outcome = take_queue(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_engine(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_bound(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_access(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_readers(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_sched(options, error);
    if (options->workers == 0)
        options->workers = dispatch_model_default_workers(options->dispatch);
    return outcome;
}

/* Reading them --------------------------------------------------------------------------------- */

/* topic: the word behind -h; NULL: none. */
static enum options_outcome print_serverk_help(const char *topic, struct kv_error *error)
{
    static const char *const topics[HELP_PAGES] = {
        [HELP_FIRST] = "", [HELP_TUNING] = "tuning", [HELP_STUDIES] = "studies"};
    static const char *const about[HELP_PAGES] = {
        [HELP_FIRST] = ("usage: serverk [-f DIR] [-m NAME] [options]\n"
                        "The daemon of mqkv, a key-value store over POSIX message queues.\n"),
        [HELP_TUNING] = "Options for who has measured that a default does not suit.\n",
        [HELP_STUDIES] = "Options for who compares how a daemon can work.\n"};
    unsigned page = HELP_FIRST;
    while (topic && page < HELP_PAGES && strcmp(topic, topics[page]) != 0)
        page++;
    if (page == HELP_PAGES) {
        kv_error_set(error, KV_USAGE, "-h '%.40s': the help has the pages tuning and studies",
                     topic);
        return OPTIONS_BAD;
    }
    fputs(about[page], stdout);
    options_print_help(stdout, (enum help_page)page, HELP_COLUMNS);
    if (page == HELP_FIRST)
        printf("\nSIGTERM and SIGINT stop it cleanly. Manual: serverk(1).\n");
    return OPTIONS_DONE;
}

/* Copies argv before its words are moved. NULL: out of memory. */
static char **copy_words(int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words)
        memcpy(words, argv, (size_t)argc * sizeof *words);
    return words;
}

enum options_outcome command_line_parse(int argc, char **argv, struct server_options *options,
                                        struct kv_error *error)
{
    struct parsed_line line;
    parsed_line_begin(&line);
    char **words = copy_words(argc, argv);
    const struct option_set sets[] = {
        {.rows = options_rows, .target = &line, .origins = line.options.origins}, {.rows = NULL}};
    enum kv_status status = KV_OK;
    if (!words)
        status = kv_error_set(error, KV_NO_MEMORY, "out of memory");
    if (status == KV_OK)
        status = option_take_argv(sets, HINT, &argc, argv, error);
    bool informs = line.help || line.version;
    if (status == KV_OK && !informs && argc == 1 && line.options.config)
        status = option_file_take(line.options.config, sets, &line.options.access, error);
    *options = line.options;
    options->words = words;
    if (status != KV_OK)
        return OPTIONS_BAD;
    if (line.help)
        return print_serverk_help(argc > 1 ? argv[1] : NULL, error);
    if (line.version) {
        option_print_version(stdout, "serverk");
        return OPTIONS_DONE;
    }
    if (argc > 1) {
        kv_error_set(error, KV_USAGE, "unexpected argument '%s': serverk takes options only",
                     argv[1]);
        return OPTIONS_BAD;
    }
    return check_together(&line, options, error);
}

enum options_outcome command_line_take(const struct option_origin *given,
                                       struct server_options *options, struct kv_error *error)
{
    struct parsed_line line;
    parsed_line_begin(&line);
    const struct option_set set = {
        .rows = options_rows, .target = &line, .origins = line.options.origins};
    for (const struct option_row *row = options_rows; row->name; row++) {
        const struct option_origin *origin = &given[row - options_rows];
        if (origin->text && row->section && option_take_text(&set, row, origin, error) != KV_OK)
            return OPTIONS_BAD;
    }
    enum options_outcome outcome = check_together(&line, &line.options, error);
    *options = line.options;
    return outcome;
}

enum options_outcome command_line_parse_again(const struct server_options *options,
                                              struct server_options *again, struct kv_error *error)
{
    int argc = 0;
    while (options->words[argc])
        argc++;
    char **argv = copy_words(argc, options->words);
    if (!argv) {
        *again = (struct server_options){.words = NULL};
        kv_error_set(error, KV_NO_MEMORY, "out of memory");
        return OPTIONS_BAD;
    }
    enum options_outcome outcome = command_line_parse(argc, argv, again, error);
    free(argv);
    return outcome;
}
