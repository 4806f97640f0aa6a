#include "serverk/config/access_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/text/parse.h"
#include "serverk/config/user_names.h"
#include "wire/own_user.h"

#define BLANKS       " \t"
#define MAX_SESSIONS 4096u

/* A running daemon may see fewer. */
#define UNSEEN                                                                              \
    " in /etc/passwd and /etc/group, and the daemon did not know it when it started: give " \
    "the number, or restart the daemon"

static enum kv_status no_memory(struct kv_error *error)
{
    return kv_error_set(error, KV_NO_MEMORY, "out of memory");
}

/* Sections ------------------------------------------------------------------------------------- */

/* What follows the first word of the section; NULL: that is another word. */
static const char *after(const char *section, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(section, word, size) != 0 || section[size] != ' ')
        return NULL;
    section += size;
    return section + strspn(section, BLANKS);
}

bool access_rules_know(const char *section)
{
    return after(section, "user") || after(section, "group") || after(section, "quota") ||
           strcmp(section, "others") == 0;
}

static const struct access_rules *known_rules;

void access_rules_remember(const struct access_rules *known)
{
    known_rules = known;
}

/* The users that the rule before it of the same name had. */
static bool take_known(struct access_rule *rule)
{
    for (unsigned i = 0; known_rules && i < known_rules->rule_count; i++) {
        const struct access_rule *known = &known_rules->rules[i];
        if (known->subject != rule->subject || strcmp(known->name, rule->name) != 0)
            continue;
        rule->uids = malloc(known->uid_count * sizeof *rule->uids + 1);
        if (!rule->uids)
            return false;
        memcpy(rule->uids, known->uids, known->uid_count * sizeof *rule->uids);
        rule->uid_count = known->uid_count;
        return true;
    }
    return false;
}

static enum kv_status resolve_user(struct access_rule *rule, struct kv_error *error)
{
    uid_t uid;
    if (!user_names_find(rule->name, &uid))
        return take_known(rule) ? KV_OK
                                : kv_error_set(error, KV_USAGE, "there is no user '%.64s'%s",
                                               rule->name, known_rules ? UNSEEN : "");
    if (wire_uid_is_shared(uid))
        return kv_error_set(error, KV_USAGE,
                            "user '%.64s' is uid %u, which stands for all users that this user "
                            "namespace does not map (/proc/self/uid_map)",
                            rule->name, (unsigned)uid);
    rule->uids = malloc(sizeof *rule->uids);
    if (!rule->uids)
        return no_memory(error);
    rule->uids[0] = uid;
    rule->uid_count = 1;
    return KV_OK;
}

static enum kv_status resolve_group(struct access_rule *rule, struct kv_error *error)
{
    if (user_names_members(rule->name, &rule->uids, &rule->uid_count) || take_known(rule))
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "there is no group '%.64s'%s", rule->name,
                        known_rules ? UNSEEN : "");
}

static enum kv_status make_rule(struct access_rules *rules, enum access_subject subject,
                                const char *name, struct access_rule **made, struct kv_error *error)
{
    if (rules->rule_count == ACCESS_MAX_RULES)
        return kv_error_set(error, KV_USAGE, "there are more than %u sections about users",
                            ACCESS_MAX_RULES);
    struct access_rule *rule = &rules->rules[rules->rule_count];
    rule->subject = subject;
    rule->name = strdup(name);
    if (!rule->name)
        return no_memory(error);
    rules->rule_count++;
    *made = rule;
    return subject == ACCESS_USER    ? resolve_user(rule, error)
           : subject == ACCESS_GROUP ? resolve_group(rule, error)
                                     : KV_OK;
}

static enum kv_status find_rule(struct access_rules *rules, const char *section,
                                struct access_rule **rule, struct kv_error *error)
{
    const char *user = after(section, "user"), *group = after(section, "group");
    const char *name = user ? user : group ? group : "";
    enum access_subject subject = user ? ACCESS_USER : group ? ACCESS_GROUP : ACCESS_OTHERS;
    for (unsigned i = 0; i < rules->rule_count; i++) {
        *rule = &rules->rules[i];
        if ((*rule)->subject == subject && strcmp((*rule)->name, name) == 0)
            return KV_OK;
    }
    return make_rule(rules, subject, name, rule, error);
}

/* Values --------------------------------------------------------------------------------------- */

static int rule_hex_digit(char digit)
{
    return isdigit((unsigned char)digit)  ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* A word with \xHH and \\ as what they stand for; size_t -1: another escape. */
static size_t unescape_rule_word(const char *word, size_t size, char *bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (word[i] != '\\') {
            bytes[used++] = word[i];
        } else if (i + 1 < size && word[i + 1] == '\\') {
            bytes[used++] = word[++i];
        } else if (i + 3 < size && word[i + 1] == 'x' && rule_hex_digit(word[i + 2]) >= 0 &&
                   rule_hex_digit(word[i + 3]) >= 0) {
            bytes[used++] = (char)((unsigned)rule_hex_digit(word[i + 2]) << 4 |
                                   (unsigned)rule_hex_digit(word[i + 3]));
            i += 3;
        } else {
            return SIZE_MAX;
        }
    }
    return used;
}

/* The prefix that the word stands for, allocated. */
static enum kv_status take_rule_prefix(const char *word, size_t size, char **bytes,
                                       size_t *prefix_size, struct kv_error *error)
{
    *bytes = malloc(size + 1);
    if (!*bytes)
        return no_memory(error);
    *prefix_size = size == 1 && word[0] == '*' ? 0 : unescape_rule_word(word, size, *bytes);
    if (*prefix_size != SIZE_MAX)
        return KV_OK;
    free(*bytes);
    return kv_error_set(error, KV_USAGE, "'%.*s': a prefix has the escapes \\xHH and \\\\ only",
                        (int)size, word);
}

static enum kv_status take_prefixes(struct access_rule *rule, const char *value, bool may_write,
                                    struct kv_error *error)
{
    for (value += strspn(value, BLANKS); *value; value += strspn(value, BLANKS)) {
        size_t size = strcspn(value, BLANKS);
        struct access_prefix *prefix = &rule->prefixes[rule->prefix_count];
        if (rule->prefix_count == ACCESS_MAX_PREFIXES)
            return kv_error_set(error, KV_USAGE, "there are more than %u prefixes",
                                ACCESS_MAX_PREFIXES);
        enum kv_status status = take_rule_prefix(value, size, &prefix->bytes, &prefix->size, error);
        if (status != KV_OK)
            return status;
        prefix->may_write = may_write;
        rule->prefix_count++;
        value += size;
    }
    return KV_OK;
}

static bool is_of_quota(const char *name)
{
    return strcmp(name, "max-bytes") == 0 || strcmp(name, "max-keys") == 0;
}

/* max-bytes, max-keys. */
static enum kv_status take_limit(const char *name, const char *value, uint64_t *max_bytes,
                                 uint64_t *max_keys, struct kv_error *error)
{
    bool taken = strcmp(name, "max-bytes") == 0 ? parse_size(value, 1, UINT64_MAX / 2, max_bytes)
                                                : parse_u64(value, 1, UINT64_MAX / 2, max_keys);
    return taken ? KV_OK
                 : kv_error_set(error, KV_USAGE, "%s: '%.40s' is not %s", name, value,
                                strcmp(name, "max-bytes") == 0 ? "a size such as 64k, 100M or 1G"
                                                               : "a number above 0");
}

static enum kv_status take_rule_line(struct access_rule *rule, const char *name, const char *value,
                                     unsigned line, struct kv_error *error)
{
    uint64_t number;
    KV_ASSERT(rule);
    if (is_of_quota(name)) {
        rule->quota_line = line;
        return take_limit(name, value, &rule->max_bytes, &rule->max_keys, error);
    }
    if (strcmp(name, "read") == 0 || strcmp(name, "write") == 0)
        return take_prefixes(rule, value, name[0] == 'w', error);
    if (strcmp(name, "sessions") == 0) {
        if (!parse_u64(value, 1, MAX_SESSIONS, &number))
            return kv_error_set(error, KV_USAGE, "sessions: '%.40s' is not a number, 1 to %u",
                                value, MAX_SESSIONS);
        rule->sessions = (unsigned)number;
        return KV_OK;
    }
    if (strcmp(name, "operations") == 0) {
        if (!parse_u64(value, 1, UINT32_MAX, &number))
            return kv_error_set(error, KV_USAGE,
                                "operations: '%.40s' is not a number of operations per second",
                                value);
        rule->operations_s = number;
        return KV_OK;
    }
    return kv_error_set(error, KV_USAGE,
                        "unknown key '%.40s': a user has read, write, sessions, operations, "
                        "max-bytes, max-keys",
                        name);
}

static enum kv_status find_quota(struct access_rules *rules, const char *word,
                                 struct kvstore_quota **quota, struct kv_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    enum kv_status status = take_rule_prefix(word, strlen(word), &bytes, &size, error);
    if (status != KV_OK)
        return status;
    for (unsigned i = 0; i < rules->quota_count; i++) {
        *quota = &rules->quotas[i];
        if (kv_slice_equal((*quota)->prefix, kv_slice(bytes, size))) {
            free(bytes);
            return KV_OK;
        }
    }
    if (rules->quota_count == KVSTORE_MAX_QUOTAS) {
        free(bytes);
        return kv_error_set(error, KV_USAGE, "there are more than %u quotas", KVSTORE_MAX_QUOTAS);
    }
    *quota = &rules->quotas[rules->quota_count++];
    (*quota)->prefix = kv_slice(bytes, size);
    return KV_OK;
}

static enum kv_status take_quota_line(struct kvstore_quota *quota, const char *name,
                                      const char *value, struct kv_error *error)
{
    if (is_of_quota(name))
        return take_limit(name, value, &quota->max_bytes, &quota->max_keys, error);
    return kv_error_set(error, KV_USAGE, "unknown key '%.40s': a quota has max-bytes, max-keys",
                        name);
}

/* All ------------------------------------------------------------------------------------------ */

/* "[section]" if another one begins, and the line. */
static bool note_text(struct access_rules *rules, const char *section, const char *name,
                      const char *value)
{
    char heading[300];
    snprintf(heading, sizeof heading, "[%.280s]\n", section);
    const char *text = access_rules_text(rules), *last = text;
    for (const char *at = text; (at = strstr(at, "\n[")) != NULL; at++)
        last = at + 1;
    bool is_same = strncmp(last, heading, strlen(heading)) == 0;
    char *longer = NULL;
    if (asprintf(&longer, "%s%s%s%s = %s\n", text,
                 is_same ? ""
                 : *text ? "\n"
                         : "",
                 is_same ? "" : heading, name, value) < 0)
        return false;
    free(rules->text);
    rules->text = longer;
    return true;
}

enum kv_status access_rules_take(struct access_rules **rules, const char *section, const char *name,
                                 const char *value, unsigned section_line, unsigned *line,
                                 struct kv_error *error)
{
    struct access_rule *rule = NULL;
    struct kvstore_quota *quota = NULL;
    const char *prefix = after(section, "quota");
    if (!*rules)
        *rules = calloc(1, sizeof **rules);
    if (!*rules || !note_text(*rules, section, name, value))
        return no_memory(error);
    enum kv_status status = prefix ? find_quota(*rules, prefix, &quota, error)
                                   : find_rule(*rules, section, &rule, error);
    if (status != KV_OK)
        *line = section_line;
    else if (quota)
        status = take_quota_line(quota, name, value, error);
    else
        status = take_rule_line(rule, name, value, *line, error);
    return status;
}

static const char *section_of(const struct access_rule *rule)
{
    return rule->subject == ACCESS_OTHERS ? "others" : rule->name;
}

static enum kv_status add_quota(struct access_rules *rules, unsigned number,
                                const struct access_prefix *prefix, struct kv_error *error)
{
    const struct access_rule *rule = &rules->rules[number];
    struct kv_slice wanted = kv_slice(prefix->bytes, prefix->size);
    if (prefix->size == 0)
        return kv_error_set(
            error, KV_USAGE,
            "a quota of section '%.64s' needs prefixes of its own to count: 'write = "
            "*' are the keys of all",
            section_of(rule));
    for (unsigned i = 0; i < rules->quota_count; i++)
        if (kv_slice_equal(rules->quotas[i].prefix, wanted))
            return kv_error_set(
                error, KV_USAGE,
                "two quotas count the keys of one prefix that section '%.64s' writes: "
                "those of a key can count once",
                section_of(rule));
    if (rules->quota_count == KVSTORE_MAX_QUOTAS)
        return kv_error_set(error, KV_USAGE, "there are more than %u quotas", KVSTORE_MAX_QUOTAS);
    char *bytes = malloc(prefix->size);
    if (!bytes)
        return no_memory(error);
    memcpy(bytes, prefix->bytes, prefix->size);
    rules->quotas[rules->quota_count++] =
        (struct kvstore_quota){.prefix = kv_slice(bytes, prefix->size),
                               .max_bytes = rule->max_bytes,
                               .max_keys = rule->max_keys,
                               .group = number + 1};
    return KV_OK;
}

/* Keys have no owner in the files: what counts is where a user may write. */
static enum kv_status make_quotas_of(struct access_rules *rules, unsigned number,
                                     struct kv_error *error)
{
    struct access_rule *rule = &rules->rules[number];
    enum kv_status status = KV_OK;
    rule->quota = rules->quota_count;
    for (unsigned i = 0; i < rule->prefix_count && status == KV_OK; i++)
        if (rule->prefixes[i].may_write)
            status = add_quota(rules, number, &rule->prefixes[i], error);
    if (status == KV_OK && rule->quota == rules->quota_count)
        status = kv_error_set(error, KV_USAGE,
                              "a quota counts the keys below the prefixes that a user writes: "
                              "section '%.64s' has no 'write = PREFIX'",
                              section_of(rule));
    return status;
}

enum kv_status access_rules_finish(struct access_rules *rules, unsigned *line,
                                   struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (unsigned i = 0; rules && i < rules->rule_count && status == KV_OK; i++) {
        *line = rules->rules[i].quota_line;
        if (*line != 0)
            status = make_quotas_of(rules, i, error);
    }
    return status;
}

void access_rules_free(struct access_rules *rules)
{
    if (!rules)
        return;
    for (unsigned i = 0; i < rules->rule_count; i++) {
        struct access_rule *rule = &rules->rules[i];
        for (unsigned j = 0; j < rule->prefix_count; j++)
            free(rule->prefixes[j].bytes);
        free(rule->name);
        free(rule->uids);
    }
    for (unsigned i = 0; i < rules->quota_count; i++)
        free((void *)(uintptr_t)rules->quotas[i].prefix.data);
    free(rules->text);
    free(rules);
}

static bool is_about(const struct access_rule *rule, uid_t uid)
{
    for (size_t i = 0; i < rule->uid_count; i++)
        if (rule->uids[i] == uid)
            return true;
    return rule->subject == ACCESS_OTHERS;
}

const struct access_rule *access_rules_find(const struct access_rules *rules, uid_t uid)
{
    const struct access_rule *found = NULL;
    for (unsigned i = 0; i < rules->rule_count; i++) {
        const struct access_rule *rule = &rules->rules[i];
        if (is_about(rule, uid) && (!found || rule->subject < found->subject))
            found = rule;
    }
    return found;
}

bool access_rules_same_users(const struct access_rules *a, const struct access_rules *b)
{
    unsigned count = a ? a->rule_count : 0;
    if (count != (b ? b->rule_count : 0))
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct access_rule *left = &a->rules[i], *right = &b->rules[i];
        if (left->uid_count != right->uid_count ||
            (left->uid_count > 0 &&
             memcmp(left->uids, right->uids, left->uid_count * sizeof *left->uids) != 0))
            return false;
    }
    return true;
}

const char *access_subject_name(enum access_subject subject)
{
    static const char *const names[] = {
        [ACCESS_USER] = "user", [ACCESS_GROUP] = "group", [ACCESS_OTHERS] = "others"};
    return names[subject];
}
