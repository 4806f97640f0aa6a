/*
 * Tests of a scheduling policy (schedule_delay_ns of lab/schedule/schedule.h) on a simulated
 * worker: nobody may starve; and the score of the study `scheduling`, the mean response time
 * weighted with 1 + priority, beside that of first come, first served. Exit status 1: somebody
 * starves.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/numbers/random.h"
#include "lab/schedule/schedule.h"

#define REQUESTS 4000u
#define PATIENCE 1000000000u /* ns: nobody is overtaken by one that came so much later */

struct request {
    uint64_t received_ns, work_ns, due_ns;
    unsigned priority;
    bool done;
};

static struct request requests[REQUESTS];

/* Nine of ten are short; together they ask for 95 % of the worker. */
static void make_requests(void)
{
    static const unsigned priorities[] = {0, 7, 15, 31};
    struct random_state random;
    uint64_t now_ns = 0;
    random_seed(&random, 1);
    for (unsigned i = 0; i < REQUESTS; i++) {
        requests[i].work_ns = random_below(&random, 10) > 0 ? 20000 : 600000;
        requests[i].priority = priorities[random_below(&random, 4)];
        now_ns += random_below(&random, 165000);
        requests[i].received_ns = now_ns;
    }
}

/* The mean response time in ns, weighted. by_policy false: first come, first served. */
static double simulate(bool by_policy, bool *starved)
{
    uint64_t now_ns = 0;
    double sum = 0, weights = 0;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct request *one = &requests[i];
        one->done = false;
        one->due_ns =
            one->received_ns + (by_policy ? schedule_delay_ns(one->priority, one->work_ns) : 0);
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
        if (next->received_ns > requests[first].received_ns + PATIENCE)
            *starved = true;
        next->done = true;
        now_ns += next->work_ns;
        sum += (double)(now_ns - next->received_ns) * (1 + next->priority);
        weights += 1 + next->priority;
    }
    return sum / weights;
}

int main(void)
{
    bool starved = false, ignored = false;
    make_requests();
    double fifo_ns = simulate(false, &ignored), yours_ns = simulate(true, &starved);
    printf("%s - nobody is overtaken by who came a second later\n", starved ? "not ok" : "ok");
    printf("yours: score x%.2f of first come, first served (%.0f us, %.0f us)\n",
           yours_ns / fifo_ns, yours_ns / 1e3, fifo_ns / 1e3);
    return starved;
}
