#include "tools/bench/bench_keyspace.h"

#include <inttypes.h>
#include <stdio.h>

#include "mqkv/clientk.h"

/* So many keys of the store are looked at. */
#define SAMPLED_KEYS 1000u

struct sample {
    size_t key_bytes;
    bool foreign; /* a key was found that no bench has written */
};

static bool consider_key(void *context, const struct clientk_entry *entry)
{
    struct sample *sample = context;
    sample->foreign = entry->key.size != sample->key_bytes || !workload_key_is_of_bench(entry->key);
    return !sample->foreign;
}

static bool writes(const struct workload_mix *mix)
{
    return mix->weights[WORKLOAD_PUT] + mix->weights[WORKLOAD_ADD] + mix->weights[WORKLOAD_APPEND] +
               mix->weights[WORKLOAD_GETSET] >
           0;
}

/* Whether an earlier bench has left its first key, of any letter. */
static bool has_first_key(const struct bench_plan *plan, struct clientk *client)
{
    static const enum workload_kind kinds[] = {WORKLOAD_PUT, WORKLOAD_ADD, WORKLOAD_APPEND};
    char key[WORKLOAD_MAX_KEY_BYTES];
    struct kv_slice slice = kv_slice(key, (size_t)plan->options.key_bytes);
    bench_plan_begin_key(plan, key);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bench_plan_end_key(plan, key, kinds[i], 0);
        if (clientk_exists(client, slice, NULL) == KV_OK)
            return true;
    }
    return false;
}

/* Whether the store has keys of others. A scan that fails has found none: the run will tell. */
static bool is_in_use(const struct bench_plan *plan, struct clientk *client)
{
    struct sample sample = {.key_bytes = (size_t)plan->options.key_bytes};
    clientk_scan(client, kv_slice(NULL, 0), true, NULL, SAMPLED_KEYS, consider_key, &sample);
    return sample.foreign && !has_first_key(plan, client);
}

enum kv_status bench_keyspace_settle(const struct cli_context *context, struct bench_plan *plan,
                                     struct kv_error *error)
{
    const struct bench_options *options = &plan->options;
    struct clientk *client;
    if (options->prefix || options->cleanup || options->preload || !writes(&plan->mix))
        return KV_OK;
    enum kv_status status = cli_open_client(context, true, &client, error);
    if (status != KV_OK)
        return status;
    bool in_use = is_in_use(plan, client);
    clientk_close(client);
    if (!in_use)
        return KV_OK;
    if (bench_plan_keep_apart(plan))
        fprintf(stderr,
                "clientk: bench: the store has other keys: those of the bench begin with '%s' and "
                "are deleted at the end (--prefix '' keeps them)\n",
                plan->prefix);
    else
        fprintf(stderr,
                "clientk: bench: the store has other keys, and those of the bench stay among them: "
                "--key-size %" PRIu64 " is too short for a prefix\n",
                options->key_bytes);
    return KV_OK;
}
