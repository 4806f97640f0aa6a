#include "clientk/api/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/api/handle.h"
#include "clientk/base/handles.h"
#include "common/assert/assert.h"
#include "common/report/error.h"

#define NO_SLOT (-1)

/* A thread that waits for the leader of its combiner, which waits for the server, yields only once:
 * if all waiting threads ran once more, that would cost more than the one system call that wakes
 * them. */
#define FOLLOWER_YIELDS_MAX 1u

_Thread_local struct attachment *thread_attachments;

/* The value of this key only makes the destructor run when a thread ends. */
static pthread_key_t thread_end_key;

/* Layout: which combiners the threads own or share. All hold handles_lock ---------------------- */

static void update_layout(struct clientk *client)
{
    bool shared = client->shared;
    KV_ASSERT(handles_are_locked());
    if (client->thread_count > client->settings.combine_above)
        shared = true;
    else if (client->thread_count <= client->settings.combine_above / 2)
        shared = false;
    if (shared == client->shared)
        return;
    client->shared = shared;
    atomic_fetch_add(&client->layout_epoch, 1);
}

static void take_combiner_slot(struct clientk *client, struct attachment *attachment)
{
    KV_ASSERT(attachment->slot == NO_SLOT);
    for (unsigned i = 0; i < client->settings.combine_above; i++) {
        if (!client->slot_owners[i]) {
            client->slot_owners[i] = attachment;
            attachment->slot = (int)i;
            return;
        }
    }
}

static void leave_combiner_slot(struct clientk *client, struct attachment *attachment)
{
    if (attachment->slot != NO_SLOT)
        client->slot_owners[attachment->slot] = NULL;
    attachment->slot = NO_SLOT;
}

/* Decides which combiner the thread uses. */
static void choose_combiner(struct clientk *client, struct attachment *attachment)
{
    unsigned groups = client->settings.combine_groups;
    KV_ASSERT(handles_are_locked());
    if (client->shared) {
        /* A session that no thread uses would only take bytes that the user may have in queues. */
        if (attachment->slot >= (int)groups)
            combiner_retire(&client->combiners[attachment->slot]);
        leave_combiner_slot(client, attachment);
        attachment->combiner = &client->combiners[attachment->number % groups];
    } else {
        if (attachment->slot == NO_SLOT)
            take_combiner_slot(client, attachment);
        unsigned slot =
            attachment->slot == NO_SLOT ? attachment->number % groups : (unsigned)attachment->slot;
        attachment->combiner = &client->combiners[slot];
    }
    if (attachment->no_own)
        attachment->combiner = &client->combiners[0];
    KV_ASSERT(attachment->combiner < client->combiners + client->combiner_count);
    KV_ASSERT(attachment->slot == NO_SLOT || client->slot_owners[attachment->slot] == attachment);
}

static void detach_thread(struct clientk *client, struct attachment *attachment)
{
    KV_ASSERT(client->thread_count > 0);
    direct_readers_leave(&client->direct.readers, &attachment->reader);
    leave_combiner_slot(client, attachment);
    *attachment->link_of_client = attachment->next_of_client;
    if (attachment->next_of_client)
        attachment->next_of_client->link_of_client = attachment->link_of_client;
    client->thread_count--;
    update_layout(client);
}

/* Threads and forks --------------------------------------------------------------------------- */

/* The destructor of thread_end_key. */
static void thread_ends(void *head)
{
    (void)head;
    handles_lock();
    while (thread_attachments) {
        struct attachment *attachment = thread_attachments;
        struct clientk *client = atomic_load(&attachment->client);
        thread_attachments = attachment->next_of_thread;
        if (client)
            detach_thread(client, attachment);
        free(attachment);
    }
    handles_unlock();
}

enum kv_status threads_setup(struct kv_error *error)
{
    static bool has_key;
    if (!handles_setup())
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a handle");
    handles_lock();
    int failure = has_key ? 0 : pthread_key_create(&thread_end_key, thread_ends);
    has_key = failure == 0;
    handles_unlock();
    if (failure == 0)
        return KV_OK;
    return kv_error_set(
        error, failure == ENOMEM ? KV_NO_MEMORY : KV_LIMIT,
        "cannot see the end of threads: this process has no thread-specific key left "
        "(PTHREAD_KEYS_MAX)");
}

/* Frees the attachments that closed handles have left in the list of the calling thread. */
static void free_orphans(void)
{
    for (struct attachment **link = &thread_attachments; *link;) {
        struct attachment *attachment = *link;
        if (atomic_load(&attachment->client)) {
            link = &attachment->next_of_thread;
            continue;
        }
        *link = attachment->next_of_thread;
        free(attachment);
    }
}

static struct attachment *attach_thread(struct clientk *client)
{
    free_orphans();
    struct attachment *attachment = aligned_alloc(CACHE_LINE_BYTES, sizeof *attachment);
    if (attachment)
        memset(attachment, 0, sizeof *attachment);
    /* A thread whose end nobody sees would stay attached for ever. */
    if (!attachment || pthread_setspecific(thread_end_key, attachment) != 0) {
        free(attachment);
        return NULL;
    }
    atomic_init(&attachment->client, client);
    wire_waiter_init(&attachment->waiter, client->settings.spin);
    wire_waiter_limit_yields(&attachment->waiter, FOLLOWER_YIELDS_MAX);
    attachment->slot = NO_SLOT;

    handles_lock();
    attachment->number = client->next_number++;
    attachment->number_in_group = attachment->number / client->settings.combine_groups;
    attachment->next_of_client = client->attachments;
    attachment->link_of_client = &client->attachments;
    if (client->attachments)
        client->attachments->link_of_client = &attachment->next_of_client;
    client->attachments = attachment;
    direct_readers_join(&client->direct.readers, &attachment->reader);
    client->thread_count++;
    update_layout(client);
    attachment->epoch = atomic_load(&client->layout_epoch);
    choose_combiner(client, attachment);
    handles_unlock();

    attachment->next_of_thread = thread_attachments;
    thread_attachments = attachment;
    return attachment;
}

struct attachment *thread_find_attachment(struct clientk *client)
{
    struct attachment *attachment = thread_attachments;
    while (attachment && atomic_load_explicit(&attachment->client, memory_order_relaxed) != client)
        attachment = attachment->next_of_thread;
    if (!attachment)
        return attach_thread(client);
    if (attachment->epoch != atomic_load_explicit(&client->layout_epoch, memory_order_relaxed)) {
        handles_lock();
        attachment->epoch = atomic_load(&client->layout_epoch);
        choose_combiner(client, attachment);
        handles_unlock();
    }
    return attachment;
}

bool thread_share_first_combiner(struct attachment *attachment)
{
    struct clientk *client = atomic_load_explicit(&attachment->client, memory_order_relaxed);
    if (attachment->combiner == &client->combiners[0])
        return false;
    handles_lock();
    leave_combiner_slot(client, attachment);
    attachment->no_own = true;
    attachment->combiner = &client->combiners[0];
    handles_unlock();
    return true;
}

static bool is_of_this_thread(const struct attachment *attachment)
{
    const struct attachment *own = thread_attachments;
    while (own && own != attachment)
        own = own->next_of_thread;
    return own != NULL;
}

void threads_detach_all(struct clientk *client)
{
    handles_lock();
    bool forked = client->fork_generation != handles_fork_generation();
    while (client->attachments) {
        struct attachment *attachment = client->attachments;
        detach_thread(client, attachment);
        atomic_store(&attachment->client, NULL);
        /* The other threads of the parent are not there to do it. */
        if (forked && !is_of_this_thread(attachment))
            free(attachment);
    }
    handles_unlock();
    free_orphans();
}
