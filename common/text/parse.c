#include "common/text/parse.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at text, at most limit bytes of it. Returns how many there were; 0 also if their
 * number exceeds uint64. */
static size_t scan_digits(const char *text, size_t limit, uint64_t *number)
{
    uint64_t sum = 0;
    size_t length = 0;
    while (length < limit && is_digit(text[length])) {
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[length] - '0'), &sum))
            return 0;
        length++;
    }
    *number = sum;
    return length;
}

bool parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t number;
    size_t length = scan_digits(text, SIZE_MAX, &number);
    if (length == 0 || text[length] != '\0' || number < min || number > max)
        return false;
    *value = number;
    return true;
}

/* The number of all `size` bytes: optional '-', then digits. */
static bool signed_number(const char *text, size_t size, int64_t *value)
{
    bool negative = size > 0 && text[0] == '-';
    size_t digits_at = negative ? 1 : 0;
    uint64_t magnitude;
    size_t length = scan_digits(text + digits_at, size - digits_at, &magnitude);
    if (length == 0 || digits_at + length != size)
        return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1u : 0u))
        return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool parse_i64(const char *text, int64_t min, int64_t max, int64_t *value)
{
    int64_t number;
    if (!signed_number(text, strlen(text), &number) || number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool parse_i64_bytes(const void *data, uint64_t size, int64_t *value)
{
    const uint64_t most_digits = sizeof "9223372036854775808" - 1;
    uint64_t digits = size > 0 && *(const char *)data == '-' ? size - 1 : size;
    return digits > 0 && digits <= most_digits && signed_number(data, (size_t)size, value);
}

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Multiplies number, and the fraction whose digits are at `digits`, by factor. False: too big, or
 * no whole number. */
static bool scale(uint64_t number, const char *digits, size_t length, uint64_t factor,
                  uint64_t *value)
{
    uint64_t fraction = 0, one = 1, part;
    for (size_t i = 0; i < length; i++)
        if (__builtin_mul_overflow(one, 10u, &one) ||
            __builtin_mul_overflow(fraction, 10u, &fraction))
            return false;
        else
            fraction += (uint64_t)(digits[i] - '0');
    if (__builtin_mul_overflow(fraction, factor, &part) || part % one != 0)
        return false;
    return !__builtin_mul_overflow(number, factor, &number) &&
           !__builtin_add_overflow(number, part / one, value);
}

/* A number followed by one of the suffixes ("" is the first, bare unit), with a fraction where that
 * makes a whole number of the bare unit. */
static bool parse_with_unit(const char *text, const struct unit *units, size_t unit_count,
                            uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t number;
    size_t length = scan_digits(text, SIZE_MAX, &number), fraction_length = 0;
    if (length == 0)
        return false;
    const char *fraction = text + length;
    if (*fraction == '.') {
        fraction++;
        fraction_length = strspn(fraction, "0123456789");
        if (fraction_length == 0)
            return false;
    }
    for (size_t i = 0; i < unit_count; i++) {
        if (strcmp(fraction + fraction_length, units[i].suffix) != 0)
            continue;
        if (!scale(number, fraction, fraction_length, units[i].factor, &number) || number < min ||
            number > max)
            return false;
        *value = number;
        return true;
    }
    return false;
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

bool parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"k", 1 << 10},
        {"K", 1 << 10},
        {"KiB", 1 << 10},
        {"M", 1 << 20},
        {"MiB", 1 << 20},
        {"G", 1 << 30},
        {"GiB", 1 << 30},
        {"T", UINT64_C(1) << 40},
        {"TiB", UINT64_C(1) << 40},
    };
    return parse_with_unit(text, units, COUNT_OF(units), min, max, bytes);
}

bool parse_duration_ms(const char *text, uint64_t min, uint64_t max, uint64_t *ms)
{
    static const struct unit units[] = {
        {"", 1},        {"ms", 1},       {"s", 1000},      {"m", 60000},
        {"h", 3600000}, {"d", 86400000}, {"w", 604800000},
    };
    return parse_with_unit(text, units, COUNT_OF(units), min, max, ms);
}

bool parse_lacks_unit(const char *text)
{
    return *text && text[strspn(text, "0123456789.")] == '\0' && strpbrk(text, "123456789");
}

/* "-1", "0.25", ".5", "3."; no exponent, no hexadecimal, no "inf". */
static bool is_decimal_fraction(const char *text)
{
    if (*text == '-')
        text++;
    size_t whole = strspn(text, "0123456789");
    text += whole;
    size_t fraction = 0;
    if (*text == '.') {
        text++;
        fraction = strspn(text, "0123456789");
        text += fraction;
    }
    return whole + fraction > 0 && *text == '\0';
}

bool parse_double(const char *text, double min, double max, double *value)
{
    if (!is_decimal_fraction(text))
        return false;
    locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    double number = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (!isfinite(number) || number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool parse_choice(const char *text, parse_name_of *name_of, int *choice)
{
    const char *name;
    for (int i = 0; (name = name_of(i)); i++) {
        if (strcasecmp(text, name) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

/* The value in the biggest unit that leaves at least 1, with one decimal beyond the first unit. */
static char *format_in_units(uint64_t value, const struct unit *units, size_t unit_count,
                             char buffer[32])
{
    size_t i = unit_count - 1;
    while (i > 0 && value < units[i].factor)
        i--;
    if (i == 0) {
        snprintf(buffer, 32, "%llu %s", (unsigned long long)value, units[0].suffix);
        return buffer;
    }
    uint64_t tenths = (uint64_t)((double)value / (double)units[i].factor * 10 + 0.5);
    if (i + 1 < unit_count && tenths >= units[i + 1].factor / units[i].factor * 10) {
        tenths = 10; /* 1023.99 KiB is 1.0 MiB */
        i++;
    }
    snprintf(buffer, 32, "%llu.%u %s", (unsigned long long)(tenths / 10), (unsigned)(tenths % 10),
             units[i].suffix);
    return buffer;
}

/* The digits of the number and a NUL. */
static size_t write_digits(char *out, uint64_t left)
{
    char digits[INTEGER_BYTES];
    size_t count = 0, size = 0;
    do {
        digits[count++] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    while (count > 0)
        out[size++] = digits[--count];
    out[size] = '\0';
    return size;
}

size_t format_i64(int64_t value, char out[INTEGER_BYTES])
{
    if (value >= 0)
        return write_digits(out, (uint64_t)value);
    out[0] = '-';
    return 1 + write_digits(out + 1, 0 - (uint64_t)value);
}

size_t format_u64(uint64_t value, char out[INTEGER_BYTES])
{
    return write_digits(out, value);
}

char *format_size(uint64_t bytes, char buffer[32])
{
    static const struct unit units[] = {
        {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", UINT64_C(1) << 40},
    };
    return format_in_units(bytes, units, COUNT_OF(units), buffer);
}

/* The number of the biggest of the units that leaves no rest. */
static char *format_exactly(uint64_t value, const struct unit *units, size_t unit_count,
                            char buffer[32])
{
    size_t i = value == 0 ? 0 : unit_count - 1;
    while (i > 0 && value % units[i].factor != 0)
        i--;
    snprintf(buffer, 32, "%" PRIu64 "%s", value / units[i].factor, units[i].suffix);
    return buffer;
}

char *format_size_exactly(uint64_t bytes, char buffer[32])
{
    static const struct unit units[] = {
        {"B", 1}, {"k", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", UINT64_C(1) << 40}};
    return format_exactly(bytes, units, COUNT_OF(units), buffer);
}

char *format_duration_ms_exactly(uint64_t ms, char buffer[32])
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    return format_exactly(ms, units, COUNT_OF(units), buffer);
}

char *format_duration_ns(uint64_t ns, char buffer[32])
{
    static const struct unit units[] = {
        {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    return format_in_units(ns, units, COUNT_OF(units), buffer);
}

char *format_count(uint64_t count, const char *noun, char buffer[32])
{
    snprintf(buffer, 32, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
    return buffer;
}
