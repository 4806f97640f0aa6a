#include "bridges/kresp/channels/tracking_table.h"

#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/channels/channel_tree.h"

/* What a read takes besides the name of its key, which counts twice: it and its key, as malloc and
 * the trees have them. */
#define READ_BYTES 320u

/* When buffers are short, each new read takes the place of so many. */
#define FORGOTTEN_AT_ONCE 2u

#define LEFT_AT_ONCE 64u

/* A client has read the key, and was not told since that it has changed. */
struct tracked_read {
    struct kv_slice name; /* the key's; first: trees compare it */
    struct tracked_key *key;
    struct tracked_client *client;
    struct tracked_read *previous_of_key, *next_of_key;
    struct tracked_read *older, *newer; /* of the user's */
};

/* A key that somebody has read. */
struct tracked_key {
    struct kv_slice name; /* first: trees compare it */
    struct tracked_read *first;
};

void tracked_client_init(struct tracked_client *client, struct redis_inbox *inbox,
                         struct tracking_share *share, struct buffer_owner *owner)
{
    *client = (struct tracked_client){.inbox = inbox, .share = share, .untold.owner = owner};
}

/* Reads: all under the lock -------------------------------------------------------------------- */

static void join_key(struct tracked_read *read, struct tracked_key *key)
{
    read->key = key;
    read->next_of_key = key->first;
    if (key->first)
        key->first->previous_of_key = read;
    key->first = read;
}

static void leave_key(struct tracking_table *table, struct tracked_read *read)
{
    struct tracked_key *key = read->key;
    if (read->previous_of_key)
        read->previous_of_key->next_of_key = read->next_of_key;
    else
        key->first = read->next_of_key;
    if (read->next_of_key)
        read->next_of_key->previous_of_key = read->previous_of_key;
    if (key->first)
        return;
    channel_tree_remove(&table->keys, key);
    table->key_count--;
    free(key);
}

static void join_share(struct tracked_read *read, struct tracking_share *share)
{
    read->older = share->newest;
    if (share->newest)
        share->newest->newer = read;
    else
        share->oldest = read;
    share->newest = read;
    share->reads++;
}

static void leave_share(struct tracked_read *read, struct tracking_share *share)
{
    if (read->older)
        read->older->newer = read->newer;
    else
        share->oldest = read->newer;
    if (read->newer)
        read->newer->older = read->older;
    else
        share->newest = read->older;
    share->reads--;
}

static void forget_read(struct tracking_table *table, struct tracked_read *read)
{
    struct tracked_client *client = read->client;
    size_t bytes = READ_BYTES + 2 * read->name.size;
    channel_tree_remove(&client->reads, read);
    leave_share(read, client->share);
    leave_key(table, read);
    table->read_count--;
    buffer_owner_give_back(client->untold.owner, bytes);
    free(read);
}

/* Returns the key; makes it if there is none. NULL: no memory. */
static struct tracked_key *key_of(struct tracking_table *table, struct kv_slice name)
{
    struct tracked_key *key = channel_tree_find(&table->keys, name);
    if (!key && (key = channel_tree_make(&table->keys, sizeof *key, name)) != NULL)
        table->key_count++;
    return key;
}

/* False: no memory, and nothing has changed. */
static bool add_tracked_read(struct tracking_table *table, struct tracked_client *client,
                             struct kv_slice name)
{
    size_t bytes = READ_BYTES + 2 * name.size;
    if (!buffer_owner_take(client->untold.owner, bytes))
        return false;
    struct tracked_read *read = calloc(1, sizeof *read);
    struct tracked_key *key = read ? key_of(table, name) : NULL;
    if (key) {
        read->client = client;
        read->name = key->name;
        join_key(read, key);
        if (channel_tree_add(&client->reads, read)) {
            join_share(read, client->share);
            table->read_count++;
            return true;
        }
        leave_key(table, read);
    }
    free(read);
    buffer_owner_give_back(client->untold.owner, bytes);
    return false;
}

/* Telling: all under the lock ------------------------------------------------------------------ */

/* What it has read stays: to be told of that once more harms nobody, and this takes no time. */
static void lose_everything(struct tracking_table *table, struct tracked_client *client)
{
    byte_buffer_free(&client->untold);
    client->has_lost = true;
    redis_channels_ring(table->channels, client->inbox);
}

static void tell_client(struct tracking_table *table, struct tracked_client *client,
                        struct kv_slice key, uint64_t version)
{
    const struct untold_change change = {.version = version, .size = key.size};
    struct byte_buffer *untold = &client->untold;
    if (client->has_lost)
        return;
    byte_buffer_append(untold, &change, sizeof change);
    byte_buffer_append(untold, key.data, key.size);
    if (untold->failed || byte_buffer_size(untold) > TRACKING_UNTOLD_BYTES)
        lose_everything(table, client);
    else
        redis_channels_ring(table->channels, client->inbox);
}

/* The client of the read is told as if its key had changed. */
static void give_up_read(struct tracking_table *table, struct tracked_read *read)
{
    tell_client(table, read->client, read->name, 0);
    forget_read(table, read);
}

/* Returns true if the oldest reads of the client's user have to go. */
static bool has_too_many(const struct tracked_client *client)
{
    size_t reads = client->share->reads;
    return reads >= TRACKING_READS_OF_USER ||
           (reads > TRACKING_LEAST_READS && byte_buffer_is_short(&client->untold));
}

static bool wants_by_prefix(const struct tracked_client *client, struct kv_slice key)
{
    for (const struct tracked_prefix *prefix = client->prefixes; prefix; prefix = prefix->next)
        if (kv_slice_has_prefix(key, prefix->name))
            return true;
    return false;
}

/* From outside --------------------------------------------------------------------------------- */

void tracking_table_enter(struct tracking_table *table, struct tracked_client *client,
                          bool is_broadcast)
{
    pthread_mutex_lock(&table->lock);
    struct tracked_client **list = &table->clients[is_broadcast];
    client->is_listed = true;
    client->is_broadcast = is_broadcast;
    client->previous = NULL;
    client->next = *list;
    if (*list)
        (*list)->previous = client;
    *list = client;
    table->client_count++;
    pthread_mutex_unlock(&table->lock);
}

void tracking_table_leave(struct tracking_table *table, struct tracked_client *client)
{
    if (!client->is_listed)
        return;
    pthread_mutex_lock(&table->lock);
    if (client->previous)
        client->previous->next = client->next;
    else
        table->clients[client->is_broadcast] = client->next;
    if (client->next)
        client->next->previous = client->previous;
    client->is_listed = false;
    table->client_count--;
    while (client->prefixes) {
        struct tracked_prefix *prefix = client->prefixes;
        client->prefixes = prefix->next;
        buffer_owner_give_back(client->untold.owner, sizeof *prefix + prefix->name.size);
        free(prefix);
        client->share->prefixes--;
        table->prefix_count--;
    }
    for (unsigned i = 1; client->reads; i++) {
        /* The first field of a node is the element. */
        forget_read(table, *(struct tracked_read **)client->reads);
        if (i % LEFT_AT_ONCE == 0) { /* others need not wait for all of them */
            pthread_mutex_unlock(&table->lock);
            pthread_mutex_lock(&table->lock);
        }
    }
    byte_buffer_free(&client->untold); /* now nobody tells the client of a read any more */
    client->has_lost = false;
    pthread_mutex_unlock(&table->lock);
}

bool tracking_table_add_prefix(struct tracking_table *table, struct tracked_client *client,
                               struct kv_slice prefix)
{
    size_t bytes = sizeof(struct tracked_prefix) + prefix.size;
    struct tracked_prefix *added = NULL;
    pthread_mutex_lock(&table->lock);
    if (client->share->prefixes < TRACKING_PREFIXES_OF_USER &&
        buffer_owner_take(client->untold.owner, bytes)) {
        added = calloc(1, bytes);
        if (!added)
            buffer_owner_give_back(client->untold.owner, bytes);
    }
    if (added) {
        if (prefix.size > 0)
            memcpy(added->bytes, prefix.data, prefix.size);
        added->name = kv_slice(added->bytes, prefix.size);
        added->next = client->prefixes;
        client->prefixes = added;
        client->share->prefixes++;
        table->prefix_count++;
    }
    pthread_mutex_unlock(&table->lock);
    return added != NULL;
}

void tracking_table_remember(struct tracking_table *table, struct tracked_client *client,
                             struct kv_slice key)
{
    struct tracking_share *share = client->share;
    pthread_mutex_lock(&table->lock);
    if (!channel_tree_find(&client->reads, key)) {
        for (unsigned i = 0; i < FORGOTTEN_AT_ONCE && has_too_many(client); i++)
            give_up_read(table, share->oldest);
        if (!add_tracked_read(table, client, key))
            lose_everything(table, client);
    }
    pthread_mutex_unlock(&table->lock);
}

void tracking_table_tell(struct tracking_table *table, struct kv_slice key, uint64_t version)
{
    pthread_mutex_lock(&table->lock);
    struct tracked_key *found = channel_tree_find(&table->keys, key);
    while (found) {
        struct tracked_read *read = found->first;
        struct tracked_client *client = read->client;
        if (!read->next_of_key)
            found = NULL; /* it goes with its last read */
        forget_read(table, read);
        tell_client(table, client, key, version);
    }
    struct tracked_client *client = table->clients[true];
    for (; client; client = client->next)
        if (wants_by_prefix(client, key))
            tell_client(table, client, key, version);
    pthread_mutex_unlock(&table->lock);
}

void tracking_table_tell_all(struct tracking_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (unsigned kind = 0; kind < 2; kind++)
        for (struct tracked_client *client = table->clients[kind]; client; client = client->next)
            lose_everything(table, client);
    pthread_mutex_unlock(&table->lock);
}

bool tracking_table_take(struct tracking_table *table, struct tracked_client *client,
                         struct byte_buffer *untold)
{
    pthread_mutex_lock(&table->lock);
    bool has_lost = client->has_lost;
    struct byte_buffer empty = *untold;
    *untold = client->untold;
    client->untold = empty;
    client->has_lost = false;
    pthread_mutex_unlock(&table->lock);
    return has_lost;
}

struct tracking_counts tracking_table_count(struct tracking_table *table)
{
    pthread_mutex_lock(&table->lock);
    struct tracking_counts counts = {.clients = table->client_count,
                                     .keys = table->key_count,
                                     .reads = table->read_count,
                                     .prefixes = table->prefix_count};
    pthread_mutex_unlock(&table->lock);
    return counts;
}
