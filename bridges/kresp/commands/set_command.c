/* SET with all its options, the older commands that stand for some of them, and GETEX, which has
 * some of its options. */
#include "common/time/clock.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_comparison.h"
#include "bridges/kresp/session/redis_expiry.h"
#include "bridges/kresp/session/redis_value.h"

enum set_option {
    OPTION_NX = 1 << 0,
    OPTION_XX = 1 << 1,
    OPTION_GET = 1 << 2,
    OPTION_KEEPTTL = 1 << 3,
    OPTION_EXPIRY = 1 << 4,
    OPTION_PERSIST = 1 << 5,
    OPTION_COMPARE = 1 << 6
};

/* The options from argument `at` on. */
struct set_options {
    unsigned given;
    size_t expiry_argument;
    struct redis_time_unit unit;
    size_t compare_argument; /* where IFEQ or its like is */
};

/* A word without a value, and the options that exclude it. */
struct set_word {
    const char *word;
    unsigned option;
    unsigned excluded_by;
};

static const struct set_word set_words[] = {
    {"NX", OPTION_NX, OPTION_XX | OPTION_COMPARE},
    {"XX", OPTION_XX, OPTION_NX | OPTION_COMPARE},
    {"GET", OPTION_GET, 0},
    {"KEEPTTL", OPTION_KEEPTTL, OPTION_EXPIRY | OPTION_PERSIST},
    {NULL, 0, 0},
};

static const struct set_word msetex_words[] = {
    {"NX", OPTION_NX, OPTION_XX},
    {"XX", OPTION_XX, OPTION_NX},
    {"KEEPTTL", OPTION_KEEPTTL, OPTION_EXPIRY},
    {NULL, 0, 0},
};

static const struct set_word getex_words[] = {
    {"PERSIST", OPTION_PERSIST, OPTION_EXPIRY},
    {NULL, 0, 0},
};

static bool take_set_word(const struct redis_job *job, size_t at, const struct set_word *words,
                          struct set_options *options)
{
    for (const struct set_word *word = words; word->word; word++) {
        if (redis_argument_is(job, at, word->word) && !(options->given & word->excluded_by)) {
            options->given |= word->option;
            return true;
        }
    }
    return false;
}

/* Takes a comparison, which SET may have. */
static bool take_comparison(struct redis_job *job, size_t at, struct set_options *options)
{
    const unsigned conditions = OPTION_NX | OPTION_XX | OPTION_COMPARE;
    if ((options->given & conditions) || !redis_comparison_is_at(job, at))
        return false;
    options->given |= OPTION_COMPARE;
    options->compare_argument = at;
    return true;
}

static bool parse_options(struct redis_job *job, size_t at, const struct set_word *words,
                          struct set_options *options)
{
    const unsigned times = OPTION_KEEPTTL | OPTION_EXPIRY | OPTION_PERSIST;
    *options = (struct set_options){0};
    for (; at < job->count; at++) {
        if (take_set_word(job, at, words, options))
            continue;
        bool has_value = at + 1 < job->count;
        if (has_value && !(options->given & times) &&
            redis_expiry_option(job, at, &options->unit)) {
            options->given |= OPTION_EXPIRY;
            options->expiry_argument = ++at;
        } else if (has_value && words == set_words && take_comparison(job, at, options)) {
            at++;
        } else {
            redis_job_fail(job, "ERR syntax error");
            return false;
        }
    }
    return !job->error;
}

/* Fills in the expiry that the options ask for. */
static bool put_expiry(struct redis_job *job, const struct set_options *options,
                       struct clientk_write_options *put)
{
    int64_t expiry_ms;
    put->keep_expiry = (options->given & OPTION_KEEPTTL) != 0;
    if (!(options->given & OPTION_EXPIRY))
        return true;
    if (!redis_expiry_parse(job, options->expiry_argument, options->unit, true, &expiry_ms))
        return false;
    put->expiry_ms = redis_expiry_put(expiry_ms);
    return true;
}

/* SET with a comparison: reads, compares, puts if nothing has changed. number: where the comparison
 * is. steps: version. */

static void plan_set_compared(struct redis_job *job, const struct clientk_write_options *put)
{
    redis_job_plan_last(job);
    if (job->phase == 0) {
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
        return;
    }
    struct clientk_operation *operation = redis_job_add(
        job, job->mode & OPTION_GET ? CLIENTK_EXCHANGE : CLIENTK_PUT, job->arguments[1]);
    operation->value = job->arguments[2];
    operation->write = *put;
    redis_put_if_unchanged(operation, job->steps->version);
}

static bool reply_old(struct redis_job *job, const struct clientk_result *result, bool found)
{
    if (found && result)
        reply_bulk(redis_job_reply(job), redis_result_bytes(result));
    else
        reply_null(redis_job_reply(job));
    return true;
}

static bool answer_set_read(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    enum redis_found found = redis_job_found(job, 0);
    if (found == FAILED)
        return true;
    if (!redis_comparison_holds(job, job->number, redis_found_bytes(result, found)))
        return reply_old(job, result, (job->mode & OPTION_GET) && found == FOUND);
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps)
        return true;
    steps->version = found == FOUND ? result->value.version : 0;
    job->phase = 1;
    return false;
}

static bool answer_set_compared(struct redis_job *job)
{
    if (job->phase == 0)
        return answer_set_read(job);
    switch (redis_job_written(job, 0)) {
    case FAILED:
        return true;
    case ABSENT:
        return redis_job_try_again(job);
    case FOUND:
        break;
    }
    if (job->mode & OPTION_GET)
        return reply_old(job, redis_job_result(job, 0), redis_job_result(job, 0)->found);
    reply_ok(redis_job_reply(job));
    return true;
}

void plan_set(struct redis_job *job)
{
    struct set_options options;
    struct clientk_write_options put = {0};
    if (!parse_options(job, 3, set_words, &options) || !put_expiry(job, &options, &put))
        return;
    job->mode = options.given;
    job->number = options.compare_argument;
    if (options.given & OPTION_COMPARE) {
        plan_set_compared(job, &put);
        return;
    }
    put.if_absent = (options.given & OPTION_NX) != 0;
    put.if_present = (options.given & OPTION_XX) != 0;
    struct clientk_operation *operation = redis_job_add(
        job, options.given & OPTION_GET ? CLIENTK_EXCHANGE : CLIENTK_PUT, job->arguments[1]);
    operation->value = job->arguments[2];
    operation->write = put;
    /* With NX and GET the value that makes NX fail is the one that GET replies. */
    if ((options.given & OPTION_NX) && (options.given & OPTION_GET))
        redis_job_add(job, CLIENTK_GET, job->arguments[1]);
}

static bool answer_set_get(struct redis_job *job)
{
    switch (redis_job_written(job, 0)) {
    case FOUND:
        return reply_old(job, redis_job_result(job, 0), redis_job_result(job, 0)->found);
    case ABSENT:
        if (!(job->mode & OPTION_NX))
            return reply_old(job, NULL, false);
        enum redis_found found = redis_job_found(job, 1);
        return found == FAILED || reply_old(job, redis_job_result(job, 1), found == FOUND);
    case FAILED:
        break;
    }
    return true;
}

bool answer_set(struct redis_job *job)
{
    if (job->mode & OPTION_COMPARE)
        return answer_set_compared(job);
    if (job->mode & OPTION_GET)
        return answer_set_get(job);
    enum redis_found written = redis_job_written(job, 0);
    if (written == FOUND)
        reply_ok(redis_job_reply(job));
    else if (written == ABSENT)
        reply_null(redis_job_reply(job));
    return true;
}

void plan_setnx(struct redis_job *job)
{
    struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[1]);
    put->value = job->arguments[2];
    put->write.if_absent = true;
}

bool answer_setnx(struct redis_job *job)
{
    enum redis_found written = redis_job_written(job, 0);
    if (written != FAILED)
        reply_integer(redis_job_reply(job), written == FOUND);
    return true;
}

void plan_setex(struct redis_job *job)
{
    struct redis_time_unit unit = {.seconds = job->command->name[0] != 'p'};
    int64_t expiry_ms;
    if (!redis_expiry_parse(job, 2, unit, true, &expiry_ms))
        return;
    struct clientk_operation *put = redis_job_add(job, CLIENTK_PUT, job->arguments[1]);
    put->value = job->arguments[3];
    put->write.expiry_ms = redis_expiry_put(expiry_ms);
}

bool answer_setex(struct redis_job *job)
{
    if (redis_job_written(job, 0) == FOUND)
        reply_ok(redis_job_reply(job));
    return true;
}

/* MSETEX. If NX or XX decides about several keys, it looks at all of them first, in a transaction.
 * steps: next. */

enum { MSETEX_LOOK, MSETEX_PUT };

/* Returns the end of the pairs, which begin with the argument 2; 0: the job has failed. */
static size_t msetex_end(struct redis_job *job)
{
    struct command_keys keys;
    if (redis_command_keys(job->command, job->arguments, job->count, &keys) && keys.count > 0)
        return keys.first + keys.count * keys.step;
    redis_job_fail(job, "ERR invalid numkeys value");
    return 0;
}

static bool msetex_looks(const struct redis_job *job, size_t end)
{
    return job->phase == MSETEX_LOOK && end > 4 && (job->mode & (OPTION_NX | OPTION_XX));
}

void plan_msetex(struct redis_job *job)
{
    struct set_options options;
    struct clientk_write_options put = {0};
    size_t end = msetex_end(job), start = job->steps && job->steps->next ? job->steps->next : 2;
    if (end == 0 || !parse_options(job, end, msetex_words, &options) ||
        !put_expiry(job, &options, &put))
        return;
    job->mode = options.given;
    if (msetex_looks(job, end) && !job->run) {
        redis_job_fail(job,
                       "ERR kresp: MSETEX with NX or XX is one transaction, which has at most "
                       "%u keys here, and what one message holds",
                       CLIENTK_MAX_TRANSACTION_STEPS / 2);
        return;
    }
    put.if_absent = end == 4 && (options.given & OPTION_NX);
    put.if_present = end == 4 && (options.given & OPTION_XX);
    job->number =
        end - start > (size_t)2 * REDIS_CHUNK_KEYS ? start + (size_t)2 * REDIS_CHUNK_KEYS : end;
    if (job->steps || job->number < end || msetex_looks(job, end))
        redis_job_plan_last(job);
    for (size_t i = start; i < job->number; i += 2) {
        struct clientk_operation *operation = redis_job_add(
            job, msetex_looks(job, end) ? CLIENTK_EXISTS : CLIENTK_PUT, job->arguments[i]);
        operation->value = job->arguments[i + 1];
        operation->write = put;
    }
}

bool answer_msetex(struct redis_job *job)
{
    size_t end = msetex_end(job);
    bool looks = msetex_looks(job, end);
    for (size_t i = 0; i < job->operations; i++) {
        enum redis_found found = looks ? redis_job_found(job, i) : redis_job_written(job, i);
        enum redis_found wanted = looks && (job->mode & OPTION_NX) ? ABSENT : FOUND;
        if (found != FAILED && found != wanted)
            reply_integer(redis_job_reply(job), 0);
        if (found != wanted)
            return true;
    }
    if (looks) {
        job->phase = MSETEX_PUT;
        return false;
    }
    if (job->number < end) {
        struct redis_steps *steps = redis_job_steps(job);
        if (steps)
            steps->next = job->number;
        return !steps;
    }
    reply_integer(redis_job_reply(job), 1);
    return true;
}

/* GETEX. With PERSIST: reads, and only if there is an expiry, reads again and touches. */

void plan_getex(struct redis_job *job)
{
    struct set_options options;
    int64_t expiry_ms = 0;
    if (!parse_options(job, 2, getex_words, &options))
        return;
    if ((options.given & OPTION_EXPIRY) &&
        !redis_expiry_parse(job, options.expiry_argument, options.unit, true, &expiry_ms))
        return;
    job->mode = options.given;
    redis_job_add(job, CLIENTK_GET, job->arguments[1]);
    if (options.given & OPTION_PERSIST)
        redis_job_plan_last(job);
    if (expiry_ms > 0 && (uint64_t)expiry_ms <= clock_realtime_ms())
        redis_job_add(job, CLIENTK_DELETE, job->arguments[1]);
    else if ((options.given & OPTION_EXPIRY) || job->phase == 1)
        redis_job_add(job, CLIENTK_TOUCH, job->arguments[1])->write.expiry_ms = (uint64_t)expiry_ms;
}

bool answer_getex(struct redis_job *job)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    if ((job->mode & OPTION_PERSIST) && job->phase == 0 && result->status == KV_OK &&
        result->value.expiry_ms != 0) {
        job->phase = 1;
        return false;
    }
    return answer_get(job);
}
