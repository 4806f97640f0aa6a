#include "tools/bench/distribution.h"

#include <math.h>
#include <stddef.h>

const char *distribution_name(int kind)
{
    static const char *const names[] = {"uniform", "zipfian", "latest", "sequential"};
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

void distribution_init(struct distribution *distribution, enum distribution_kind kind,
                       uint64_t keys, double theta)
{
    *distribution = (struct distribution){.kind = kind, .keys = keys, .theta = theta};
    if (kind != DISTRIBUTION_ZIPFIAN && kind != DISTRIBUTION_LATEST)
        return;
    double zeta = 0;
    for (uint64_t i = 1; i <= keys; i++)
        zeta += pow((double)i, -theta);
    double zeta_of_2 = 1 + pow(2, -theta);
    distribution->zeta = zeta;
    distribution->alpha = 1 / (1 - theta);
    if (keys > 2) /* with one or two keys eta is never used */
        distribution->eta = (1 - pow(2 / (double)keys, 1 - theta)) / (1 - zeta_of_2 / zeta);
}

/* The paper's figure 3, names as there: u, uz, and ranks from 0 instead of 1. */
uint64_t distribution_zipfian_rank(const struct distribution *distribution,
                                   struct random_state *random)
{
    double u = random_unit(random);
    double uz = u * distribution->zeta;
    if (uz < 1 || distribution->keys == 1)
        return 0;
    if (uz < 1 + pow(0.5, distribution->theta) || distribution->keys == 2)
        return 1;
    uint64_t rank =
        (uint64_t)((double)distribution->keys *
                   pow(distribution->eta * u - distribution->eta + 1, distribution->alpha));
    return rank < distribution->keys ? rank : distribution->keys - 1;
}

/* Mixes the bits of the rank: the finalizer of MurmurHash3 (Austin Appleby, public domain). */
static uint64_t scatter(uint64_t rank)
{
    rank ^= rank >> 33;
    rank *= UINT64_C(0xff51afd7ed558ccd);
    rank ^= rank >> 33;
    rank *= UINT64_C(0xc4ceb9fe1a85ec53);
    return rank ^ rank >> 33;
}

void distribution_cursor_init(struct distribution_cursor *cursor,
                              const struct distribution *distribution, uint64_t thread,
                              uint64_t threads)
{
    cursor->next = (uint64_t)((double)distribution->keys * (double)thread / (double)threads);
}

static uint64_t draw_latest(const struct distribution *distribution, struct random_state *random,
                            bool is_write, _Atomic uint64_t *latest)
{
    uint64_t keys = distribution->keys;
    if (is_write)
        return (atomic_fetch_add_explicit(latest, 1, memory_order_relaxed) + 1) % keys;
    uint64_t newest = atomic_load_explicit(latest, memory_order_relaxed) % keys;
    uint64_t distance = distribution_zipfian_rank(distribution, random);
    return (newest + keys - distance) % keys;
}

uint64_t distribution_draw(const struct distribution *distribution,
                           struct distribution_cursor *cursor, struct random_state *random,
                           bool is_write, _Atomic uint64_t *latest)
{
    switch (distribution->kind) {
    case DISTRIBUTION_UNIFORM:
        break;
    case DISTRIBUTION_ZIPFIAN:
        return scatter(distribution_zipfian_rank(distribution, random)) % distribution->keys;
    case DISTRIBUTION_LATEST:
        return draw_latest(distribution, random, is_write, latest);
    case DISTRIBUTION_SEQUENTIAL:
        return cursor->next++ % distribution->keys;
    }
    return random_below(random, distribution->keys);
}
