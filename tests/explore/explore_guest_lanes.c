/* Lanes of users other than the daemon's: lent for a moment, or given away. */
#include <string.h>
#include <sys/stat.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_daemon.h"

#define ATTEMPTS      3u
#define REQUESTS_EACH 4u
#define LOOKS         200u /* at a lane, which is closed by the last */
#define LOOK_MS       10u

#define OWNER_UID 1000u
#define GUEST_UID 1001u /* of two clients; the third is of the next */

static _Atomic bool has_left[DAEMON_CLIENTS];

static bool have_others_left(const void *of)
{
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        if (i != *(const unsigned *)of && !has_left[i] && !explore_is_gone(FIRST_CLIENT + i))
            return false;
    return true;
}

/* Sends to whatever lane of another user is open now, in its own name. */
static void intrude(struct daemon_client *client)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    if (explore_find_queue(EXPLORED_NAME ".g", explore_random(2), name))
        explore_client_intrude(client, name);
}

static void work(struct daemon_client *client)
{
    unsigned count = explore_random(REQUESTS_EACH + 1);
    for (unsigned i = 0; i < count; i++) {
        explore_client_send(client);
        if (client->number == DAEMON_CLIENTS - 1)
            intrude(client);
    }
    if (explore_random(2) == 0)
        while (client->in_flight > 0)
            explore_client_take(client);
}

static bool is_open_to_others(mqd_t lane)
{
    struct stat facts;
    EXPLORE_CHECK(fstat((int)lane, &facts) == 0, "a lane that there is not");
    return (facts.st_mode & 0077) != 0;
}

/* When nobody has come for a while, a lane is closed to all others. */
static void look_at_lane(const struct daemon_client *client)
{
    explore_wait_until(have_others_left, &client->number);
    for (unsigned looks = 0; is_open_to_others(client->lane); looks++) {
        EXPLORE_CHECK(looks < LOOKS, "a lane that was lent stays open");
        explore_sleep_ms(LOOK_MS);
    }
}

static void be_a_guest(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    struct daemon_client *client = explore_client(number);
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        enum client_outcome outcome = explore_client_open(client);
        EXPLORE_CHECK(outcome != CLIENT_ALONE, "the daemon is gone");
        if (outcome == CLIENT_JOINED) {
            work(client);
            has_left[number] = explore_random(2) == 0;
            if (has_left[number] && client->welcome.lane_family == WIRE_FAMILY_GUESTS)
                look_at_lane(client);
            if (explore_random(4) > 0)
                explore_client_say_bye(client);
        }
        explore_client_close(client);
        if (has_left[number])
            break;
    }
    has_left[number] = true;
    explore_exit();
}

static void run_as(uid_t daemon_uid)
{
    const struct daemon_plan plan = {.workers = 2, .mode = 0622};
    struct session_counts counts;
    char name[WIRE_QUEUE_NAME_BYTES];
    memset(has_left, 0, sizeof has_left);
    explore_set_uid(DAEMON, daemon_uid);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        explore_set_uid(FIRST_CLIENT + i, i < DAEMON_CLIENTS - 1 ? GUEST_UID : GUEST_UID + 1);
    explore_daemon_start(&plan);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
        explore_thread(FIRST_CLIENT + i, be_a_guest, (void *)(uintptr_t)i);
        explore_may_kill(FIRST_CLIENT + i);
    }
    explore_wait_for_threads();
    explore_daemon_stop(&counts);
    explore_daemon_judge();
    EXPLORE_CHECK(!explore_find_queue(EXPLORED_NAME ".g", 0, name), "%s is left over", name);
    EXPLORE_CHECK(counts.ended[SESSION_FAULT] + counts.ended[SESSION_KILLED] +
                          counts.ended[SESSION_REPLACED] ==
                      0,
                  "a session was ended that had done nothing");
}

static void run_lent(void)
{
    run_as(OWNER_UID);
}

static void run_given(void)
{
    run_as(0);
}

EXPLORE_HARNESS(explore_guest_lanes) = {
    .name = "guest-lanes",
    .invariant =
        "who asks for a lane gets in for 100 ms; it serves its user alone, closes, and goes",
    .run = run_lent,
    .most_still_ms = 100,
};

EXPLORE_HARNESS(explore_guest_lanes_given) = {
    .name = "guest-lanes-given",
    .invariant = "the same where the daemon may give the lanes away",
    .run = run_given,
    .most_still_ms = 100,
};
