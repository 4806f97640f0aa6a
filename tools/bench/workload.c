#include "tools/bench/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/suggest.h"
#include "common/report/error.h"
#include "common/text/parse.h"

#define MAX_WEIGHT 1000000u
#define WINDOWS \
    65536u /* values begin at this many places of the block: the number of distinct values */

const char *workload_kind_name(int kind)
{
    static const char *const names[WORKLOAD_KINDS] = {
        "put", "get", "del", "exists", "add", "append", "getset", "touch", "scan",
    };
    return (unsigned)kind < WORKLOAD_KINDS ? names[kind] : NULL;
}

static enum kv_status take_weight(char *item, struct workload_mix *mix, struct kv_error *error)
{
    char *equals = strchr(item, '=');
    uint64_t weight = 1;
    if (equals)
        *equals = '\0';
    if (equals && !parse_u64(equals + 1, 0, MAX_WEIGHT, &weight))
        return kv_error_set(error, KV_USAGE,
                            "--mix: the share of %.40s, '%.40s', is not a number from 0 to %u",
                            item, equals + 1, MAX_WEIGHT);
    int kind;
    if (!parse_choice(item, workload_kind_name, &kind)) {
        struct suggestion suggestion = SUGGESTION_NONE;
        for (int i = 0; i < WORKLOAD_KINDS; i++)
            suggest_consider(&suggestion, item, workload_kind_name(i));
        return kv_error_set(
            error, KV_USAGE,
            "--mix: '%.40s' is not a kind of operation%s%s (put, get, del, exists, add, "
            "append, getset, touch, scan)",
            item, suggestion.name ? "; did you mean " : "", suggestion.name ? suggestion.name : "");
    }
    mix->total += (uint32_t)weight - mix->weights[kind];
    mix->weights[kind] = (uint32_t)weight;
    return KV_OK;
}

enum kv_status workload_mix_parse(const char *text, struct workload_mix *mix,
                                  struct kv_error *error)
{
    char copy[256], *rest = copy, *item;
    *mix = (struct workload_mix){0};
    if (strlen(text) >= sizeof copy)
        return kv_error_set(error, KV_USAGE, "--mix is too long");
    strcpy(copy, text);
    while ((item = strsep(&rest, ","))) {
        enum kv_status status = take_weight(item, mix, error);
        if (status != KV_OK)
            return status;
    }
    if (mix->total == 0)
        return kv_error_set(error, KV_USAGE, "--mix: all shares are 0");
    return KV_OK;
}

enum workload_kind workload_mix_draw(const struct workload_mix *mix, struct random_state *random)
{
    uint64_t ticket = random_below(random, mix->total);
    unsigned kind = 0;
    while (ticket >= mix->weights[kind])
        ticket -= mix->weights[kind++];
    return (enum workload_kind)kind;
}

char *workload_mix_format(const struct workload_mix *mix, char separator, char buffer[256])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int i = 0; i < WORKLOAD_KINDS; i++) {
        if (mix->weights[i] == 0)
            continue;
        char share[48];
        snprintf(share, sizeof share, "%s=%" PRIu32, workload_kind_name(i), mix->weights[i]);
        used +=
            (size_t)snprintf(buffer + used, 256 - used, "%.*s%s", used ? 1 : 0, &separator, share);
    }
    return buffer;
}

enum kv_status workload_sizes_parse(const char *text, uint64_t most, struct workload_sizes *sizes,
                                    struct kv_error *error)
{
    char low[32], longest[32];
    const char *dash = strchr(text, '-');
    size_t low_size = dash ? (size_t)(dash - text) : strlen(text);
    bool good = low_size < sizeof low;
    if (good) {
        memcpy(low, text, low_size);
        low[low_size] = '\0';
        good = parse_size(low, 0, most, &sizes->min) &&
               parse_size(dash ? dash + 1 : low, sizes->min, most, &sizes->max);
    }
    if (good)
        return KV_OK;
    return kv_error_set(error, KV_USAGE,
                        "--value-size: '%.60s' is neither a size (64, 4k) nor a range of sizes "
                        "(32-512), up to %s",
                        text, format_size(most, longest));
}

size_t workload_sizes_draw(const struct workload_sizes *sizes, struct random_state *random)
{
    if (sizes->min == sizes->max)
        return (size_t)sizes->min;
    return (size_t)(sizes->min + random_below(random, sizes->max - sizes->min + 1));
}

bool workload_keys_fit(uint64_t keys, size_t key_bytes)
{
    uint64_t numbers = 1;
    for (size_t digits = 1; digits < key_bytes && numbers < keys; digits++)
        if (__builtin_mul_overflow(numbers, (uint64_t)10, &numbers))
            return true;
    return numbers >= keys;
}

void workload_key(char *out, size_t key_bytes, enum workload_kind kind, uint64_t number)
{
    out[0] = kind == WORKLOAD_ADD ? 'n' : kind == WORKLOAD_APPEND ? 'a' : 'k';
    size_t at = key_bytes;
    for (; number > 0 && at > 1; number /= 10)
        out[--at] = (char)('0' + number % 10);
    memset(out + 1, '0', at - 1);
}

bool workload_key_is_of_bench(struct kv_slice key)
{
    const char *bytes = (const char *)key.data;
    if (key.size < WORKLOAD_MIN_KEY_BYTES || !memchr("kna", bytes[0], 3))
        return false;
    for (size_t i = 1; i < key.size; i++)
        if (bytes[i] < '0' || bytes[i] > '9')
            return false;
    return true;
}

int64_t workload_delta(uint64_t most, struct random_state *random)
{
    if (most == 0)
        return 1;
    int64_t drawn = (int64_t)random_below(random, 2 * most);
    return drawn < (int64_t)most ? drawn - (int64_t)most : drawn - (int64_t)most + 1;
}

struct workload_values {
    uint64_t seed;
    uint8_t bytes[];
};

struct workload_values *workload_values_create(uint64_t seed, uint64_t longest)
{
    size_t words = (size_t)(longest + WINDOWS) / sizeof(uint64_t) + 1;
    struct workload_values *values = malloc(sizeof *values + words * sizeof(uint64_t));
    if (!values)
        return NULL;
    struct random_state random;
    random_seed(&random, seed);
    values->seed = seed;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = random_next(&random);
        memcpy(values->bytes + i * sizeof word, &word, sizeof word);
    }
    return values;
}

void workload_values_free(struct workload_values *values)
{
    free(values);
}

/* Mixes the bits of x: a step of splitmix64 (Vigna, public domain). */
static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct kv_slice workload_value(const struct workload_values *values, uint64_t number, size_t size)
{
    uint64_t window = mix_bits(values->seed ^ mix_bits(number + mix_bits(size))) % WINDOWS;
    return kv_slice(values->bytes + window, size);
}

bool workload_value_matches(const struct workload_values *values, uint64_t number,
                            const struct workload_sizes *sizes, struct kv_slice value)
{
    return value.size >= sizes->min && value.size <= sizes->max &&
           kv_slice_equal(value, workload_value(values, number, value.size));
}
