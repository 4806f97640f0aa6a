#include "clientk/program/cli/arguments.h"

#include <string.h>
#include <strings.h>

#include "clientk/program/cli/foreign.h"
#include "common/report/error.h"
#include "common/text/parse.h"

static bool has_nul(const struct word *word)
{
    return strlen(word->data) != word->size;
}

/* Takes the option at words[*at]; *at becomes the index of the last word that it used. */
static enum kv_status take_option(const struct option_set *sets, const struct word *words,
                                  size_t count, size_t *at, struct kv_error *error)
{
    static const char hint[] = "put -- before words that begin with a dash";
    const struct word *next = *at + 1 < count ? &words[*at + 1] : NULL;
    bool took_next;
    if (has_nul(&words[*at]))
        return kv_error_set(error, KV_USAGE, "an option has a NUL byte in it");
    const char *own = foreign_option(words[*at].data);
    if (own && option_is_known(sets, own) && !option_is_known(sets, words[*at].data))
        return kv_error_set(error, KV_USAGE, "unknown option '%.20s'; did you mean %s?",
                            words[*at].data, own);
    enum kv_status status =
        option_take(sets, hint, words[*at].data, next ? next->data : NULL, &took_next, error);
    if (took_next && next && has_nul(next))
        return kv_error_set(error, KV_USAGE, "the value of %s has a NUL byte in it",
                            words[*at].data);
    *at += took_next;
    return status;
}

enum kv_status arguments_take_options(const struct option_set *sets, struct word *words,
                                      size_t *count, bool leading, struct kv_error *error)
{
    size_t kept = 0;
    bool options_end = false;
    for (size_t at = 0; at < *count; at++) {
        if (!options_end && !words[at].literal && word_is(&words[at], "--")) {
            options_end = true;
        } else if (!options_end && !words[at].literal && option_looks_so(words[at].data)) {
            enum kv_status status = take_option(sets, words, *count, &at, error);
            if (status != KV_OK)
                return status;
        } else {
            words[kept] = words[at];
            words[kept++].literal |= options_end && !leading;
            options_end |= leading;
        }
    }
    *count = kept;
    return KV_OK;
}

const char *arguments_duration_advice(const char *text)
{
    static const char *const endless[] = {"never", "none", "no",       "off", "forever", "infinity",
                                          "inf",   "0",    "infinite", "-1",  "0s"};
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++)
        if (strcasecmp(text, endless[i]) == 0)
            return "; without a time an entry never expires, persist KEY takes it away, "
                   "del KEY deletes";
    if (*text == '-')
        return "; a time lies ahead, del KEY deletes at once";
    if (strspn(text, "0123456789.,") > 0)
        return "; units are ms, s, m (minutes), h, d and w, one of them after the number: "
               "90m, 1.5h, 14d";
    return "";
}

enum kv_status arguments_integer(const struct word *word, const char *what, int64_t *value,
                                 struct kv_error *error)
{
    if (strlen(word->data) == word->size && parse_i64(word->data, INT64_MIN, INT64_MAX, value))
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "%s, '%.60s', is not a whole number of 64 bits", what,
                        word->data);
}

enum kv_status arguments_duration_ms(const struct word *word, const char *what, bool with_unit,
                                     uint64_t *value, struct kv_error *error)
{
    if (with_unit && strlen(word->data) == word->size && parse_lacks_unit(word->data))
        return kv_error_set(error, KV_USAGE, "%s: %.20s what? %.20ss or %.20sms", what, word->data,
                            word->data, word->data);
    if (strlen(word->data) == word->size && parse_duration_ms(word->data, 1, UINT64_MAX / 2, value))
        return KV_OK;
    return kv_error_set(error, KV_USAGE,
                        "%s, '%.60s', is not a time such as " DURATION_EXAMPLES "%s", what,
                        word->data, arguments_duration_advice(word->data));
}
