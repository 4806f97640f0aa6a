/*
 * covers: serverk/config/option_file.c serverk/config/access_rules.c
 *
 * A configuration file under libFuzzer: it is taken, with what its sections about users and quotas
 * say within their bounds, or a sentence says what is wrong in which line. What --check prints of
 * those sections says the same when it is read.
 */
#include "tests/fuzz/fuzzing.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "serverk/config/command_line.h"

/* The bytes as a file, whose name is in path; -1: the system gives none. */
static int make_file(const void *data, size_t size, char path[32])
{
    int fd = memfd_create("config", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return -1;
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static enum options_outcome take(const void *data, size_t size, struct server_options *options,
                                 struct kv_error *error)
{
    char path[32], program[] = "serverk", option[] = "-c";
    int fd = make_file(data, size, path);
    require(fd >= 0);
    char *arguments[] = {program, option, path, NULL};
    enum options_outcome outcome = command_line_parse(3, arguments, options, error);
    close(fd);
    return outcome;
}

static void check_rules(const struct access_rules *rules)
{
    require(rules->rule_count <= ACCESS_MAX_RULES && rules->quota_count <= KVSTORE_MAX_QUOTAS);
    for (unsigned i = 0; i < rules->rule_count; i++) {
        const struct access_rule *rule = &rules->rules[i];
        require(rule->prefix_count <= ACCESS_MAX_PREFIXES);
        require(rule->subject != ACCESS_USER || rule->uid_count == 1);
        require(rule->quota_line == 0 || rule->quota < rules->quota_count);
        if (rule->uid_count > 0)
            require(access_rules_find(rules, rule->uids[0]) != NULL);
    }
    for (unsigned i = 0; i < rules->quota_count; i++)
        require(rules->quotas[i].group <= rules->rule_count);
}

static void check_round_trip(const struct access_rules *rules)
{
    struct server_options again;
    struct kv_error error = {0};
    const char *text = access_rules_text(rules);
    enum options_outcome outcome = take(text, strlen(text), &again, &error);
    require(outcome == OPTIONS_RUN && again.access);
    require(again.access->rule_count == rules->rule_count);
    require(again.access->quota_count == rules->quota_count);
    require(access_rules_same_users(again.access, rules));
    options_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_options options;
    struct kv_error error = {0};
    enum options_outcome outcome = take(data, size, &options, &error);
    require((outcome == OPTIONS_BAD) == (error.text[0] != '\0'));
    if (outcome == OPTIONS_RUN && options.access) {
        check_rules(options.access);
        if (options.access->rule_count + options.access->quota_count > 0)
            check_round_trip(options.access);
    }
    options_free(&options);
    return 0;
}
