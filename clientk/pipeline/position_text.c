#include "clientk/pipeline/position_text.h"

#include <stdlib.h>
#include <string.h>

#include "wire/change.h"

#define BEGINNING "w1."

/* The size of positions of more data files than there can be. */
#define MAX_BYTES ((size_t)WIRE_POSITION_BYTES << 12)

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t position_text_bytes(size_t size)
{
    return sizeof BEGINNING + (size * 4 + 2) / 3;
}

size_t position_text_write(const uint8_t *positions, size_t size, char *text)
{
    char *at = stpcpy(text, BEGINNING);
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | positions[i];
        for (count += 8; count >= 6; count -= 6)
            *at++ = digits[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *at++ = digits[bits << (6 - count) & 63];
    *at = '\0';
    return (size_t)(at - text);
}

/* Decodes `length` digits into `positions`. False: one is no digit, or bits are left over. */
static bool decode_positions(const char *text, size_t length, uint8_t *positions)
{
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            *positions++ = (uint8_t)(bits >> count);
        }
    }
    return (bits & ((1u << count) - 1)) == 0;
}

bool position_text_read(const char *text, uint8_t **positions, size_t *size)
{
    size_t beginning = strlen(BEGINNING);
    if (strncmp(text, BEGINNING, beginning) != 0)
        return false;
    text += beginning;
    size_t length = strlen(text);
    *size = length * 3 / 4;
    if (*size == 0 || *size > MAX_BYTES || *size % WIRE_POSITION_BYTES != 0 ||
        (*size * 4 + 2) / 3 != length)
        return false;
    *positions = malloc(*size);
    if (!*positions)
        return false;
    if (decode_positions(text, length, *positions))
        return true;
    free(*positions);
    *positions = NULL;
    *size = 0;
    return false;
}
