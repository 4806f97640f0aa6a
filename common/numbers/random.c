#include "common/numbers/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t splitmix64(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

void random_seed(struct random_state *state, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        state->s[i] = splitmix64(&seed);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

/* xoshiro256** 1.0. */
uint64_t random_next(struct random_state *state)
{
    uint64_t *s = state->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random_state *state, uint64_t bound)
{
    __extension__ typedef unsigned __int128 product;
    return (uint64_t)(((product)random_next(state) * bound) >> 64);
}

double random_unit(struct random_state *state)
{
    return (double)(random_next(state) >> 11) * 0x1.0p-53;
}

uint64_t random_secret(void)
{
    uint64_t secret;
    ssize_t got;
    do {
        got = getrandom(&secret, sizeof secret, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof secret) {
        perror("getrandom: the kernel gives no random bytes");
        abort();
    }
    return secret;
}
