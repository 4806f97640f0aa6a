#include "bridges/kresp/protocol/decimal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads at most 20 digits; false: it is something else, or does not fit 64 bits. */
static bool parse_digits(const char *text, size_t size, uint64_t *value)
{
    uint64_t sum = 0;
    if (size == 0 || size > 20)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned char)text[i] - (unsigned)'0';
        if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

bool decimal_parse(struct kv_slice text, int64_t *value)
{
    const char *at = text.data;
    size_t size = text.size;
    uint64_t digits;
    bool negative = size > 1 && at[0] == '-';
    if (negative) {
        at++;
        size--;
    }
    if (!parse_digits(at, size, &digits) || (at[0] == '0' && (size > 1 || negative)))
        return false;
    if (digits > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - digits) : (int64_t)digits;
    return true;
}

bool decimal_parse_cursor(struct kv_slice text, uint64_t *value)
{
    return parse_digits(text.data, text.size, value);
}

bool decimal_parse_real(struct kv_slice text, long double *value)
{
    char copy[DECIMAL_REAL_BYTES];
    char *end;
    if (text.size == 0 || text.size >= sizeof copy || isspace(*(const unsigned char *)text.data))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    errno = 0;
    *value = strtold(copy, &end);
    if (end != copy + text.size || isnan(*value))
        return false;
    return errno != ERANGE || (*value != 0 && !isinf(*value));
}

size_t decimal_write_real(char out[DECIMAL_REAL_BYTES], long double value)
{
    int size = snprintf(out, DECIMAL_REAL_BYTES, "%.17Lf", value);
    if (size < 0 || size >= DECIMAL_REAL_BYTES)
        return 0;
    if (strchr(out, '.')) {
        while (out[size - 1] == '0')
            size--;
        if (out[size - 1] == '.')
            size--;
    }
    if (size == 2 && out[0] == '-' && out[1] == '0') {
        out[0] = '0';
        size = 1;
    }
    out[size] = '\0';
    return (size_t)size;
}
