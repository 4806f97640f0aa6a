#include "serverk/receive/aside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "serverk/lanes/lanes.h"
#include "serverk/receive/shares.h"

_Static_assert(TENANTS <= SHARES_MAX_TENANTS, "each tenant has an account");

struct aside_message {
    struct aside_message *next;
    struct session *session;
    unsigned queue;
    uint32_t size;
    uint8_t data[];
};

struct aside_lists {
    pthread_mutex_t lock;
    struct aside_message *first, **end;
    size_t bytes, tenant_bytes[SHARES_MAX_TENANTS];
};

struct aside *aside_create(void)
{
    struct aside *aside = calloc(1, sizeof *aside);
    struct aside_lists *lists = calloc(1, sizeof *lists);
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!aside || !lists || event < 0) {
        if (event >= 0)
            close(event);
        free(lists);
        free(aside);
        return NULL;
    }
    *aside = (struct aside){.event = event, .lists = lists};
    lists->end = &lists->first;
    pthread_mutex_init(&lists->lock, NULL);
    return aside;
}

void aside_free(struct aside *aside)
{
    if (!aside)
        return;
    KV_ASSERT(aside_waiting(aside) == 0 && !aside->lists->first && aside->lists->bytes == 0);
    close(aside->event);
    pthread_mutex_destroy(&aside->lists->lock);
    free(aside->lists);
    free(aside);
}

/* The event says whether some wait; workers that sleep on it are woken by the first. Holds:
 * lock. */
static void set_aside_count(struct aside *aside, unsigned waiting)
{
    eventfd_t number;
    unsigned before = aside_waiting(aside);
    KV_ASSERT(mutex_is_held(&aside->lists->lock));
    KV_ASSERT(waiting == before + 1 || waiting + 1 == before);
    KV_ASSERT((waiting == 0) == !aside->lists->first);
    atomic_store_explicit(&aside->waiting, waiting, memory_order_relaxed);
    if (before == 0)
        eventfd_write(aside->event, 1);
    else if (waiting == 0)
        eventfd_read(aside->event, &number);
}

bool aside_add(struct aside *aside, struct kv_slice message, struct session *session,
               unsigned queue)
{
    struct aside_lists *lists = aside->lists;
    size_t bytes = sizeof(struct aside_message) + message.size;
    if (atomic_load(&session->aside) >= session->assignment.credits)
        return false;
    struct aside_message *copy = malloc(bytes);
    if (!copy)
        return false;
    *copy =
        (struct aside_message){.session = session, .queue = queue, .size = (uint32_t)message.size};
    memcpy(copy->data, message.data, message.size);
    pthread_mutex_lock(&lists->lock);
    size_t *tenant_bytes = &lists->tenant_bytes[lanes_tenant(queue)];
    bool fits = *tenant_bytes + bytes <= ASIDE_MAX_BYTES - lists->bytes;
    if (fits) {
        lists->bytes += bytes;
        *tenant_bytes += bytes;
        KV_ASSERT(lists->bytes <= ASIDE_MAX_BYTES && *tenant_bytes <= lists->bytes);
        *lists->end = copy;
        lists->end = &copy->next;
        atomic_fetch_add(&session->aside, 1);
        set_aside_count(aside, aside_waiting(aside) + 1);
    }
    pthread_mutex_unlock(&lists->lock);
    if (!fits)
        free(copy);
    return fits;
}

size_t aside_take(struct aside *aside, uint32_t queues, uint8_t *buffer, struct session **session,
                  unsigned *queue)
{
    struct aside_lists *lists = aside->lists;
    pthread_mutex_lock(&lists->lock);
    struct aside_message **link = &lists->first;
    while (*link && (queues >> (*link)->queue & 1) == 0)
        link = &(*link)->next;
    struct aside_message *first = *link;
    if (first) {
        *link = first->next;
        if (!first->next)
            lists->end = link;
        size_t bytes = sizeof *first + first->size;
        size_t *tenant_bytes = &lists->tenant_bytes[lanes_tenant(first->queue)];
        KV_ASSERT(*tenant_bytes >= bytes && lists->bytes >= *tenant_bytes);
        lists->bytes -= bytes;
        *tenant_bytes -= bytes;
        unsigned before = atomic_fetch_sub(&first->session->aside, 1);
        KV_ASSERT(before > 0);
        set_aside_count(aside, aside_waiting(aside) - 1);
    }
    pthread_mutex_unlock(&lists->lock);
    if (!first)
        return 0;
    size_t size = first->size;
    memcpy(buffer, first->data, size);
    *session = first->session;
    *queue = first->queue;
    free(first);
    return size;
}
