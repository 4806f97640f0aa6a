#include "experiments/peers/echo_group.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/message.h"

/* Where a call stands that another thread leads. */
enum turn {
    TURN_WAITING,  /* its thread looks at this word now and then */
    TURN_SLEEPING, /* its thread sleeps on this word */
    TURN_ANSWERED,
    TURN_TO_LEAD
};

static bool try_lead(struct echo_group *group)
{
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong(&group->led, &nobody, 1);
}

static void append(struct echo_group *group, struct echo_call *call)
{
    call->following = NULL;
    if (group->first)
        group->last->following = call;
    else
        group->first = call;
    group->last = call;
}

static void collect_arrivals(struct echo_group *group)
{
    struct echo_call *stack = atomic_exchange(&group->arrivals, NULL), *in_order = NULL;
    for (struct echo_call *below; stack; stack = below) {
        below = stack->following;
        stack->following = in_order;
        in_order = stack;
    }
    for (struct echo_call *following; in_order; in_order = following) {
        following = in_order->following;
        append(group, in_order);
    }
}

/* The call is its thread's again: it may be gone when this returns. */
static void give_turn(struct echo_call *call, enum turn turn)
{
    _Atomic uint32_t *word = &call->turn;
    if (atomic_exchange(word, turn) == TURN_SLEEPING)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sends one message for the first calls, as many as fit, and answers them. True: `own` was among
 * them. */
static bool send_message(struct echo_group *group, const struct echo_call *own)
{
    size_t most = echo_link_message_bytes(group->link);
    struct echo_sizes sizes = {.request_bytes = WIRE_HEADER_BYTES,
                               .reply_bytes = WIRE_HEADER_BYTES};
    struct echo_call *end = group->first;
    for (; end && sizes.request_bytes + end->request_bytes <= most &&
           sizes.reply_bytes + end->reply_bytes <= most;
         end = end->following) {
        sizes.request_bytes += end->request_bytes;
        sizes.reply_bytes += end->reply_bytes;
    }
    enum kv_status status = echo_link_exchange(group->link, &sizes);
    bool answered_own = false;
    while (group->first != end) {
        struct echo_call *call = group->first;
        group->first = call->following;
        call->status = status;
        if (call == own)
            answered_own = true;
        else
            give_turn(call, TURN_ANSWERED);
    }
    return answered_own;
}

static void pass_lead(struct echo_group *group)
{
    do {
        collect_arrivals(group);
        if (group->first) {
            give_turn(group->first, TURN_TO_LEAD);
            return;
        }
        atomic_store(&group->led, 0);
        /* Who came between the two steps above found the group led, and waits to be seen. */
    } while (atomic_load(&group->arrivals) && try_lead(group));
}

static void arrive(struct echo_group *group, struct echo_call *call)
{
    struct echo_call *top = atomic_load(&group->arrivals);
    do
        call->following = top;
    while (!atomic_compare_exchange_weak(&group->arrivals, &top, call));
}

/* A wire_attempt: 1 once the leader has said something. */
static ssize_t look_at_turn(void *context)
{
    struct echo_call *call = context;
    return atomic_load(&call->turn) != TURN_WAITING;
}

static enum turn await_turn(struct echo_call *call, struct wire_waiter *waiter)
{
    uint32_t turn = TURN_WAITING;
    if (wire_wait(waiter, look_at_turn, call) == 0 &&
        atomic_compare_exchange_strong(&call->turn, &turn, TURN_SLEEPING))
        while (atomic_load(&call->turn) == TURN_SLEEPING)
            syscall(SYS_futex, &call->turn, FUTEX_WAIT_PRIVATE, TURN_SLEEPING, NULL, NULL, 0);
    return (enum turn)atomic_load(&call->turn);
}

enum kv_status echo_group_execute(struct echo_group *group, struct echo_call *call,
                                  struct wire_waiter *waiter)
{
    atomic_init(&call->turn, TURN_WAITING);
    arrive(group, call);
    if (!try_lead(group) && await_turn(call, waiter) == TURN_ANSWERED)
        return call->status;
    do
        collect_arrivals(group);
    while (!send_message(group, call));
    pass_lead(group);
    return call->status;
}
