#include "bridges/cluster/natskv/nats_subject.h"

#include <string.h>

static bool stands_for_itself(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '/' || byte == '-';
}

bool nats_subject_encode(struct kv_slice key, char *text, size_t capacity)
{
    static const char digits[] = "0123456789ABCDEF";
    const uint8_t *bytes = key.data;
    size_t at = 0;
    for (size_t i = 0; i < key.size; i++) {
        bool plain = stands_for_itself(bytes[i]);
        if (at + (plain ? 2 : 4) > capacity)
            return false;
        if (plain) {
            text[at++] = (char)bytes[i];
            continue;
        }
        text[at++] = '=';
        text[at++] = digits[bytes[i] >> 4];
        text[at++] = digits[bytes[i] & 15];
    }
    text[at] = '\0';
    return true;
}

static int digit_of(char text)
{
    if (text >= '0' && text <= '9')
        return text - '0';
    return text >= 'A' && text <= 'F' ? text - 'A' + 10 : -1;
}

bool nats_subject_decode(const char *text, uint8_t *key, size_t capacity, size_t *size)
{
    size_t at = 0;
    for (; *text; text++, at++) {
        if (at == capacity)
            return false;
        key[at] = (uint8_t)*text;
        if (stands_for_itself(key[at]))
            continue;
        if (*text != '=')
            return false;
        int high = digit_of(text[1]), low = high < 0 ? -1 : digit_of(text[2]);
        if (low < 0)
            return false;
        key[at] = (uint8_t)(high << 4 | low);
        if (stands_for_itself(key[at]))
            return false;
        text += 2;
    }
    *size = at;
    return at > 0;
}
