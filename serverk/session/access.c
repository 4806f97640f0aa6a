#include "serverk/session/access.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"

static struct access_user *find_user(const struct access *access, uid_t uid, bool reads_only)
{
    struct access_user *user = atomic_load(&access->users);
    while (user && (user->uid != uid || user->reads_only != reads_only))
        user = user->next;
    return user;
}

/* The rule of a user for whom there is no section any more. */
static const struct access_rule no_rights = {.subject = ACCESS_OTHERS};

/* Returns the rule for the user now; NULL: the user is not restricted. */
static const struct access_rule *rule_for(const struct access *access, uid_t uid)
{
    if (!access_rules_restrict(access->rules) || uid == geteuid() || uid == 0)
        return NULL;
    const struct access_rule *rule = access_rules_find(access->rules, uid);
    return rule ? rule : &no_rights;
}

enum kv_status access_enter(struct access *access, uid_t uid, bool reads_only,
                            struct access_user **user, struct kv_error *error)
{
    *user = NULL;
    KV_ASSERT(!access || mutex_is_held(&access->lock));
    const struct access_rule *rule = access ? rule_for(access, uid) : NULL;
    if (!access || (!rule && !reads_only))
        return KV_OK;
    if (rule == &no_rights)
        return kv_error_set(error, KV_DENIED,
                            "%s has no section for uid %lu ([user NAME], [group NAME] or [others])",
                            access->file, (unsigned long)uid);
    *user = find_user(access, uid, reads_only);
    if (*user)
        return KV_OK;
    if (access->count == ACCESS_MAX_USERS)
        return kv_error_set(error, KV_LIMIT, "%u users have had sessions here; no more can come",
                            ACCESS_MAX_USERS);
    struct access_user *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "the server has no memory for a session");
    created->uid = uid;
    created->reads_only = reads_only;
    created->access = access;
    created->rule = rule;
    created->next = atomic_load(&access->users);
    atomic_store(&access->users, created);
    access->count++;
    *user = created;
    return KV_OK;
}

/* Begins to look at the user's rule. Returns the number of the counter, for leave_rules. */
static unsigned enter_rules(struct access_user *user)
{
    for (;;) {
        unsigned epoch = atomic_load(&user->access->epoch) & 1;
        atomic_fetch_add(&user->lookers[epoch], 1);
        if ((atomic_load(&user->access->epoch) & 1) == epoch)
            return epoch;
        atomic_fetch_sub(&user->lookers[epoch], 1);
    }
}

static void leave_rules(struct access_user *user, unsigned epoch)
{
    unsigned before = atomic_fetch_sub(&user->lookers[epoch], 1);
    KV_ASSERT(before > 0);
}

unsigned access_max_sessions(const struct access_user *user)
{
    const struct access_rule *rule = user ? atomic_load(&user->rule) : NULL;
    return rule ? rule->sessions : 0;
}

void access_replace(struct access *access, const struct access_rules *rules)
{
    KV_ASSERT(mutex_is_held(&access->lock));
    access->rules = rules;
    for (struct access_user *user = atomic_load(&access->users); user; user = user->next)
        atomic_store(&user->rule, rule_for(access, user->uid));
    /* A look takes a microsecond, or as long as its thread waits for a CPU. */
    unsigned epoch = atomic_fetch_add(&access->epoch, 1) & 1;
    for (struct access_user *user = atomic_load(&access->users); user; user = user->next)
        while (atomic_load(&user->lookers[epoch]) != 0)
            clock_sleep_ms(1);
}

void access_free(struct access *access)
{
    for (struct access_user *user = atomic_load(&access->users), *next; user; user = next) {
        KV_ASSERT(atomic_load(&user->lookers[0]) == 0 && atomic_load(&user->lookers[1]) == 0);
        next = user->next;
        free(user);
    }
    atomic_store(&access->users, NULL);
    access->count = 0;
}

static bool key_has_prefix(struct kv_slice key, const struct access_prefix *prefix)
{
    return key.size >= prefix->size &&
           (prefix->size == 0 || memcmp(key.data, prefix->bytes, prefix->size) == 0);
}

static bool may(const struct access_rule *rule, struct kv_slice key, bool write)
{
    for (unsigned i = 0; i < rule->prefix_count; i++)
        if ((rule->prefixes[i].may_write || !write) && key_has_prefix(key, &rule->prefixes[i]))
            return true;
    return false;
}

bool access_may_read(struct access_user *user, struct kv_slice key)
{
    if (!user)
        return true;
    unsigned epoch = enter_rules(user);
    const struct access_rule *rule = atomic_load(&user->rule);
    bool readable = !rule || may(rule, key, false);
    leave_rules(user, epoch);
    return readable;
}

static struct kv_slice prefix_slice(const struct access_prefix *prefix)
{
    return kv_slice(prefix->bytes, prefix->size);
}

int access_compare_keys(struct kv_slice a, struct kv_slice b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Returns whether another prefix of the rule has all keys of this one. */
static bool is_within_another(const struct access_rule *rule, struct kv_slice prefix)
{
    for (unsigned i = 0; i < rule->prefix_count; i++)
        if (rule->prefixes[i].size < prefix.size && key_has_prefix(prefix, &rule->prefixes[i]))
            return true;
    return false;
}

/* Finds how much of `before`, whose keys have been given, is left as the place where to go on below
 * `prefix`, with which it begins: 0: nowhere. Forward that is where `before` ends: the last byte
 * of what is left has to be one more. */
static size_t find_edge(bool reverse, struct kv_slice before, struct kv_slice prefix)
{
    const uint8_t *bytes = before.data;
    size_t size = before.size;
    while (!reverse && size > prefix.size && bytes[size - 1] == UINT8_MAX)
        size--;
    return size > prefix.size ? size : 0;
}

/* Finds the part of the rule (NULL: all keys) behind those that begin with `before`: a prefix that
 * has none of these, or the rest of one that has them all, since the rule is another one now;
 * *edge_bytes is then what is left of `before`, else 0. */
static bool find_next_part(const struct access_rule *rule, bool reverse, struct kv_slice before,
                           struct kv_slice *next, size_t *edge_bytes)
{
    static const struct access_rule all = {.prefixes = {{.size = 0}}, .prefix_count = 1};
    bool found = false;
    if (!rule)
        rule = &all;
    for (unsigned i = 0; i < rule->prefix_count; i++) {
        struct kv_slice prefix = prefix_slice(&rule->prefixes[i]);
        if (is_within_another(rule, prefix) || prefix.size > WIRE_MAX_KEY_BYTES)
            continue;
        if (before.data && kv_slice_has_prefix(before, prefix)) {
            *edge_bytes = find_edge(reverse, before, prefix);
            if (*edge_bytes == 0)
                continue;
            *next = prefix;
            return true;
        }
        int order = before.data ? access_compare_keys(prefix, before) : 0;
        bool follows = !before.data ||
                       ((reverse ? order < 0 : order > 0) && !kv_slice_has_prefix(prefix, before));
        if (!follows)
            continue;
        if (!found || (access_compare_keys(prefix, *next) < 0) != reverse)
            *next = prefix;
        found = true;
    }
    return found;
}

bool access_next_part(struct access_user *user, bool reverse, uint8_t *room,
                      struct access_part *part)
{
    struct kv_slice before = part->prefix, next = kv_slice(NULL, 0);
    size_t edge_bytes = 0;
    *part = (struct access_part){.prefix = kv_slice(room, 0)};
    if (!user)
        return !before.data;
    unsigned epoch = enter_rules(user);
    bool found = find_next_part(atomic_load(&user->rule), reverse, before, &next, &edge_bytes);
    if (found && next.size > 0)
        memmove(room, next.data, next.size);
    leave_rules(user, epoch);
    part->prefix.size = next.size;
    part->edge = kv_slice(room, edge_bytes);
    if (edge_bytes > 0 && !reverse)
        room[edge_bytes - 1]++;
    return found;
}

bool access_may_write_range(struct access_user *user, struct kv_slice from, struct kv_slice to,
                            struct kv_slice prefix)
{
    if (!user)
        return true;
    unsigned epoch = enter_rules(user);
    const struct access_rule *rule = atomic_load(&user->rule);
    bool permitted = !rule && !user->reads_only;
    for (unsigned i = 0; rule && !user->reads_only && i < rule->prefix_count; i++) {
        const struct access_prefix *allowed = &rule->prefixes[i];
        bool within = key_has_prefix(prefix, allowed) ||
                      (key_has_prefix(from, allowed) && key_has_prefix(to, allowed));
        permitted |= allowed->may_write && within;
    }
    leave_rules(user, epoch);
    return permitted;
}

/* Returns whether the operation is one of a user who may only read, whichever keys. */
static bool is_read_opcode(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_GET || opcode == WIRE_OP_EXISTS || opcode == WIRE_OP_SCAN ||
           opcode == WIRE_OP_WATCH || opcode == WIRE_OP_STATS || opcode == WIRE_OP_PING ||
           opcode == WIRE_OP_RANGE || opcode == WIRE_OP_RANGE_COUNT ||
           opcode == WIRE_OP_TRANSACT; /* its keys are checked one by one */
}

static bool rule_permits(const struct access_rule *rule, const struct wire_operation *operation)
{
    switch (operation->opcode) {
    case WIRE_OP_GET:
    case WIRE_OP_EXISTS:
        return may(rule, operation->key, false);
    case WIRE_OP_PUT:
    case WIRE_OP_DELETE:
    case WIRE_OP_ADD:
    case WIRE_OP_APPEND:
    case WIRE_OP_EXCHANGE:
    case WIRE_OP_TOUCH:
        return may(rule, operation->key, true);
    case WIRE_OP_TRANSACT:     /* access_check_key */
    case WIRE_OP_RANGE_DELETE: /* access_may_write_range, and access_check_key */
    case WIRE_OP_RANGE:        /* access_next_part */
    case WIRE_OP_RANGE_COUNT:
    case WIRE_OP_SCAN: /* shows what may be read */
    case WIRE_OP_WATCH:
    case WIRE_OP_PING:
    case WIRE_OP_SYNC:
        return true;
    case WIRE_OP_STATS: /* names keys and users */
    case WIRE_OP_BACKUP:
    case WIRE_OP_ADMIN:
        return false;
    }
    return false;
}

static bool is_rule_permitting(const struct access_user *user, const struct access_rule *rule,
                               const struct wire_operation *operation)
{
    return (!user->reads_only || is_read_opcode(operation->opcode)) &&
           (!rule || rule_permits(rule, operation));
}

/* Two threads at the turn of a second may grant some more. */
static bool is_over_quota(struct access_user *user, const struct access_rule *rule)
{
    uint64_t second = clock_monotonic_coarse_ms() / 1000;
    if (!rule || rule->operations_s == 0)
        return false;
    if (atomic_load_explicit(&user->second, memory_order_relaxed) != second) {
        atomic_store_explicit(&user->second, second, memory_order_relaxed);
        atomic_store_explicit(&user->used, 0, memory_order_relaxed);
    }
    return atomic_fetch_add_explicit(&user->used, 1, memory_order_relaxed) >= rule->operations_s;
}

static enum kv_status count_verdict(struct access_user *user, bool permitted)
{
    if (permitted)
        return KV_OK;
    atomic_fetch_add_explicit(&user->denied, 1, memory_order_relaxed);
    return KV_DENIED;
}

static enum kv_status check_permission(struct access_user *user, const struct access_rule *rule,
                                       const struct wire_operation *operation)
{
    return count_verdict(user, is_rule_permitting(user, rule, operation));
}

enum kv_status access_check(struct access_user *user, const struct wire_operation *operation)
{
    atomic_fetch_add_explicit(&user->operations, 1, memory_order_relaxed);
    unsigned epoch = enter_rules(user);
    const struct access_rule *rule = atomic_load(&user->rule);
    enum kv_status status = KV_QUOTA;
    if (is_over_quota(user, rule))
        atomic_fetch_add_explicit(&user->over_quota, 1, memory_order_relaxed);
    else
        status = check_permission(user, rule, operation);
    leave_rules(user, epoch);
    return status;
}

enum kv_status access_check_key(struct access_user *user, struct kv_slice key, bool writes)
{
    unsigned epoch = enter_rules(user);
    const struct access_rule *rule = atomic_load(&user->rule);
    bool over_quota = is_over_quota(user, rule);
    bool permitted = !(user->reads_only && writes) && (!rule || may(rule, key, writes));
    leave_rules(user, epoch);
    if (over_quota)
        atomic_fetch_add_explicit(&user->over_quota, 1, memory_order_relaxed);
    return over_quota ? KV_QUOTA : count_verdict(user, permitted);
}

enum kv_status access_check_again(struct access_user *user, const struct wire_operation *operation)
{
    unsigned epoch = enter_rules(user);
    enum kv_status status = check_permission(user, atomic_load(&user->rule), operation);
    leave_rules(user, epoch);
    return status;
}
