#include "tools/bench/bench_options.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/report/error.h"
#include "common/text/parse.h"

#define MAX_VALUE_BYTES (64u << 20)
#define MAX_KEYS        UINT64_C(1000000000)
#define MAX_SECONDS     1000000u
#define MAX_RATE        1000000000u
#define MAX_ADD         1000000000u

#define MAX_THINK_NS 60e9

/* Makes sure that --cleanup deletes no key of anybody else. */
#define CLEANUP_PREFIX "bench:"

static bool parse_think(const char *text, void *field)
{
    return delay_parse(text, strlen(text), MAX_THINK_NS, field);
}

static bool parse_cpus(const char *text, void *field)
{
    return cpu_list_parse(text, field);
}

#define FIELD(name) OPTION_FIELD(struct bench_options, name)

const struct option_row bench_option_rows[] = {
    {"threads", 'n', OPTION_NUMBER, "N", "client threads (default 1)", FIELD(threads), .min = 1,
     .max = BENCH_MAX_THREADS},
    {"processes", 0, OPTION_NUMBER, "P", "processes to spread the threads over (default 1)",
     FIELD(processes), .min = 1, .max = BENCH_MAX_THREADS},
    {"value-size", 'L', OPTION_TEXT, "SIZE|MIN-MAX", "bytes of a value (default 64)",
     FIELD(value_size)},
    {"mix", 0, OPTION_TEXT, "KIND=SHARE,...",
     "put get del exists add append getset touch scan (default put=40,get=50,del=10)", FIELD(mix)},
    {"seconds", 't', OPTION_FRACTION, "SECONDS", "how long to measure (default 10)", FIELD(seconds),
     .max = MAX_SECONDS},
    {"count", 'c', OPTION_NUMBER, "COUNT", "operations to measure, instead of a time", FIELD(count),
     .min = 1, .max = UINT64_MAX},
    {"rate", 0, OPTION_FRACTION, "PER_SECOND",
     "open loop: operations per second, timed from their intended start", FIELD(rate),
     .max = MAX_RATE},
    {"think", 0, OPTION_PARSED, "DIST",
     "closed loop: pause of a thread before its next message, such as exp:1ms (default off)",
     FIELD(think), .parse = parse_think, .expects = DELAY_EXPECTS ", with times up to 60s"},
    {"cpus", 0, OPTION_PARSED, "LIST", "run on these CPUs only: 0, 0,2 or 0-3 (default all)",
     FIELD(cpus), .parse = parse_cpus, .expects = CPU_LIST_EXPECTS},
    {"batch", 0, OPTION_NUMBER, "B", "operations per message (default 1)", FIELD(batch), .min = 1,
     .max = BENCH_MAX_BATCH},
    {"window", 0, OPTION_NUMBER, "W",
     "messages in flight per thread (default: one at a time, without a pipeline)", FIELD(window),
     .min = 1, .max = 64},
    {"keys", 0, OPTION_NUMBER, "K", "different keys (default 10000)", FIELD(keys), .min = 1,
     .max = MAX_KEYS},
    {"key-size", 0, OPTION_SIZE, "BYTES", "bytes of a key (default 16)", FIELD(key_bytes),
     .min = WORKLOAD_MIN_KEY_BYTES, .max = WORKLOAD_MAX_KEY_BYTES},
    {"dist", 0, OPTION_CHOICE, "NAME", "uniform (default), zipfian, latest or sequential",
     FIELD(distribution), .choice_name = distribution_name},
    {"theta", 0, OPTION_FRACTION, "THETA",
     "skew of zipfian and latest, between 0 and 1 (default 0.99)", FIELD(theta), .max = 1},
    {"scan-length", 0, OPTION_NUMBER, "N", "entries of a scan (default 10)", FIELD(scan_length),
     .min = 1, .max = 100000},
    {"scan-atomic", 0, OPTION_FLAG, NULL,
     "a scan lists all entries, with a consistent view of each data file", FIELD(scan_atomic)},
    {"add-most", 0, OPTION_NUMBER, "N",
     "add a random number from -N to N except 0 (default: add 1)", FIELD(add_most), .min = 1,
     .max = MAX_ADD},
    {"add-min", 0, OPTION_TEXT, "MIN",
     "lower bound: an add that would go below it changes nothing (default: none)", FIELD(add_min)},
    {"warmup", 0, OPTION_FRACTION, "SECONDS", "run this long before measuring (default 0)",
     FIELD(warmup_seconds), .max = MAX_SECONDS},
    {"preload", 0, OPTION_FLAG, NULL, "put every key of the mix once before the run (counters: 0)",
     FIELD(preload)},
    {"cleanup", 0, OPTION_FLAG, NULL,
     "at the end delete all its keys (by itself in a store that has other keys)", FIELD(cleanup)},
    {"prefix", 0, OPTION_TEXT, "TEXT",
     "what all keys begin with (default: nothing; with --cleanup " CLEANUP_PREFIX ")",
     FIELD(prefix)},
    {"seed", 0, OPTION_NUMBER, "SEED",
     "seed of keys, kinds and values (default 1): same seed, same operations", FIELD(seed),
     .max = UINT64_MAX},
    {"verify", 0, OPTION_FLAG, NULL,
     "check every value read (the keys must hold values of the same seed and sizes)",
     FIELD(verify)},
    {"histogram", 0, OPTION_TEXT, "FILE", "write the percentile distribution of the latency",
     FIELD(histogram_path)},
    {.name = NULL},
};

const struct bench_options bench_option_defaults = {
    .threads = 1,
    .processes = 1,
    .value_size = "64",
    .mix = "put=40,get=50,del=10",
    .seconds = 10,
    .batch = 1,
    .keys = 10000,
    .key_bytes = 16,
    .theta = 0.99,
    .scan_length = 10,
    .seed = 1,
};

static enum kv_status check(const struct bench_options *options, struct kv_error *error)
{
    if (options->processes > options->threads)
        return kv_error_set(error, KV_USAGE,
                            "--processes %" PRIu64 ": there are only %" PRIu64
                            " threads to spread (-n)",
                            options->processes, options->threads);
    if (options->think.kind != DELAY_OFF && options->rate > 0)
        return kv_error_set(error, KV_USAGE,
                            "--think is for a closed loop; with --rate each operation has its "
                            "time: leave out one of the two");
    if (options->think.kind != DELAY_OFF && options->window > 0)
        return kv_error_set(error, KV_USAGE,
                            "--think is for one message at a time: it has no meaning with "
                            "--window; leave out one of the two");
    if (options->theta <= 0 || options->theta >= 1)
        return kv_error_set(error, KV_USAGE, "--theta must be between 0 and 1, both excluded");
    if (options->count == 0 && options->seconds <= 0)
        return kv_error_set(error, KV_USAGE, "-t 0 measures nothing");
    return KV_OK;
}

/* Whether the keys differ behind a prefix of so many bytes. */
static bool prefix_fits(const struct bench_options *options, size_t prefix_bytes)
{
    return prefix_bytes < options->key_bytes &&
           workload_keys_fit(options->keys, (size_t)options->key_bytes - prefix_bytes);
}

static enum kv_status take_prefix(struct bench_plan *plan, struct kv_error *error)
{
    const struct bench_options *options = &plan->options;
    plan->prefix = options->prefix ? options->prefix : options->cleanup ? CLEANUP_PREFIX : "";
    plan->prefix_bytes = strlen(plan->prefix);
    if (prefix_fits(options, plan->prefix_bytes))
        return KV_OK;
    if (plan->prefix_bytes > 0)
        return kv_error_set(error, KV_USAGE,
                            "--keys %" PRIu64 " do not differ within --key-size %" PRIu64
                            ": the prefix '%.40s', a letter and the digits of the number must fit",
                            options->keys, options->key_bytes, plan->prefix);
    return kv_error_set(error, KV_USAGE,
                        "--keys %" PRIu64 " do not differ within --key-size %" PRIu64
                        ": a letter and the digits of the number must fit",
                        options->keys, options->key_bytes);
}

bool bench_plan_keep_apart(struct bench_plan *plan)
{
    if (!prefix_fits(&plan->options, strlen(CLEANUP_PREFIX)))
        return false;
    plan->options.cleanup = true;
    plan->prefix = CLEANUP_PREFIX;
    plan->prefix_bytes = strlen(CLEANUP_PREFIX);
    return true;
}

void bench_plan_begin_key(const struct bench_plan *plan, char *key)
{
    memcpy(key, plan->prefix, plan->prefix_bytes);
}

void bench_plan_end_key(const struct bench_plan *plan, char *key, enum workload_kind kind,
                        uint64_t number)
{
    workload_key(key + plan->prefix_bytes, (size_t)plan->options.key_bytes - plan->prefix_bytes,
                 kind, number);
}

static enum kv_status take_bounds(struct bench_plan *plan, struct kv_error *error)
{
    const char *text = plan->options.add_min;
    plan->add_min = INT64_MIN;
    if (!text || parse_i64(text, INT64_MIN, INT64_MAX, &plan->add_min))
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "--add-min: '%.40s' is not a whole number of 64 bits",
                        text);
}

enum kv_status bench_plan_make(struct bench_plan *plan, const struct bench_options *options,
                               struct kv_error *error)
{
    *plan = (struct bench_plan){.options = *options};
    enum kv_status status = check(options, error);
    if (status == KV_OK)
        status = workload_mix_parse(options->mix, &plan->mix, error);
    if (status == KV_OK)
        status = workload_sizes_parse(options->value_size, MAX_VALUE_BYTES, &plan->sizes, error);
    if (status == KV_OK)
        status = take_prefix(plan, error);
    if (status == KV_OK)
        status = take_bounds(plan, error);
    if (status != KV_OK)
        return status;
    distribution_init(&plan->distribution, (enum distribution_kind)options->distribution,
                      options->keys, options->theta);
    plan->values = workload_values_create(options->seed, plan->sizes.max);
    if (!plan->values)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the values");
    return KV_OK;
}

void bench_plan_free(struct bench_plan *plan)
{
    workload_values_free(plan->values);
    plan->values = NULL;
}
