#include "bridges/kresp/session/redis_comparison.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct comparison_word {
    const char *word;
    bool wants_equal, has_digest;
} comparison_words[] = {
    {"IFEQ", true, false},
    {"IFNE", false, false},
    {"IFDEQ", true, true},
    {"IFDNE", false, true},
};

static const struct comparison_word *find_word(const struct redis_job *job, size_t at)
{
    for (size_t i = 0; i < sizeof comparison_words / sizeof comparison_words[0]; i++)
        if (redis_argument_is(job, at, comparison_words[i].word))
            return &comparison_words[i];
    return NULL;
}

void redis_digest(struct kv_slice value, char digest[REDIS_DIGEST_BYTES])
{
    snprintf(digest, REDIS_DIGEST_BYTES, "%016" PRIx64,
             (uint64_t)XXH3_64bits(value.size > 0 ? value.data : "", value.size));
}

static bool is_digest(struct kv_slice argument)
{
    const char *digits = argument.data;
    bool hexadecimal = argument.size == REDIS_DIGEST_BYTES - 1;
    for (size_t i = 0; hexadecimal && i < argument.size; i++)
        hexadecimal = isxdigit((unsigned char)digits[i]) != 0;
    return hexadecimal;
}

bool redis_comparison_is_at(struct redis_job *job, size_t at)
{
    const struct comparison_word *word = find_word(job, at);
    if (!word || at + 1 >= job->count)
        return false;
    if (word->has_digest && !is_digest(job->arguments[at + 1]))
        redis_job_fail(job, "ERR kresp: a digest (%s) has 16 hexadecimal digits", word->word);
    return true;
}

bool redis_comparison_holds(const struct redis_job *job, size_t at, struct kv_slice value)
{
    const struct comparison_word *word = find_word(job, at);
    struct kv_slice wanted = job->arguments[at + 1];
    char digest[REDIS_DIGEST_BYTES];
    bool is_equal = false;
    if (value.data && word->has_digest) {
        redis_digest(value, digest);
        is_equal = strncasecmp(digest, wanted.data, wanted.size) == 0;
    } else if (value.data) {
        is_equal = kv_slice_equal(value, wanted);
    }
    return is_equal == word->wants_equal;
}
