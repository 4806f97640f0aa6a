/*
 * distribution: which of K keys the next operation is about.
 *
 *   uniform     each as likely as any other
 *   zipfian     rank r with probability proportional to 1 / r^theta (Gray, Sundaresan, Englert,
 *               Baclawski, Weinberger: Quickly Generating Billion-Record Synthetic Databases,
 *               SIGMOD 1994; YCSB does the same), the ranks scattered over the keys by a hash so
 *               that the popular keys are not neighbours
 *   latest      writes go on to the next key in a circle; reads fall near the one written last,
 *               zipfian in their distance to it (YCSB's "latest")
 *   sequential  one after the other; each thread begins in its own part of the keys
 */
#ifndef MQKV_TOOLS_BENCH_DISTRIBUTION_H
#define MQKV_TOOLS_BENCH_DISTRIBUTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/numbers/random.h"

enum distribution_kind {
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_ZIPFIAN,
    DISTRIBUTION_LATEST,
    DISTRIBUTION_SEQUENTIAL
};
/* The name of a kind; NULL beyond the last. */
const char *distribution_name(int kind);

/* Constant after distribution_init, shared by all threads. */
struct distribution {
    enum distribution_kind kind;
    uint64_t keys;
    double theta; /* 0 < theta < 1 */
    double zeta;  /* sum of 1 / i^theta, i = 1..keys */
    double alpha, eta;
};

/* Prepares the distribution over `keys` keys (more than 0); takes time proportional to keys for
 * zipfian and latest. */
void distribution_init(struct distribution *distribution, enum distribution_kind kind,
                       uint64_t keys, double theta);

/* What one thread keeps between its draws. */
struct distribution_cursor {
    uint64_t next; /* sequential: the next key */
};
void distribution_cursor_init(struct distribution_cursor *cursor,
                              const struct distribution *distribution, uint64_t thread,
                              uint64_t threads);

/* Draws the next key, 0..keys-1. latest: counts the writes of all threads in *latest. */
uint64_t distribution_draw(const struct distribution *distribution,
                           struct distribution_cursor *cursor, struct random_state *random,
                           bool is_write, _Atomic uint64_t *latest);

/* Draws a zipfian rank, 0..keys-1; 0 is the most popular. */
uint64_t distribution_zipfian_rank(const struct distribution *distribution,
                                   struct random_state *random);

#endif
