/*
 * workload: the operations of a bench: the mix of kinds, the bytes of keys and values.
 */
#ifndef MQKV_TOOLS_BENCH_WORKLOAD_H
#define MQKV_TOOLS_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "common/numbers/random.h"
#include "mqkv/slice.h"

enum workload_kind {
    WORKLOAD_PUT,
    WORKLOAD_GET,
    WORKLOAD_DEL,
    WORKLOAD_EXISTS,
    WORKLOAD_ADD,
    WORKLOAD_APPEND,
    WORKLOAD_GETSET,
    WORKLOAD_TOUCH,
    WORKLOAD_SCAN,
    WORKLOAD_KINDS
};
const char *workload_kind_name(int kind);

/* How often each kind comes, as parts of their sum. */
struct workload_mix {
    uint32_t weights[WORKLOAD_KINDS];
    uint32_t total;
};

/* Reads a mix such as "put=40,get=50,del=10"; a name alone counts 1. KV_USAGE with a sentence. */
enum kv_status workload_mix_parse(const char *text, struct workload_mix *mix,
                                  struct kv_error *error);
enum workload_kind workload_mix_draw(const struct workload_mix *mix, struct random_state *random);

/* Writes the mix as text, kinds separated by `separator`; returns the buffer. */
char *workload_mix_format(const struct workload_mix *mix, char separator, char buffer[256]);

/* A range of sizes, all equally likely. */
struct workload_sizes {
    uint64_t min, max;
};

/* Reads "64", "4k" or "32-512". KV_USAGE with a sentence. */
enum kv_status workload_sizes_parse(const char *text, uint64_t most, struct workload_sizes *sizes,
                                    struct kv_error *error);
size_t workload_sizes_draw(const struct workload_sizes *sizes, struct random_state *random);

/* Keys are a letter for what they hold (so that counters, appended-to values and others do not
 * meet) and their number, filled up with zeros to key_bytes. */
#define WORKLOAD_MIN_KEY_BYTES 2u
#define WORKLOAD_MAX_KEY_BYTES 1024u

/* Returns true if that many keys differ within key_bytes. */
bool workload_keys_fit(uint64_t keys, size_t key_bytes);

/* Writes key_bytes bytes of the key. */
void workload_key(char *out, size_t key_bytes, enum workload_kind kind, uint64_t number);

/* Returns true if workload_key writes such keys. */
bool workload_key_is_of_bench(struct kv_slice key);

/* Draws what an add adds: 1 if most is 0, else a number from -most to most except 0, all equally
 * likely. */
int64_t workload_delta(uint64_t most, struct random_state *random);

/* Values are windows into one block of random bytes that depends on the seed alone; which window
 * depends on key number and size, so that any value read shows whether it was ever written
 * there. */
struct workload_values; /* opaque; constant once made */

struct workload_values *workload_values_create(uint64_t seed,
                                               uint64_t longest); /* NULL: no memory */
void workload_values_free(struct workload_values *values);
struct kv_slice workload_value(const struct workload_values *values, uint64_t number, size_t size);
bool workload_value_matches(const struct workload_values *values, uint64_t number,
                            const struct workload_sizes *sizes, struct kv_slice value);

#endif
