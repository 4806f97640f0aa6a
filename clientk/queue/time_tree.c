#include "clientk/queue/time_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"

#define MOMENT_MS     16u
#define MOMENT_BYTES  16u
#define LEVELS        4u
#define LEVEL_BITS    10u
#define NODE_CHILDREN (1u << LEVEL_BITS)
#define NODE_WORDS    (NODE_CHILDREN / 64u)
#define NODE_BYTES    (NODE_CHILDREN / 8u)

/* One change enters one moment at most, and leaves one. */
#define CHANGED_NODES (2u * LEVELS)

struct time_node {
    unsigned level; /* 0: the root */
    uint64_t path;  /* the bits of a moment's number that lead to it */
    uint64_t version;
    bool changed;
    uint64_t children[NODE_WORDS];
};

struct time_node *time_nodes_new(void)
{
    return calloc(CHANGED_NODES, sizeof(struct time_node));
}

void time_nodes_free(struct time_node *nodes)
{
    free(nodes);
}

uint64_t time_moment_of(uint64_t due_ms)
{
    return due_ms / MOMENT_MS + (due_ms % MOMENT_MS != 0);
}

uint64_t time_of_moment(uint64_t number)
{
    return number * MOMENT_MS;
}

/* Nodes ---------------------------------------------------------------------------------------- */

static struct kv_slice node_key(struct queue_plan *plan, const struct time_node *node)
{
    if (node->level == 0)
        return plan_key(plan, "tree");
    return plan_key(plan, "tree:%u:%" PRIx64, node->level, node->path);
}

static enum kv_status node_read(struct clientk_queue *queue, struct time_node *node)
{
    plan_begin(&queue->look);
    enum kv_status status = clientk_get(queue->client, node_key(&queue->look, node), &queue->value);
    memset(node->children, 0, sizeof node->children);
    node->version = 0;
    node->changed = false;
    if (status == KV_NOT_FOUND)
        return KV_OK;
    if (status != KV_OK)
        return status;
    if (queue->value.size != NODE_BYTES)
        return queue_refuse(KV_CORRUPT, "the times of the queue are malformed");
    node->version = queue->value.version;
    for (unsigned i = 0; i < NODE_WORDS; i++)
        node->children[i] = load_u64((const uint8_t *)queue->value.data + 8u * i);
    return KV_OK;
}

static bool node_is_empty(const struct time_node *node)
{
    for (unsigned i = 0; i < NODE_WORDS; i++)
        if (node->children[i])
            return false;
    return true;
}

/* Returns the first child from `from` on; NODE_CHILDREN: there is none. */
static unsigned node_next_child(const struct time_node *node, unsigned from)
{
    for (unsigned i = from / 64u; i < NODE_WORDS; i++) {
        uint64_t word = node->children[i];
        if (i == from / 64u)
            word &= ~UINT64_C(0) << (from % 64u);
        if (word)
            return 64u * i + (unsigned)__builtin_ctzll(word);
    }
    return NODE_CHILDREN;
}

/* The bits of the number of a moment that lead to its node of a level, and to the child there. */
static uint64_t path_to(uint64_t moment, unsigned level)
{
    return moment >> (LEVEL_BITS * (LEVELS - level));
}

static unsigned child_of(uint64_t moment, unsigned level)
{
    return (unsigned)(moment >> (LEVEL_BITS * (LEVELS - 1 - level))) & (NODE_CHILDREN - 1);
}

/* Finding -------------------------------------------------------------------------------------- */

/* A whole tree has no node without children: at most those on the way to `from` have none behind
 * it. Somebody who may write the queue's entries can make any number, and each is a read. */
#define ENDED_NODES_MOST 64u

enum kv_status time_find(struct clientk_queue *queue, uint64_t from, bool *found, uint64_t *number)
{
    *found = false;
    unsigned level = 0, ended = 0;
    while (!(from >> (LEVELS * LEVEL_BITS))) {
        struct time_node node = {.level = level, .path = path_to(from, level)};
        enum kv_status status = node_read(queue, &node);
        if (status != KV_OK)
            return status;
        unsigned child = node_next_child(&node, child_of(from, level));
        unsigned shift = LEVEL_BITS * (LEVELS - 1 - level);
        if (child == NODE_CHILDREN) { /* the next node of this level, from its parent on */
            if (level == 0)
                return KV_OK;
            if (++ended > ENDED_NODES_MOST)
                return queue_refuse(KV_CORRUPT, "the times of the queue are malformed");
            from = (node.path + 1) << (shift + LEVEL_BITS);
            level--;
            continue;
        }
        uint64_t first = (node.path << LEVEL_BITS | child) << shift;
        from = first > from ? first : from;
        if (level == LEVELS - 1) {
            *number = from;
            *found = true;
            return KV_OK;
        }
        level++;
    }
    return KV_OK;
}

struct kv_slice time_moment_key(struct queue_plan *plan, uint64_t number)
{
    return plan_key(plan, "time:%" PRIx64, number);
}

enum kv_status time_read_moment(struct clientk_queue *queue, uint64_t number,
                                struct time_moment *moment)
{
    *moment = (struct time_moment){.number = number};
    plan_begin(&queue->look);
    enum kv_status status =
        clientk_get(queue->client, time_moment_key(&queue->look, number), &queue->value);
    if (status == KV_NOT_FOUND)
        return KV_OK;
    if (status != KV_OK)
        return status;
    if (queue->value.size != MOMENT_BYTES)
        return queue_refuse(KV_CORRUPT, "a time of the queue is malformed");
    moment->version = queue->value.version;
    moment->tail = load_u64(queue->value.data);
    moment->head = load_u64((const uint8_t *)queue->value.data + 8);
    if (moment->head >= moment->tail || moment->tail - moment->head > QUEUE_MOST_DUE)
        return queue_refuse(KV_CORRUPT, "a time of the queue is malformed");
    return KV_OK;
}

#define FULL_MOMENTS 1000u

enum kv_status time_read_room(struct clientk_queue *queue, uint64_t number, size_t count,
                              struct time_moment *moment)
{
    for (uint64_t i = 0; i < FULL_MOMENTS; i++) {
        enum kv_status status = time_read_moment(queue, number + i, moment);
        if (status != KV_OK || moment->tail - moment->head + count <= QUEUE_MOST_DUE)
            return status;
    }
    return queue_refuse(KV_OVERLOADED, "too many jobs of the queue are due at that time");
}

struct kv_slice time_due_key(struct queue_plan *plan, uint64_t moment, uint64_t number)
{
    return plan_key(plan, "due:%" PRIx64 ":%" PRIu64, moment, number);
}

/* Changing ------------------------------------------------------------------------------------- */

void time_change_begin(struct clientk_queue *queue)
{
    queue->node_count = 0;
}

/* Returns the node of a level on the way to the moment, as this change has made it, in *node. */
static enum kv_status node_to_change(struct clientk_queue *queue, uint64_t moment, unsigned level,
                                     struct time_node **node)
{
    uint64_t path = path_to(moment, level);
    for (size_t i = 0; i < queue->node_count; i++) {
        *node = &queue->nodes[i];
        if ((*node)->level == level && (*node)->path == path)
            return KV_OK;
    }
    KV_ASSERT(queue->node_count < CHANGED_NODES);
    *node = &queue->nodes[queue->node_count++];
    **node = (struct time_node){.level = level, .path = path};
    return node_read(queue, *node);
}

/* Enters the moment: a node that was not empty is known to its parent. */
static enum kv_status tree_enter(struct clientk_queue *queue, uint64_t moment)
{
    for (unsigned level = LEVELS; level-- > 0;) {
        struct time_node *node;
        enum kv_status status = node_to_change(queue, moment, level, &node);
        if (status != KV_OK)
            return status;
        bool was_empty = node_is_empty(node);
        unsigned child = child_of(moment, level);
        node->children[child / 64u] |= UINT64_C(1) << (child % 64u);
        node->changed = true;
        if (!was_empty)
            break;
    }
    return KV_OK;
}

static enum kv_status tree_leave(struct clientk_queue *queue, uint64_t moment)
{
    for (unsigned level = LEVELS; level-- > 0;) {
        struct time_node *node;
        enum kv_status status = node_to_change(queue, moment, level, &node);
        if (status != KV_OK)
            return status;
        unsigned child = child_of(moment, level);
        node->children[child / 64u] &= ~(UINT64_C(1) << (child % 64u));
        node->changed = true;
        if (!node_is_empty(node))
            break;
    }
    return KV_OK;
}

void time_change_end(struct clientk_queue *queue)
{
    for (size_t i = 0; i < queue->node_count; i++) {
        const struct time_node *node = &queue->nodes[i];
        if (!node->changed)
            continue;
        struct kv_slice key = node_key(&queue->plan, node);
        plan_guard_version(&queue->plan, key, node->version);
        uint8_t bytes[NODE_BYTES];
        for (unsigned word = 0; word < NODE_WORDS; word++)
            store_u64(bytes + 8u * word, node->children[word]);
        if (!node_is_empty(node))
            plan_put_copy(&queue->plan, key, kv_slice(bytes, NODE_BYTES));
        else if (node->version > 0)
            plan_delete(&queue->plan, key);
    }
}

static void put_moment(struct clientk_queue *queue, struct kv_slice key,
                       const struct time_moment *moment)
{
    uint8_t bytes[MOMENT_BYTES];
    store_u64(bytes, moment->tail);
    store_u64(bytes + 8, moment->head);
    plan_put_copy(&queue->plan, key, kv_slice(bytes, MOMENT_BYTES));
}

enum kv_status time_append(struct clientk_queue *queue, struct time_moment *moment,
                           const struct job_record *records, size_t count)
{
    struct kv_slice key = time_moment_key(&queue->plan, moment->number);
    plan_guard_version(&queue->plan, key, moment->version);
    for (size_t i = 0; i < count; i++)
        queue_put_record(queue, time_due_key(&queue->plan, moment->number, moment->tail++),
                         &records[i]);
    put_moment(queue, key, moment);
    return moment->version == 0 ? tree_enter(queue, moment->number) : KV_OK;
}

enum kv_status time_remove(struct clientk_queue *queue, const struct time_moment *moment,
                           size_t count)
{
    KV_ASSERT(moment->version > 0 && count <= moment->tail - moment->head);
    struct kv_slice key = time_moment_key(&queue->plan, moment->number);
    plan_guard_version(&queue->plan, key, moment->version);
    struct time_moment left = *moment;
    left.head += count;
    if (left.head == left.tail) {
        plan_delete(&queue->plan, key);
        return tree_leave(queue, moment->number);
    }
    put_moment(queue, key, &left);
    return KV_OK;
}

enum kv_status time_leave(struct clientk_queue *queue, uint64_t number)
{
    time_change_begin(queue);
    enum kv_status status = tree_leave(queue, number);
    if (status == KV_OK)
        time_change_end(queue);
    return status;
}

enum kv_status time_forget(struct clientk_queue *queue, uint64_t number)
{
    bool done;
    plan_begin(&queue->plan);
    plan_guard_version(&queue->plan, time_moment_key(&queue->plan, number), 0);
    enum kv_status status = time_leave(queue, number);
    if (status != KV_OK)
        return status;
    return plan_run(&queue->plan, queue->client, queue->options.durability, &done);
}
