#include "lab/lab_options.h"

#include "common/report/error.h"
#include "lab/dispatch/models.h"
#include "serverk/config/lab_seam.h"

#define DAEMON_FIELD(member) offsetof(struct parsed_line, options.member)
#define LAB_FIELD(member)                                               \
    .offset = DAEMON_FIELD(lab) + offsetof(struct lab_options, member), \
    .bytes = sizeof(((struct lab_options *)NULL)->member)

static const char *dispatch_of(int number)
{
    const struct dispatch_model *model = dispatch_models_get(number);
    return model ? model->name : NULL;
}

static const char *locking_of(int locking)
{
    return kvstore_locking_name((enum kvstore_locking)locking);
}

static const char *rwlock_of(int rwlock)
{
    return kvstore_rwlock_name((enum kvstore_rwlock)rwlock);
}

static const char *allocator_of(int allocator)
{
    return kvstore_allocator_name((enum kvstore_allocator)allocator);
}

static bool parse_service_time(const char *text, void *field)
{
    return service_time_parse(text, field);
}

const struct option_row lab_option_rows[] = {
    {"dispatch", 0, OPTION_CHOICE, "MODEL",
     "pool|event|thread|process: who executes requests (default pool)", LAB_FIELD(dispatch),
     .choice_name = dispatch_of, .section = "workers"},
    {"sched-queue", 0, OPTION_NUMBER, "N",
     "with --sched cost: messages that wait in the daemon (default 4096)", LAB_FIELD(sched_queue),
     .min = 1, .max = LAB_MAX_SCHED_QUEUE, .section = "workers"},
    {"service-time", 0, OPTION_PARSED, "TIME",
     "added to each operation, such as exp:1ms:locked (default off)", LAB_FIELD(service_time),
     .parse = parse_service_time, .expects = SERVICE_TIME_EXPECTS, .section = "workers"},
    {"locking", 0, OPTION_CHOICE, "STRATEGY",
     "file-rwlock|file-mutex|global-rwlock|global-mutex|optimistic (default file-rwlock)",
     LAB_FIELD(locking), .choice_name = locking_of, .section = "store"},
    {"rwlock", 0, OPTION_CHOICE, "PREFERENCE",
     "prefer-writer|prefer-reader: who goes first at a lock (default prefer-writer)",
     LAB_FIELD(rwlock), .choice_name = rwlock_of, .section = "store"},
    {"allocator", 0, OPTION_CHOICE, "WHICH",
     "system|locked|thread-local: memory of the cache (default system)", LAB_FIELD(allocator),
     .choice_name = allocator_of, .section = "store"},
    {.name = NULL},
};

_Static_assert(sizeof lab_option_rows / sizeof lab_option_rows[0] - 1 <= LAB_MAX_ROWS,
               "the daemon has room for them");

void lab_options_begin(struct parsed_line *line)
{
    struct lab_options *values = (void *)line->options.lab;
    *values = (struct lab_options){.rwlock = -1, .sched_queue = LAB_DEFAULT_SCHED_QUEUE};
}

static bool refuse_options(struct kv_error *error, const char *text)
{
    kv_error_set(error, KV_USAGE, "%s", text);
    return false;
}

/* Refused, rather than ignored, with a strategy that has no reader-writer locks. */
static bool check_rwlock(const struct lab_options *values, struct kv_error *error)
{
    if (values->rwlock < 0 || kvstore_locking_has_rwlocks((enum kvstore_locking)values->locking))
        return true;
    kv_error_set(error, KV_USAGE,
                 "--rwlock: '%s' has no meaning with --locking %s, whose locks are mutexes; leave "
                 "out one of the two",
                 rwlock_of(values->rwlock), locking_of(values->locking));
    return false;
}

static bool check_dispatch(const struct parsed_line *line, const struct server_options *options,
                           struct kv_error *error)
{
    const struct dispatch_model *model = options->dispatch;
    if (model->one_receives && !model->serves_beside && options->workers > 1)
        kv_error_set(error, KV_USAGE,
                     "--workers: '%u' has no meaning with --dispatch %s, where one thread does "
                     "everything; leave out one of the two",
                     options->workers, model->name);
    else if (model->serves_beside && options->engine == ENGINE_KIND_NATS)
        return refuse_options(error, "--dispatch thread and process have no meaning with --engine "
                                     "nats, where a request that waits holds neither");
    else if (model->forks && line->direct > KVSTORE_DIRECT_OFF)
        kv_error_set(error, KV_USAGE,
                     "--direct %s: with --dispatch process the index is not shared; leave out one "
                     "of the two",
                     kvstore_direct_name((enum kvstore_direct)line->direct));
    else if (model->forks && options->nice)
        return refuse_options(error, "--nice is for threads: it has no meaning with --dispatch "
                                     "process; leave out one of the two");
    else
        return true;
    return false;
}

/* A daemon that is to keep data for somebody must not be slow by mistake. */
static bool check_service_time(const struct server_options *options, struct kv_error *error)
{
    if (options->engine == ENGINE_KIND_NATS && options_text_of(options, "service-time")[0] != '\0')
        return refuse_options(error, "--service-time has no meaning with --engine nats");
    if (lab_options_of(options)->service_time.delay.kind == DELAY_OFF ||
        options->durability == KVSTORE_SYNC_NONE)
        return true;
    kv_error_set(error, KV_USAGE,
                 "--service-time makes each operation slow, for experiments: it goes with --sync "
                 "none only, so that no store that promises durability has it by mistake; it is "
                 "--sync %s",
                 durability_name(options->durability));
    return false;
}

bool lab_options_check(const struct parsed_line *line, struct server_options *options,
                       struct kv_error *error)
{
    const struct lab_options *values = lab_options_of(options);
    options->dispatch = dispatch_models_get(values->dispatch);
    if (values->service_time.delay.kind != DELAY_OFF)
        options->no_direct = "--service-time: who reads without the daemon does not wait";
    if (options->dispatch->forks)
        options->no_direct = "--dispatch process works on copies of the index";
    if (!check_rwlock(values, error) || !check_dispatch(line, options, error))
        return false;
    if (options->sched == ORDER_LAB && options->lanes != LANES_AUTO) {
        kv_error_set(error, KV_USAGE,
                     "--sched cost needs --lanes auto, where every worker serves every lane; it is "
                     "--lanes %s",
                     lanes_mode_name(options->lanes));
        return false;
    }
    return check_service_time(options, error);
}
