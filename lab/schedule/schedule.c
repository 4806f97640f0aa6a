#include "lab/schedule/schedule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/assert/assert.h"
#include "serverk/session/user_share.h"
#include "wire/message.h"

#define CLASS_PRIORITIES ((WIRE_MAX_PRIORITY + 1) / SCHEDULE_CLASSES)

struct waiting {
    uint64_t due_ns;
    uint64_t number; /* of the message, in the order of adding */
    uint64_t received_ns;
    struct message_source source;
    uint32_t place; /* in `messages` */
    uint32_t size;
    unsigned priority;
};

/* heap[i] is not due after heap[2i + 1] and heap[2i + 2]. */
struct tenant_heap {
    struct waiting *heap;
    unsigned count;
};

struct schedule {
    unsigned capacity;
    unsigned places; /* capacity, and one a worker */
    unsigned tenants;
    unsigned tenant_capacity;
    size_t message_bytes;
    uint8_t *messages; /* address space: memory is taken as far as it is used */
    _Atomic unsigned count;
    _Atomic uint32_t waiting_tenants, full_tenants; /* bits */

    pthread_mutex_t lock; /* of all that follows; and of changes to count and the sets of tenants */
    struct tenant_heap heaps[SCHEDULE_MAX_TENANTS];
    uint32_t *free_places; /* a stack: places used lately are used again first */
    unsigned free_count;
    uint64_t received;
    uint64_t found_sum; /* messages that waited already, over all received */
    unsigned waiting_max;
    uint64_t full;
    struct histogram waits[SCHEDULE_CLASSES];
};

uint64_t schedule_delay_ns(unsigned priority, uint64_t work_ns)
{
    uint64_t weight = 1 + (priority < WIRE_MAX_PRIORITY ? priority : WIRE_MAX_PRIORITY);
    if (work_ns >= SCHEDULE_AGING_NS / SCHEDULE_STRETCH * weight)
        return SCHEDULE_AGING_NS;
    return work_ns * SCHEDULE_STRETCH / weight;
}

/* Life ----------------------------------------------------------------------------------------- */

/* The places of one of several tenants: at least one. */
static unsigned tenant_places(unsigned capacity)
{
    uint64_t share = user_share_of_one(capacity);
    return share > 0 ? (unsigned)share : 1;
}

/* False: out of memory. */
static bool create_heaps(struct schedule *schedule, unsigned workers)
{
    for (unsigned tenant = 0; tenant < schedule->tenants; tenant++) {
        struct tenant_heap *heap = &schedule->heaps[tenant];
        heap->heap = calloc(schedule->tenant_capacity + workers, sizeof *heap->heap);
        if (!heap->heap)
            return false;
    }
    return true;
}

struct schedule *schedule_create(unsigned capacity, unsigned tenants, size_t message_bytes,
                                 unsigned workers)
{
    struct schedule *schedule = calloc(1, sizeof *schedule);
    if (!schedule)
        return NULL;
    pthread_mutex_init(&schedule->lock, NULL);
    schedule->capacity = capacity;
    schedule->places = capacity + workers;
    schedule->tenants = tenants;
    schedule->tenant_capacity = tenants > 1 ? tenant_places(capacity) : capacity;
    schedule->message_bytes = message_bytes;
    schedule->free_places = calloc(schedule->places, sizeof *schedule->free_places);
    void *messages = mmap(NULL, schedule->places * message_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    schedule->messages = messages == MAP_FAILED ? NULL : messages;
    if (!create_heaps(schedule, workers) || !schedule->free_places || !schedule->messages) {
        schedule_free(schedule);
        return NULL;
    }
    for (uint32_t place = schedule->places; place-- > 0;)
        schedule->free_places[schedule->free_count++] = place;
    return schedule;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    if (schedule->messages)
        munmap(schedule->messages, schedule->places * schedule->message_bytes);
    for (unsigned tenant = 0; tenant < schedule->tenants; tenant++)
        free(schedule->heaps[tenant].heap);
    free(schedule->free_places);
    pthread_mutex_destroy(&schedule->lock);
    free(schedule);
}

/* The heaps; all with the lock held ------------------------------------------------------------ */

static bool before(const struct waiting *a, const struct waiting *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct tenant_heap *tenant, struct waiting waiting)
{
    struct waiting *heap = tenant->heap;
    unsigned at = tenant->count++;
    KV_ASSERT(waiting.due_ns >= waiting.received_ns);
    while (at > 0 && before(&waiting, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = waiting;
}

/* Takes the first; there is one. */
static struct waiting pop(struct tenant_heap *tenant)
{
    struct waiting *heap = tenant->heap;
    KV_ASSERT(tenant->count > 0);
    unsigned count = tenant->count--;
    struct waiting first = heap[0], last = heap[count - 1];
    unsigned at = 0, child;
    while ((child = 2 * at + 1) < count - 1) {
        if (child + 1 < count - 1 && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    KV_ASSERT(tenant->count == 0 || !before(&heap[0], &first)); /* nothing was due before it */
    return first;
}

/* Returns the tenant, of those, which all have messages, whose first message is the first of all.
 * */
static unsigned first_tenant(const struct schedule *schedule, uint32_t tenants)
{
    unsigned first = (unsigned)__builtin_ctz(tenants);
    for (tenants &= tenants - 1; tenants != 0; tenants &= tenants - 1) {
        unsigned tenant = (unsigned)__builtin_ctz(tenants);
        if (before(schedule->heaps[tenant].heap, schedule->heaps[first].heap))
            first = tenant;
    }
    return first;
}

/* Notes a change of the tenant's messages. Holds: lock. */
static void note_tenant(struct schedule *schedule, unsigned tenant)
{
    KV_ASSERT(mutex_is_held(&schedule->lock) && tenant < schedule->tenants);
    KV_ASSERT(schedule->heaps[tenant].count <=
              schedule->tenant_capacity + schedule->places - schedule->capacity);
    unsigned count = schedule->heaps[tenant].count;
    uint32_t bit = UINT32_C(1) << tenant;
    uint32_t waiting = atomic_load_explicit(&schedule->waiting_tenants, memory_order_relaxed);
    uint32_t full = atomic_load_explicit(&schedule->full_tenants, memory_order_relaxed);
    atomic_store_explicit(&schedule->waiting_tenants, count > 0 ? waiting | bit : waiting & ~bit,
                          memory_order_relaxed);
    atomic_store_explicit(&schedule->full_tenants,
                          count >= schedule->tenant_capacity ? full | bit : full & ~bit,
                          memory_order_relaxed);
}

static uint8_t *message_at(const struct schedule *schedule, uint32_t place)
{
    return schedule->messages + place * schedule->message_bytes;
}

/* Calls ---------------------------------------------------------------------------------------- */

unsigned schedule_waiting(const struct schedule *schedule)
{
    return atomic_load_explicit(&schedule->count, memory_order_relaxed);
}

uint32_t schedule_tenants(const struct schedule *schedule)
{
    return atomic_load_explicit(&schedule->waiting_tenants, memory_order_relaxed);
}

uint32_t schedule_full_tenants(const struct schedule *schedule)
{
    return atomic_load_explicit(&schedule->full_tenants, memory_order_relaxed);
}

bool schedule_full(const struct schedule *schedule)
{
    return schedule_waiting(schedule) >= schedule->capacity;
}

void schedule_add(struct schedule *schedule, struct kv_slice message, struct message_source source,
                  unsigned priority, uint64_t work_ns, uint64_t now_ns)
{
    struct waiting waiting = {.due_ns = now_ns + schedule_delay_ns(priority, work_ns),
                              .received_ns = now_ns,
                              .source = source,
                              .size = (uint32_t)message.size,
                              .priority =
                                  priority < WIRE_MAX_PRIORITY ? priority : WIRE_MAX_PRIORITY};
    pthread_mutex_lock(&schedule->lock);
    unsigned count = schedule_waiting(schedule);
    KV_ASSERT(message.size <= schedule->message_bytes && schedule->free_count > 0);
    KV_ASSERT(schedule->free_count + count == schedule->places);
    waiting.number = schedule->received++;
    waiting.place = schedule->free_places[--schedule->free_count];
    memcpy(message_at(schedule, waiting.place), message.data, message.size);
    push(&schedule->heaps[source.tenant], waiting);
    note_tenant(schedule, source.tenant);
    schedule->full += count + 1 == schedule->capacity ||
                      schedule->heaps[source.tenant].count == schedule->tenant_capacity;
    schedule->found_sum += count;
    if (count + 1 > schedule->waiting_max)
        schedule->waiting_max = count + 1;
    atomic_store_explicit(&schedule->count, count + 1, memory_order_relaxed);
    pthread_mutex_unlock(&schedule->lock);
}

size_t schedule_take(struct schedule *schedule, uint32_t tenants, uint8_t *buffer,
                     struct message_source *source, unsigned *priority, uint64_t now_ns,
                     uint64_t *waited_ns)
{
    pthread_mutex_lock(&schedule->lock);
    tenants &= schedule_tenants(schedule);
    if (tenants == 0) {
        pthread_mutex_unlock(&schedule->lock);
        return 0;
    }
    unsigned tenant = first_tenant(schedule, tenants);
    struct waiting first = pop(&schedule->heaps[tenant]);
    note_tenant(schedule, tenant);
    memcpy(buffer, message_at(schedule, first.place), first.size);
    schedule->free_places[schedule->free_count++] = first.place;
    /* Two workers' clocks were read in another order than they came here. */
    *waited_ns = now_ns > first.received_ns ? now_ns - first.received_ns : 0;
    histogram_record(&schedule->waits[first.priority / CLASS_PRIORITIES], *waited_ns);
    atomic_store_explicit(&schedule->count, schedule_waiting(schedule) - 1, memory_order_relaxed);
    pthread_mutex_unlock(&schedule->lock);
    *source = first.source;
    *priority = first.priority;
    return first.size;
}

void schedule_statistics(struct schedule *schedule, struct schedule_statistics *statistics)
{
    pthread_mutex_lock(&schedule->lock);
    *statistics = (struct schedule_statistics){
        .capacity = schedule->capacity,
        .waiting = schedule_waiting(schedule),
        .waiting_max = schedule->waiting_max,
        .waiting_mean =
            schedule->received ? (double)schedule->found_sum / (double)schedule->received : 0,
        .received = schedule->received,
        .full = schedule->full};
    memcpy(statistics->waits, schedule->waits, sizeof statistics->waits);
    pthread_mutex_unlock(&schedule->lock);
}
