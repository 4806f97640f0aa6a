/*
 * covers: common/text/parse.c tools/bench/workload.c
 *
 * Numbers as people type them under libFuzzer: each parser takes exactly the texts that a second
 * reader takes, written here in another way (128-bit sums, the unit taken off the end), and gives
 * the same number; what it refuses leaves the value alone. Mixes and sizes of a bench are read
 * without harm.
 */
#include "tests/fuzz/fuzzing.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "tools/bench/workload.h"
#include "common/text/parse.h"

#define UNTOUCHED UINT64_C(0x1234567890abcdef)

__extension__ typedef unsigned __int128 wide;

/* The number of the digits text[0..size), clipped far above 2^64; false unless all are digits. */
static bool read_digits(const char *text, size_t size, wide *number)
{
    const wide limit = (wide)1 << 100;
    *number = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (*number < limit)
            *number = *number * 10 + (wide)(text[i] - '0');
    }
    return size > 0;
}

static void check_u64(const char *text)
{
    uint64_t got = UNTOUCHED;
    wide wanted;
    bool good = read_digits(text, strlen(text), &wanted) && wanted <= UINT64_MAX;
    require(parse_u64(text, 0, UINT64_MAX, &got) == good);
    require(got == (good ? (uint64_t)wanted : UNTOUCHED));
    got = UNTOUCHED;
    bool in_range = good && wanted >= 10 && wanted <= 1000;
    require(parse_u64(text, 10, 1000, &got) == in_range);
    require(in_range || got == UNTOUCHED);
}

static void check_i64(const char *text)
{
    int64_t got = 77, bytes_got = 77;
    wide magnitude;
    bool minus = text[0] == '-';
    bool good = read_digits(text + minus, strlen(text + minus), &magnitude) &&
                magnitude <= (wide)INT64_MAX + minus;
    require(parse_i64(text, INT64_MIN, INT64_MAX, &got) == good);
    if (good)
        require(minus ? (wide)(0 - (uint64_t)got) == magnitude : (wide)got == magnitude);
    else
        require(got == 77);
    if (parse_i64_bytes(text, strlen(text), &bytes_got))
        require(good && bytes_got == got && strlen(text) <= 20);
    else
        require(bytes_got == 77 && (!good || strlen(text) > (minus ? 20 : 19)));
}

struct suffix {
    const char *text;
    uint64_t factor;
};

#define SHORT_FRACTION 9 /* digits; a longer one may be refused though the number would be whole */

/* The unit is the letters at the end; a fraction stands behind the dot, and the whole must be one.
 * Sets *long_fraction. */
static bool read_with_suffix(const char *text, const struct suffix *suffixes, size_t count,
                             wide *number, bool *long_fraction)
{
    size_t end = strlen(text);
    while (end > 0 && isalpha((unsigned char)text[end - 1]))
        end--;
    const char *dot = memchr(text, '.', end);
    size_t whole_digits = dot ? (size_t)(dot - text) : end;
    size_t fraction_digits = dot ? end - whole_digits - 1 : 0;
    wide fraction = 0, one = 1;
    *long_fraction = fraction_digits > SHORT_FRACTION;
    if (!read_digits(text, whole_digits, number) || fraction_digits > 20 ||
        (dot && !read_digits(dot + 1, fraction_digits, &fraction)) || *number > UINT64_MAX)
        return false;
    for (size_t i = 0; i < fraction_digits; i++)
        one *= 10;
    for (size_t i = 0; i < count; i++)
        if (strcmp(suffixes[i].text, text + end) == 0) {
            wide scaled = fraction * suffixes[i].factor;
            *number = *number * suffixes[i].factor + scaled / one;
            return scaled % one == 0 && *number <= UINT64_MAX;
        }
    return false;
}

typedef bool parser(const char *text, uint64_t min, uint64_t max, uint64_t *value);

static void check_with(parser *parse, const char *text, const struct suffix *suffixes, size_t count)
{
    uint64_t got = UNTOUCHED;
    wide wanted;
    bool long_fraction;
    bool good = read_with_suffix(text, suffixes, count, &wanted, &long_fraction);
    bool taken = parse(text, 0, UINT64_MAX, &got);
    require(taken == good || (good && long_fraction));
    require(got == (taken ? (uint64_t)wanted : UNTOUCHED));
}

static void check_units(const char *text)
{
    static const struct suffix sizes[] = {{"", 1},
                                          {"B", 1},
                                          {"k", 1u << 10},
                                          {"K", 1u << 10},
                                          {"KiB", 1u << 10},
                                          {"M", 1u << 20},
                                          {"MiB", 1u << 20},
                                          {"G", 1u << 30},
                                          {"GiB", 1u << 30},
                                          {"T", UINT64_C(1) << 40},
                                          {"TiB", UINT64_C(1) << 40}};
    static const struct suffix times[] = {{"", 1},         {"ms", 1},      {"s", 1000},
                                          {"m", 60000},    {"h", 3600000}, {"d", 86400000},
                                          {"w", 604800000}};
    check_with(parse_size, text, sizes, sizeof sizes / sizeof sizes[0]);
    check_with(parse_duration_ms, text, times, sizeof times / sizeof times[0]);
}

static void check_double(const char *text)
{
    double got = 0.5;
    if (!parse_double(text, -1e300, 1e300, &got)) {
        require(got == 0.5);
        return;
    }
    require(isfinite(got) && strspn(text, "-0123456789.") == strlen(text));
    require(got == strtod(text, NULL));
}

static void check_workload(const char *text)
{
    struct workload_mix mix, again;
    struct workload_sizes sizes;
    struct kv_error error = {0};
    char written[256];
    if (workload_mix_parse(text, &mix, &error) == KV_OK) {
        require(mix.total > 0);
        require(workload_mix_parse(workload_mix_format(&mix, ',', written), &again, &error) ==
                KV_OK);
        require(again.total == mix.total &&
                memcmp(again.weights, mix.weights, sizeof mix.weights) == 0);
    } else {
        require(error.text[0] != '\0');
    }
    error.text[0] = '\0';
    if (workload_sizes_parse(text, 1 << 20, &sizes, &error) == KV_OK)
        require(sizes.min <= sizes.max && sizes.max <= 1 << 20);
    else
        require(error.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    check_u64(text);
    check_i64(text);
    check_units(text);
    check_double(text);
    check_workload(text);
    free(text);
    return 0;
}
