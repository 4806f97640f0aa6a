/*
 * A simulated worker, and requests that a seed decides: the same each time. The score is the mean
 * response time, weighted with 1 + priority, beside that of first come, first served.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define REQUESTS 4000u

struct request {
    uint64_t received_ns, work_ns, due_ns;
    unsigned priority;
    bool done;
};

static struct request requests[REQUESTS];
static uint64_t state;

/* The bits of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014), below `bound`. */
static uint64_t random_below(uint64_t bound)
{
    uint64_t bits = state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return (bits ^ bits >> 31) % bound;
}

/* Nine of ten are short; together they ask for load_pct of the worker. */
static void make_requests(uint64_t seed, unsigned load_pct)
{
    static const unsigned priorities[] = {0, 7, 15, 31};
    uint64_t now_ns = 0;
    state = seed;
    for (unsigned i = 0; i < REQUESTS; i++) {
        requests[i] = (struct request){.work_ns = random_below(10) > 0 ? 20000 : 600000,
                                       .priority = priorities[random_below(4)]};
        now_ns += random_below(2 * 78000 * 100 / load_pct);
        requests[i].received_ns = now_ns;
    }
}

/* The weighted mean in ns. by_policy false: first come, first served. *starved: somebody was
 * overtaken by who came POLICY_PATIENCE_NS later. */
static double simulate(bool by_policy, bool *starved)
{
    uint64_t now_ns = 0;
    double sum = 0, weights = 0;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct request *one = &requests[i];
        uint64_t delay_ns = by_policy ? policy_delay_ns(one->priority, one->work_ns) : 0;
        one->done = false;
        one->due_ns =
            delay_ns < UINT64_MAX - one->received_ns ? one->received_ns + delay_ns : UINT64_MAX;
    }
    for (unsigned served = 0, first = 0; served < REQUESTS; served++) {
        struct request *next = NULL;
        while (requests[first].done)
            first++;
        if (now_ns < requests[first].received_ns)
            now_ns = requests[first].received_ns;
        for (unsigned i = first; i < REQUESTS && requests[i].received_ns <= now_ns; i++)
            if (!requests[i].done && (!next || requests[i].due_ns < next->due_ns))
                next = &requests[i];
        *starved |= next->received_ns > requests[first].received_ns + POLICY_PATIENCE_NS;
        next->done = true;
        now_ns += next->work_ns;
        sum += (double)(now_ns - next->received_ns) * (1 + next->priority);
        weights += 1 + next->priority;
    }
    return sum / weights;
}

static double share_of_fifo(uint64_t seed, unsigned load_pct)
{
    bool ignored;
    make_requests(seed, load_pct);
    double fifo_ns = simulate(false, &ignored);
    return simulate(true, &ignored) / fifo_ns;
}

/* At more than the worker can do, so that what waits grows. */
static bool nobody_starves(void)
{
    bool starved = false;
    make_requests(1, 150);
    simulate(true, &starved);
    if (starved)
        puts("a request was overtaken by one that came more than 100 ms later");
    return !starved;
}

static bool is_below(uint64_t seed, unsigned load_pct, double most)
{
    double share = share_of_fifo(seed, load_pct);
    printf("at %u %% of the worker: %.2f of first come, first served; %.2f is asked\n", load_pct,
           share, most);
    return share <= most;
}

static bool is_quick(void)
{
    return is_below(1, 95, 0.2);
}

static bool is_quick_anywhere(void)
{
    bool quick = true;
    for (uint64_t seed = 2; seed < 6; seed++)
        quick &= is_below(seed, 80, 0.42) & is_below(seed, 98, 0.13);
    return quick;
}

static bool is_ordered(void)
{
    static const uint64_t works_ns[] = {0,
                                        1,
                                        1000,
                                        20000,
                                        600000,
                                        100000000,
                                        UINT64_C(1) << 54,
                                        UINT64_C(1) << 61,
                                        UINT64_C(1) << 63,
                                        UINT64_MAX};
    bool ordered = true;
    for (unsigned i = 0; i < sizeof works_ns / sizeof *works_ns; i++)
        for (unsigned priority = 0; priority < POLICY_MAX_PRIORITY; priority++) {
            uint64_t delay_ns = policy_delay_ns(priority, works_ns[i]);
            ordered &= policy_delay_ns(priority + 1, works_ns[i]) <= delay_ns;
            ordered &= i == 0 || policy_delay_ns(priority, works_ns[i - 1]) <= delay_ns;
        }
    if (!ordered)
        puts("more priority, or less work, makes a request due later");
    return ordered;
}

static bool is_bounded(void)
{
    static const unsigned priorities[] = {0, 1, 31, 32, 255, UINT32_MAX};
    bool bounded = true;
    for (unsigned i = 0; i < sizeof priorities / sizeof *priorities; i++)
        for (unsigned bit = 0; bit < 64; bit++) {
            uint64_t delay_ns = policy_delay_ns(priorities[i], UINT64_MAX >> bit);
            if (delay_ns > POLICY_PATIENCE_NS && bounded)
                printf("priority %u, work %llu ns: due after %llu ns\n", priorities[i],
                       (unsigned long long)(UINT64_MAX >> bit), (unsigned long long)delay_ns);
            bounded &= delay_ns <= POLICY_PATIENCE_NS;
        }
    for (unsigned i = 3; i < sizeof priorities / sizeof *priorities; i++)
        if (policy_delay_ns(priorities[i], 20000) != policy_delay_ns(31, 20000)) {
            printf("priority %u does not count as 31\n", priorities[i]);
            bounded = false;
        }
    return bounded;
}

static const struct {
    const char *name;
    bool (*holds)(void);
} checks[] = {{"nobody_starves", nobody_starves},
              {"is_quick", is_quick},
              {"is_quick_anywhere", is_quick_anywhere},
              {"is_ordered", is_ordered},
              {"is_bounded", is_bounded}};

int main(int count, char **words)
{
    for (unsigned i = 0; count == 2 && i < sizeof checks / sizeof *checks; i++)
        if (strcmp(checks[i].name, words[1]) == 0) {
            if (!checks[i].holds())
                return 1;
            printf("%s: done\n", words[1]);
            return 0;
        }
    errx(2, "usage: plain CHECK");
}
