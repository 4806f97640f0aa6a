/* The life of sessions: hello, farewell, the death of a client, the end of the daemon. */
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_daemon.h"

#define SESSIONS_EACH 2u
#define REQUESTS_EACH 4u

/* Of one client. */
static struct {
    unsigned opened; /* sessions that it knows of */
    unsigned byes;   /* that were sent for sure */
} known[DAEMON_CLIENTS];

/* A client may leave without a look at what it has asked for. */
static bool live(struct daemon_client *client)
{
    unsigned count = explore_random(REQUESTS_EACH + 1);
    for (unsigned i = 0; i < count; i++)
        if (!explore_client_send(client))
            return false;
    if (explore_random(2) == 0)
        while (client->in_flight > 0)
            if (!explore_client_take(client))
                return false;
    return true;
}

static void be_a_client(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    struct daemon_client *client = explore_client(number);
    for (unsigned i = 0; i < SESSIONS_EACH; i++) {
        enum client_outcome outcome = explore_client_open(client);
        EXPLORE_CHECK(outcome == CLIENT_JOINED || outcome == CLIENT_ALONE,
                      "a client of the owner is not let in: %d", outcome);
        known[number].opened += outcome == CLIENT_JOINED;
        bool goes_on = outcome == CLIENT_JOINED && live(client);
        if (goes_on && explore_random(4) > 0) {
            explore_client_say_bye(client);
            known[number].byes++;
        }
        explore_client_close(client);
        if (!goes_on)
            break;
    }
    explore_exit();
}

static void run_with(const struct daemon_plan *plan)
{
    struct session_counts counts;
    unsigned opened = 0, byes = 0;
    memset(known, 0, sizeof known);
    explore_daemon_start(plan);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
        explore_thread(FIRST_CLIENT + i, be_a_client, (void *)(uintptr_t)i);
        explore_may_kill(FIRST_CLIENT + i);
    }
    if (!plan->leaves_clients)
        explore_wait_for_threads();
    else
        explore_sleep_ms(explore_random(2));
    explore_daemon_stop(&counts);
    explore_daemon_judge();
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
        opened += known[i].opened;
        byes += known[i].byes;
    }
    EXPLORE_CHECK(counts.opened >= opened, "fewer sessions were opened than clients had");
    EXPLORE_CHECK(plan->leaves_clients || counts.ended[SESSION_BYE] >= byes,
                  "%u clients said BYE, and %lu sessions ended so", byes,
                  (unsigned long)counts.ended[SESSION_BYE]);
    EXPLORE_CHECK(counts.ended[SESSION_FAULT] + counts.ended[SESSION_SEGMENT] +
                          counts.ended[SESSION_REPLACED] + counts.ended[SESSION_KILLED] ==
                      0,
                  "a session was ended that had done nothing");
}

static void run(void)
{
    const struct daemon_plan plan = {
        .workers = 2, .mode = 0600, .has_long_ones = explore_random(3) == 0};
    run_with(&plan);
}

static void run_stop(void)
{
    const struct daemon_plan plan = {.workers = 2, .mode = 0600, .leaves_clients = true};
    run_with(&plan);
}

EXPLORE_HARNESS(explore_session) = {
    .name = "session",
    .invariant =
        "what a client sends before it leaves or dies is executed once, and its session ends",
    .run = run,
    .most_still_ms = 100,
};

EXPLORE_HARNESS(explore_session_stop) = {
    .name = "session-stop",
    .invariant = "the same when the daemon stops while clients come and go",
    .run = run_stop,
    .most_still_ms = 100,
};
