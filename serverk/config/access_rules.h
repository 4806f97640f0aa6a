/*
 * access_rules: what the configuration file says about users and about keys that begin alike:
 *
 *     [user NAME] [group NAME] [others]   read, write: prefixes of keys, "*" for all;
 *                                         sessions, operations (per second);
 *                                         max-bytes, max-keys: of all keys below its write
 *                                         prefixes together
 *     [quota PREFIX]                      max-bytes, max-keys
 *
 * As soon as there is a section about users, those that no section is about may do nothing. The
 * daemon's own user and root are not restricted. Names are resolved when the file is read: members
 * of a group are its users then.
 */
#ifndef MQKV_SERVERK_CONFIG_ACCESS_RULES_H
#define MQKV_SERVERK_CONFIG_ACCESS_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "mqkv/kvstore.h"

#define ACCESS_MAX_RULES    128u
#define ACCESS_MAX_PREFIXES 32u

enum access_subject { ACCESS_USER, ACCESS_GROUP, ACCESS_OTHERS };

/* What the user may do to keys that begin with `bytes`. */
struct access_prefix {
    char *bytes;
    size_t size;
    bool may_write; /* else read only; a user that may write may read */
};

struct access_rule {
    enum access_subject subject;
    char *name;  /* as the section has it */
    uid_t *uids; /* of a user: one; of a group: its members */
    size_t uid_count;
    struct access_prefix prefixes[ACCESS_MAX_PREFIXES];
    unsigned prefix_count;
    unsigned sessions;            /* 0: as without a rule */
    uint64_t operations_s;        /* per second; 0: any number */
    uint64_t max_bytes, max_keys; /* of the keys below its prefixes; 0: no limit */
    unsigned quota_line;          /* where one of these stands */
    unsigned quota;               /* the first of its own; only with one of these */
};

struct access_rules {
    struct access_rule rules[ACCESS_MAX_RULES];
    unsigned rule_count;
    struct kvstore_quota quotas[KVSTORE_MAX_QUOTAS]; /* group: number of the rule, from 1 on */
    unsigned quota_count;
    char *text; /* the sections, as they were read: to be shown and compared */
};

/* Returns whether a section of the name `section` is about users or quotas. */
bool access_rules_know(const char *section);

/* Takes the line `name` = `value`, number *line of the file, of such a section into *rules, which
 * it makes if they are NULL. KV_OK; KV_USAGE, KV_NO_MEMORY with a sentence; if the section itself
 * is what is wrong, *line is then its own, section_line. */
enum kv_status access_rules_take(struct access_rules **rules, const char *section, const char *name,
                                 const char *value, unsigned section_line, unsigned *line,
                                 struct kv_error *error);

/* Makes the quotas of users; to be called after the last line. KV_USAGE with a sentence, about line
 * *line. rules NULL is harmless. */
enum kv_status access_rules_finish(struct access_rules *rules, unsigned *line,
                                   struct kv_error *error);

/* From now on, users and groups that the system does not know are those that `known` found under
 * the same name: a daemon in its sandbox sees fewer (user_names.h). NULL: there are none.
 * Borrowed. */
void access_rules_remember(const struct access_rules *known);

/* NULL is harmless. */
void access_rules_free(struct access_rules *rules);

/* Returns the rule for the user `uid`: its own, else that of the first group that it is in, else
 * that of others; NULL: there is none. */
const struct access_rule *access_rules_find(const struct access_rules *rules, uid_t uid);

/* "user", "group", "others". */
const char *access_subject_name(enum access_subject subject);

/* Returns the rule that the quota number `quota` is of; NULL: the quota has a section of its
 * own. */
static inline const struct access_rule *access_quota_rule(const struct access_rules *rules,
                                                          unsigned quota)
{
    uint64_t group = rules->quotas[quota].group;
    return group > 0 ? &rules->rules[group - 1] : NULL;
}

/* Returns whether both found the same users under the same names; NULL: no rules. */
bool access_rules_same_users(const struct access_rules *a, const struct access_rules *b);

/* Returns whether any rule restricts users; rules NULL: none does. */
static inline bool access_rules_restrict(const struct access_rules *rules)
{
    return rules && rules->rule_count > 0;
}

/* Returns the sections as text; "" without rules. */
static inline const char *access_rules_text(const struct access_rules *rules)
{
    return rules && rules->text ? rules->text : "";
}

#endif
