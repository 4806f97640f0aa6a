/* lanes: queues within the kernel's limits, the claim to a name, and which session gets which
 * lane. */
#include <check.h>
#include <poll.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serverk/lanes/claim.h"
#include "serverk/lanes/lane_names.h"
#include "serverk/lanes/lanes.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"
#include "wire/message.h"
#include "wire/queue.h"

static char base[WIRE_QUEUE_NAME_BYTES];
static pid_t test_process;

static void remove_queues(void)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    if (getpid() != test_process)
        return;
    for (unsigned j = 0; j < LANE_PLAN_MAX_LANES; j++) {
        wire_queue_name(name, base, WIRE_LANE, 0, j);
        mq_unlink(name);
        wire_queue_name(name, base, WIRE_BULK_LANE, 0, j);
        mq_unlink(name);
    }
    for (unsigned j = 0; j < 4096; j++) {
        wire_queue_name(name, base, WIRE_GUEST_LANE, 0, j);
        mq_unlink(name);
    }
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    mq_unlink(name);
}

static void name_queues(void)
{
    test_process = getpid();
    snprintf(base, sizeof base, "/tskl%d", (int)getpid());
    atexit(remove_queues);
}

static struct lanes_options with_mode(enum lanes_mode mode)
{
    return (struct lanes_options){
        .name = base, .mode = mode, .workers = 2, .queue_mode = 0622, .group = (gid_t)-1};
}

static struct lanes *must_open(enum lanes_mode mode, mode_t queue_mode)
{
    struct lanes_options options = with_mode(mode);
    options.queue_mode = queue_mode;
    struct lanes *lanes;
    struct kv_error error = {0};
    ck_assert_msg(lanes_open(&options, &lanes, &error) == KV_OK, "%s", error.text);
    return lanes;
}

static struct lanes *must_open_lanes(enum lanes_mode mode)
{
    return must_open(mode, 0622);
}

START_TEST(queues_exist_while_open)
{
    struct lanes *lanes = must_open_lanes(LANES_SHARED);
    mqd_t queue;
    struct wire_geometry geometry;
    ck_assert_int_eq(wire_queue_open(base, true, &queue, &geometry, NULL), KV_OK);
    ck_assert_uint_eq(geometry.message_bytes, lanes_message_bytes(lanes));
    struct stat facts;
    ck_assert_int_eq(fstat((int)queue, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0622);
    lanes_unlink(lanes);
    ck_assert(wire_queue_unlinked(queue));
    lanes_close(lanes);
    mq_close(queue);
    ck_assert_int_eq(wire_queue_open(base, true, &queue, NULL, NULL), KV_NO_SERVER);
}
END_TEST

/* In another process: POSIX locks do not conflict within one. Exits with the status of lanes_open;
 * the error's text goes to the pipe. */
static int open_in_child(int text_pipe)
{
    pid_t child = fork();
    if (child == 0) {
        struct lanes_options options = with_mode(LANES_SHARED);
        struct lanes *lanes;
        struct kv_error error = {0};
        enum kv_status status = lanes_open(&options, &lanes, &error);
        ssize_t written = write(text_pipe, error.text, strlen(error.text));
        (void)written;
        if (status == KV_OK)
            lanes_close(lanes);
        _exit((int)status);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

START_TEST(second_claim_is_refused_with_pid)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct lanes *lanes = must_open_lanes(LANES_SHARED);
    ck_assert_int_eq(open_in_child(ends[1]), KV_BUSY);
    char text[KV_ERROR_TEXT_BYTES] = "", pid[16];
    ck_assert_int_gt(read(ends[0], text, sizeof text - 1), 0);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    ck_assert_ptr_nonnull(strstr(text, pid));
    ck_assert_ptr_nonnull(strstr(text, base));
    lanes_close(lanes);
    ck_assert_int_eq(open_in_child(ends[1]), KV_OK);
}
END_TEST

START_TEST(lanes_of_a_dead_daemon_are_replaced)
{
    pid_t child = fork();
    if (child == 0) {
        must_open_lanes(LANES_SHARED);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    mqd_t stale;
    ck_assert_int_eq(wire_queue_open(base, true, &stale, NULL, NULL), KV_OK);
    ck_assert_int_eq(wire_send(stale, "stale", 5, 0, 0), 0);
    struct lanes *lanes = must_open_lanes(LANES_SHARED);
    ck_assert(wire_queue_unlinked(stale));
    struct mq_attr attributes;
    ck_assert_int_eq(mq_getattr(lanes_queue(lanes, 0), &attributes), 0);
    ck_assert_int_eq(attributes.mq_curmsgs, 0);
    mq_close(stale);
    lanes_close(lanes);
}
END_TEST

START_TEST(low_limits_give_smaller_queues)
{
    struct rlimit limit = {.rlim_cur = 20000, .rlim_max = 20000};
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &limit), 0);
    struct lanes_options options = with_mode(LANES_AUTO);
    options.queue_mode = 0600;
    struct lanes *lanes;
    struct kv_error error = {0};
    enum kv_status status = lanes_open(&options, &lanes, &error);
    if (status == KV_OK) { /* unless others of this user have taken more than that already */
        ck_assert_uint_le(lane_plan_charge(lanes_plan(lanes)), 20000);
        ck_assert_ptr_nonnull(lanes_shortfall(lanes));
        ck_assert_ptr_nonnull(strstr(lanes_shortfall(lanes), "ulimit -q 766080"));
        lanes_close(lanes);
    } else {
        ck_assert_int_eq(status, KV_LIMIT);
    }
}
END_TEST

START_TEST(no_room_at_all_names_the_limit)
{
    struct rlimit limit = {.rlim_cur = 300, .rlim_max = 300};
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &limit), 0);
    struct lanes_options options = with_mode(LANES_AUTO);
    struct lanes *lanes;
    struct kv_error error = {0};
    ck_assert_int_eq(lanes_open(&options, &lanes, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "RLIMIT_MSGQUEUE"));
    mqd_t queue;
    ck_assert_int_eq(wire_queue_open(base, true, &queue, NULL, NULL), KV_NO_SERVER);
}
END_TEST

static void note_lane(void *context, unsigned queue)
{
    *(unsigned *)context = queue;
}

/* For the daemon's own user. */
static struct lane_assignment assign(struct lanes *lanes, uint16_t reply_depth)
{
    struct lane_request request = {.uid = geteuid(), .reply_depth = reply_depth};
    return lanes_assign(lanes, &request);
}

START_TEST(automatic_lanes_fill_one_after_the_other)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0600);
    if (lanes_plan(lanes)->lanes < 2) {
        lanes_close(lanes);
        SKIP_TEST("other programs have the queues that this user may have");
    }
    unsigned told = 0;
    lanes_set_listener(lanes, note_lane, &told);
    ck_assert_uint_eq(lanes_in_use(lanes), 1);
    struct lane_assignment assignments[64];
    unsigned count = 0;
    do {
        ck_assert_uint_eq(lanes_in_use(lanes), 1);
        assignments[count++] = assign(lanes, 4);
    } while (assignments[count - 1].lane == 0 && count < 64);
    ck_assert_uint_eq(assignments[count - 1].lane, 1);
    ck_assert_uint_eq(told, 1);
    ck_assert_uint_eq(lanes_in_use(lanes), 2);
    ck_assert_uint_eq(assignments[0].credits, 4);
    lanes_give_back(lanes, &assignments[0], true);
    ck_assert_uint_eq(assign(lanes, 4).lane, 0);
    lanes_close(lanes);
}
END_TEST

static struct lane_assignment assign_to(struct lanes *lanes, uid_t uid, bool knows_guests)
{
    struct lane_request request = {.uid = uid, .reply_depth = 4, .knows_guests = knows_guests};
    return lanes_assign(lanes, &request);
}

static mode_t mode_of(const struct lanes *lanes, unsigned queue)
{
    struct stat facts;
    ck_assert_int_eq(fstat((int)lanes_queue(lanes, queue), &facts), 0);
    return facts.st_mode & 07777;
}

START_TEST(with_a_door_own_lanes_are_closed_to_others)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    if (!lanes_have_door(lanes)) {
        lanes_close(lanes);
        SKIP_TEST("other programs have the queues that this user may have");
    }
    ck_assert_uint_eq(mode_of(lanes, 0), 0622);
    for (unsigned queue = 1; queue < lanes_queue_count(lanes); queue++)
        ck_assert_uint_eq(mode_of(lanes, queue), 0600);
    ck_assert_uint_eq(assign(lanes, 4).lane, 1);
    ck_assert_uint_eq(lanes_tenant(1), TENANT_OWN);

    /* A client that knows no guest lanes comes through the door, without bulk lanes. */
    struct lane_assignment old = assign_to(lanes, 12345, false);
    ck_assert_uint_eq(old.family, WIRE_FAMILY_LANES);
    ck_assert_uint_eq(old.lane, 0);
    ck_assert_uint_eq(old.bulk_bytes, old.lane_bytes);
    ck_assert_uint_eq(lanes_tenant(old.queue), TENANT_DOOR);
    lanes_close(lanes);
}
END_TEST

static unsigned tenants_begun;

/* A lanes_tenant_listener. */
static void count_tenant(void *context, unsigned tenant)
{
    (void)context;
    (void)tenant;
    tenants_begun++;
}

START_TEST(each_guest_has_a_lane_for_as_long_as_it_has_sessions)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    struct lane_assignment first = assign_to(lanes, 12345, true);
    if (first.family != WIRE_FAMILY_GUESTS) {
        lanes_close(lanes);
        SKIP_TEST("other programs have the queues that this user may have");
    }
    struct lane_assignment second = assign_to(lanes, 12345, true);
    struct lane_assignment other = assign_to(lanes, 12346, true);
    ck_assert_uint_eq(second.queue, first.queue);
    ck_assert_uint_ne(other.queue, first.queue);
    ck_assert(lanes_is_guest(first.queue));
    ck_assert(served_lanes_set(lanes_served(lanes)) >> first.queue & 1);
    ck_assert(lanes_admit(lanes, first.queue, 12345, &first));
    ck_assert(!lanes_admit(lanes, first.queue, 12346, &other));

    /* Open to others, if it cannot be given to the guest, until both sessions came through. */
    if (first.opening) {
        ck_assert_uint_eq(mode_of(lanes, first.queue), 0622);
        lanes_arrived(lanes, &first);
        ck_assert_uint_eq(mode_of(lanes, first.queue), 0622);
        lanes_arrived(lanes, &second);
        ck_assert_uint_eq(mode_of(lanes, first.queue), 0600);
    } else {
        ck_assert_uint_eq(mode_of(lanes, first.queue), 0200);
    }
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t queue;
    wire_queue_name(name, base, WIRE_GUEST_LANE, 0, first.lane);
    lanes_give_back(lanes, &first, true);
    ck_assert(served_lanes_set(lanes_served(lanes)) >> first.queue & 1);
    lanes_give_back(lanes, &second, true);
    ck_assert(!(served_lanes_set(lanes_served(lanes)) >> first.queue & 1));
    ck_assert_int_eq(wire_queue_open(name, true, &queue, NULL, NULL), KV_NO_SERVER);
    char message[8192];
    ck_assert_int_eq(mq_receive(lanes_queue(lanes, first.queue), message, sizeof message, NULL),
                     -1);
    ck_assert_int_eq(errno, EBADF); /* and not: somebody else's descriptor */

    /* The place of the last lane of a guest is kept for it while there are others, and its account
     * goes on. */
    tenants_begun = 0;
    lanes_set_tenant_listener(lanes, count_tenant, NULL);
    struct lane_assignment third = assign_to(lanes, 12347, true);
    ck_assert_uint_ne(third.queue, first.queue);
    ck_assert(served_lanes_set(lanes_served(lanes)) >> third.queue & 1);
    ck_assert_uint_eq(tenants_begun, 1);
    struct lane_assignment again = assign_to(lanes, 12345, true);
    ck_assert_uint_eq(again.queue, first.queue);
    ck_assert_uint_eq(tenants_begun, 1);
    lanes_close(lanes);
    ck_assert_int_eq(wire_queue_open(name, true, &queue, NULL, NULL), KV_NO_SERVER);
}
END_TEST

START_TEST(a_lane_that_nobody_comes_through_is_closed)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    struct lane_assignment idle = assign_to(lanes, 12345, true);
    if (idle.family != WIRE_FAMILY_GUESTS || !idle.opening) {
        lanes_close(lanes);
        SKIP_TEST("this daemon gives lanes away (root), or has none to give");
    }
    struct pollfd timer = {.fd = lanes_timer(lanes), .events = POLLIN};
    lanes_tick(lanes); /* too early */
    ck_assert_int_eq(poll(&timer, 1, 10000), 1);
    lanes_tick(lanes);
    ck_assert_uint_eq(mode_of(lanes, idle.queue), 0600);

    /* The next one opens it, and closes it although the first never came. */
    struct lane_assignment next = assign_to(lanes, 12345, true);
    ck_assert_uint_eq(next.queue, idle.queue);
    ck_assert_uint_eq(mode_of(lanes, idle.queue), 0622);
    lanes_arrived(lanes, &idle); /* late */
    ck_assert_uint_eq(mode_of(lanes, idle.queue), 0622);
    lanes_arrived(lanes, &next);
    ck_assert_uint_eq(mode_of(lanes, idle.queue), 0600);
    lanes_give_back(lanes, &idle, true);
    lanes_give_back(lanes, &next, true);
    lanes_close(lanes);
}
END_TEST

START_TEST(a_lane_is_opened_again_for_who_asks_again)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    struct lane_assignment late = assign_to(lanes, 12345, true);
    if (late.family != WIRE_FAMILY_GUESTS || !late.opening) {
        lanes_close(lanes);
        SKIP_TEST("this daemon gives lanes away (root), or has none to give");
    }
    struct pollfd timer = {.fd = lanes_timer(lanes), .events = POLLIN};
    ck_assert_int_eq(poll(&timer, 1, 10000), 1);
    lanes_tick(lanes);
    ck_assert_uint_eq(mode_of(lanes, late.queue), 0600);
    lanes_reopen(lanes, &late);
    ck_assert_uint_eq(mode_of(lanes, late.queue), 0622);

    /* Another that comes through meanwhile does not close it; the time does. */
    struct lane_assignment next = assign_to(lanes, 12345, true);
    lanes_arrived(lanes, &next);
    ck_assert_uint_eq(mode_of(lanes, late.queue), 0622);
    for (unsigned i = 0; i < 100 && mode_of(lanes, late.queue) != 0600; i++) {
        ck_assert_int_eq(poll(&timer, 1, 10000), 1);
        lanes_tick(lanes);
    }
    ck_assert_uint_eq(mode_of(lanes, late.queue), 0600);
    lanes_arrived(lanes, &late);
    struct lane_assignment last = assign_to(lanes, 12345, true);
    lanes_arrived(lanes, &last);
    ck_assert_uint_eq(mode_of(lanes, late.queue), 0600);
    lanes_close(lanes);
}
END_TEST

START_TEST(a_lane_full_of_garbage_gets_a_successor)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    struct lane_assignment first = assign_to(lanes, 12345, true);
    struct guest_facts facts;
    if (first.family != WIRE_FAMILY_GUESTS || !first.opening) {
        lanes_close(lanes); /* nobody else can get into a lane that was given away */
        SKIP_TEST("this daemon gives lanes away (root), or has none to give");
    }
    for (unsigned i = 0; i < 1000; i++)
        lanes_count_garbage(lanes, first.queue);
    ck_assert(lanes_guest_facts(lanes, first.queue - LANE_PLAN_FIRST_GUEST, &facts));
    ck_assert_uint_eq(facts.garbage, 1000);
    struct lane_assignment next = assign_to(lanes, 12345, true);
    ck_assert_uint_eq(next.family, WIRE_FAMILY_GUESTS);
    ck_assert_uint_ne(next.queue, first.queue);
    ck_assert_uint_ne(next.lane, first.lane);
    lanes_close(lanes);
}
END_TEST

START_TEST(worker_lanes_go_round)
{
    struct lanes *lanes = must_open_lanes(LANES_WORKER);
    unsigned count = lanes_plan(lanes)->lanes;
    for (unsigned i = 0; i < 6; i++)
        ck_assert_uint_eq(assign(lanes, 2).lane, i % count);
    ck_assert_uint_eq(assign(lanes, 2).credits, 2);
    ck_assert_uint_le(assign(lanes, 1000).credits, 8);
    lanes_close(lanes);
}
END_TEST

static mqd_t must_create(const char *name)
{
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    mqd_t queue;
    ck_assert_int_eq(wire_queue_create(name, smallest, 0600, true, &queue, NULL), KV_OK);
    return queue;
}

/* What is there under the claim, after the removal, somebody else has made. */
START_TEST(a_name_that_is_taken_is_skipped)
{
    enum wire_queue_role role = _i == 0 ? WIRE_LANE : WIRE_BULK_LANE;
    struct lane_names names = {.base = base};
    char name[WIRE_QUEUE_NAME_BYTES];
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    mqd_t queue;
    struct kv_error error = {0};
    wire_queue_name(name, base, role, 0, 2);
    mq_close(must_create(name));
    for (unsigned j = 1; j < 4; j++) {
        static const unsigned first_tried[] = {0, 1, 2, 2}, expected[] = {0, 1, 3, 4};
        unsigned number = first_tried[j];
        if (j == 3) /* the first name is given by now */
            *(role == WIRE_LANE ? &names.foreign_lanes : &names.foreign_bulk_lanes) |= 1u << 3;
        ck_assert_int_eq(lane_names_create(&names, role, smallest, 0600, &number, &queue, &error),
                         KV_OK);
        ck_assert_uint_eq(number, expected[j]);
        mq_close(queue);
    }
    unsigned number = LANE_NAMES;
    ck_assert_int_eq(lane_names_create(&names, role, smallest, 0600, &number, &queue, &error),
                     KV_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, base));

    /* All that are of our own uid go. */
    unsigned removed = 0;
    ck_assert_int_eq(lane_names_remove_stale(&names, &removed, &error), KV_OK);
    ck_assert_uint_eq(removed, 4);
}
END_TEST

START_TEST(nobody_elses_queue_is_lane_0)
{
    struct lane_names names = {.base = base};
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    mqd_t queue;
    unsigned number = 0;
    struct kv_error error = {0};
    mq_close(must_create(base));
    ck_assert_int_eq(lane_names_create(&names, WIRE_LANE, smallest, 0600, &number, &queue, &error),
                     KV_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, base));
}
END_TEST

static unsigned renewed_queues;

/* A lanes_listener. */
static void note_queue(void *context, unsigned queue)
{
    (void)context;
    renewed_queues |= 1u << queue;
}

START_TEST(queues_that_lost_their_names_are_made_anew)
{
    struct lanes *lanes = must_open(LANES_WORKER, 0600);
    struct kv_error error = {0};
    char name[WIRE_QUEUE_NAME_BYTES], message[8192];
    mqd_t queue, before = lanes_queue(lanes, 0);
    lanes_set_listener(lanes, note_queue, NULL);
    ck_assert(lanes_are_linked(lanes));
    ck_assert_int_eq(wire_queue_open(base, true, &queue, NULL, NULL), KV_OK);
    ck_assert_int_eq(mq_send(queue, "first", 5, 3), 0);
    ck_assert_int_eq(mq_send(queue, "second", 6, 3), 0);
    mq_unlink(base);
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    mq_unlink(name);
    ck_assert(!lanes_are_linked(lanes));
    ck_assert_msg(lanes_renew(lanes, &error) == KV_OK, "%s", error.text);
    ck_assert(lanes_are_linked(lanes));
    ck_assert_uint_eq(renewed_queues, 1);

    /* Who had it open sees that; what was sent there is taken under the same descriptor. */
    ck_assert(wire_queue_unlinked(queue));
    ck_assert_int_eq(wire_queue_open(base, true, &queue, NULL, NULL), KV_OK);
    ck_assert_int_eq(mq_send(queue, "third", 5, 3), 0);
    ck_assert_int_eq((int)lanes_queue(lanes, 0), (int)before);
    static const char *const sent[] = {"first", "second", "third"};
    for (unsigned i = 0; i < 3; i++) {
        unsigned priority = 0;
        ssize_t size = mq_receive(before, message, sizeof message, &priority);
        ck_assert_int_eq(size, (int)strlen(sent[i]));
        ck_assert_mem_eq(message, sent[i], strlen(sent[i]));
        ck_assert_uint_eq(priority, 3);
    }
    ck_assert_int_eq(mq_receive(before, message, sizeof message, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);

    /* The claim and the lock on the lane are there: a process sees both. */
    pid_t child = fork();
    if (child == 0) {
        mqd_t claim = (mqd_t)-1;
        bool refused = claim_take(base, &claim, NULL) == KV_BUSY;
        _exit(refused && wire_lane_server(queue) == getppid() ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    lanes_close(lanes);
}
END_TEST

/* As where logind has removed the queues of several daemons of a user at once. */
START_TEST(queues_are_made_anew_where_there_is_no_room_for_two)
{
    struct lanes *lanes = must_open(LANES_WORKER, 0600);
    struct kv_error error = {0};
    uint64_t room = lane_plan_charge(lanes_plan(lanes)) + 1000;
    struct rlimit limit = {.rlim_cur = room, .rlim_max = room};
    mqd_t queue;
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &limit), 0);
    ck_assert_uint_gt(wire_geometry_charge(lanes_plan(lanes)->lane), 1000);
    mq_unlink(base);
    enum kv_status status = lanes_renew(lanes, &error);
    if (status != KV_LIMIT) { /* unless others of this user have taken more than that already */
        ck_assert_msg(status == KV_OK, "%s", error.text);
        ck_assert(lanes_are_linked(lanes));
        ck_assert_int_eq(wire_queue_open(base, true, &queue, NULL, NULL), KV_OK);
        mq_close(queue);
    }
    lanes_close(lanes);
    if (status == KV_LIMIT)
        SKIP_TEST("other programs have the queues that this user may have");
}
END_TEST

START_TEST(a_lane_whose_name_was_taken_meanwhile_gets_another_number)
{
    struct lanes *lanes = must_open(LANES_WORKER, 0600);
    struct kv_error error = {0};
    char name[WIRE_QUEUE_NAME_BYTES];
    unsigned lane_count = lanes_plan(lanes)->lanes;
    if (lane_count < 2) {
        lanes_close(lanes);
        SKIP_TEST("other programs have the queues that this user may have");
    }
    wire_queue_name(name, base, WIRE_LANE, 0, 1);
    mq_unlink(name);
    mq_close(must_create(name));
    ck_assert_msg(lanes_renew(lanes, &error) == KV_OK, "%s", error.text);
    ck_assert(lanes_are_linked(lanes));
    ck_assert_uint_eq(assign(lanes, 2).lane, 0);
    ck_assert_uint_eq(assign(lanes, 2).lane, lane_count);
    mq_unlink(base); /* NAME itself has no other name */
    mq_close(must_create(base));
    ck_assert_int_eq(lanes_renew(lanes, &error), KV_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, base));
    mq_unlink(base);
    ck_assert_int_eq(lanes_renew(lanes, &error), KV_OK);
    lanes_close(lanes);
}
END_TEST

START_TEST(a_guest_whose_lane_was_removed_gets_another)
{
    struct lanes *lanes = must_open(LANES_AUTO, 0622);
    struct lane_assignment first = assign_to(lanes, 12345, true);
    if (first.family != WIRE_FAMILY_GUESTS) {
        lanes_close(lanes);
        SKIP_TEST("other programs have the queues that this user may have");
    }
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, base, WIRE_GUEST_LANE, 0, first.lane);
    mq_unlink(name);
    struct lane_assignment second = assign_to(lanes, 12345, true);
    ck_assert_uint_eq(second.family, WIRE_FAMILY_GUESTS);
    ck_assert_uint_ne(second.queue, first.queue);
    ck_assert(atomic_load(first.spoiled));
    ck_assert(!wire_queue_unlinked(lanes_queue(lanes, second.queue)));
    lanes_give_back(lanes, &first, true);
    ck_assert(!wire_queue_unlinked(lanes_queue(lanes, second.queue)));
    lanes_close(lanes);
}
END_TEST

TEST_SUITE(serverk_lanes)
{
    TCase *cases = tcase_create("lanes");
    tcase_add_checked_fixture(cases, name_queues, NULL);
    tcase_add_test(cases, queues_exist_while_open);
    tcase_add_test(cases, second_claim_is_refused_with_pid);
    tcase_add_test(cases, lanes_of_a_dead_daemon_are_replaced);
    tcase_add_test(cases, low_limits_give_smaller_queues);
    tcase_add_test(cases, no_room_at_all_names_the_limit);
    tcase_add_test(cases, automatic_lanes_fill_one_after_the_other);
    tcase_add_test(cases, with_a_door_own_lanes_are_closed_to_others);
    tcase_add_test(cases, each_guest_has_a_lane_for_as_long_as_it_has_sessions);
    tcase_add_test(cases, a_lane_that_nobody_comes_through_is_closed);
    tcase_add_test(cases, a_lane_is_opened_again_for_who_asks_again);
    tcase_add_test(cases, a_lane_full_of_garbage_gets_a_successor);
    tcase_add_test(cases, worker_lanes_go_round);
    tcase_add_loop_test(cases, a_name_that_is_taken_is_skipped, 0, 2);
    tcase_add_test(cases, nobody_elses_queue_is_lane_0);
    tcase_add_test(cases, queues_that_lost_their_names_are_made_anew);
    tcase_add_test(cases, queues_are_made_anew_where_there_is_no_room_for_two);
    tcase_add_test(cases, a_lane_whose_name_was_taken_meanwhile_gets_another_number);
    tcase_add_test(cases, a_guest_whose_lane_was_removed_gets_another);
    suite_add_tcase(suite, cases);
}
