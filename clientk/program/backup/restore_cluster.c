#include "clientk/program/backup/restore_cluster.h"

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "clientk/program/cli/serverk_program.h"
#include "common/report/error.h"

/* the program, four options with their values, the NULL at the end */
#define MAX_WORDS (1 + 2 * 4 + 1)

static void add_option_words(const char *words[MAX_WORDS], size_t *count, const char *option,
                             const char *value)
{
    if (!value)
        return;
    words[(*count)++] = option;
    words[(*count)++] = value;
}

enum kv_status restore_from_cluster(const struct cluster_words *given, struct kv_error *error)
{
    char program[PATH_MAX];
    const char *words[MAX_WORDS] = {"serverk"};
    size_t count = 1;
    if (!serverk_program_find(program))
        return kv_error_set(error, KV_UNSUPPORTED,
                            "--from needs the program serverk, and there is none beside clientk");
    add_option_words(words, &count, "--config", given->config);
    add_option_words(words, &count, "--dir", given->dir);
    add_option_words(words, &count, "--restore-from", given->urls);
    add_option_words(words, &count, "--bucket", given->bucket);
    execv(program, (char *const *)(uintptr_t)words); /* execv changes none of the words */
    return kv_error_set_errno(error, "cannot run %s", program);
}
