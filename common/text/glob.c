#include "common/text/glob.h"

#include <ctype.h>

static unsigned char fold(unsigned char c, bool ignore_case)
{
    return ignore_case ? (unsigned char)tolower(c) : c;
}

/* Returns true if c is in the set whose "[" stands before *at; *at ends behind the "]", or at the
 * end of the pattern if there is none. */
static bool set_matches(const unsigned char *pattern, size_t size, size_t *at, unsigned char c,
                        bool ignore_case)
{
    size_t i = *at;
    bool matches = false, negated = i < size && pattern[i] == '^';
    c = fold(c, ignore_case);
    for (i += negated; i < size && pattern[i] != ']'; i++) {
        if (pattern[i] == '\\' && i + 1 < size) {
            matches |= pattern[++i] == c;
        } else if (i + 2 < size && pattern[i + 1] == '-') {
            unsigned char low = fold(pattern[i], ignore_case);
            unsigned char high = fold(pattern[i + 2], ignore_case);
            matches |= low < high ? low <= c && c <= high : high <= c && c <= low;
            i += 2;
        } else {
            matches |= fold(pattern[i], ignore_case) == c;
        }
    }
    *at = i < size ? i + 1 : i;
    return matches != negated;
}

/* Returns true if the one-character element at *at, which is no star, matches c; *at ends behind
 * it. */
static bool element_matches(const unsigned char *pattern, size_t size, size_t *at, unsigned char c,
                            bool ignore_case)
{
    unsigned char element = pattern[(*at)++];
    switch (element) {
    case '?':
        return true;
    case '[':
        return set_matches(pattern, size, at, c, ignore_case);
    case '\\':
        if (*at < size)
            element = pattern[(*at)++];
        break;
    default:
        break;
    }
    return fold(element, ignore_case) == fold(c, ignore_case);
}

bool glob_matches(struct kv_slice pattern, struct kv_slice text, bool ignore_case, uint64_t *steps)
{
    const unsigned char *p = pattern.data, *t = text.data;
    size_t at = 0, i = 0;
    size_t star = 0, star_text = 0; /* behind the last star, and where its match ends so far */
    bool starred = false;
    while (*steps > 0 && (i < text.size || (at < pattern.size && p[at] == '*'))) {
        size_t from = at;
        /* The search ends with a set that is longer than the steps that are left. */
        size_t end = pattern.size - at > *steps ? at + (size_t)*steps : pattern.size;
        bool matches = true;
        if (at < pattern.size && p[at] == '*') {
            starred = true;
            star = ++at;
            star_text = i;
            if (at == pattern.size) /* it takes the rest, whatever that is */
                i = text.size;
        } else if (at < pattern.size && element_matches(p, end, &at, t[i], ignore_case)) {
            i++;
        } else {
            matches = false;
        }
        size_t taken = 1 + at - from;
        *steps = *steps > taken ? *steps - taken : 0;
        if (!matches && !starred)
            return false;
        if (!matches) {
            /* Only the last star needs to take one character more: what stands before it has
             * matched. */
            at = star;
            i = ++star_text;
        }
    }
    return *steps > 0 && i == text.size && at == pattern.size;
}

struct kv_slice glob_literal_prefix(struct kv_slice pattern)
{
    const char *p = pattern.data;
    size_t size = 0;
    while (size < pattern.size && p[size] != '*' && p[size] != '?' && p[size] != '[' &&
           p[size] != '\\')
        size++;
    return kv_slice(p, size);
}
