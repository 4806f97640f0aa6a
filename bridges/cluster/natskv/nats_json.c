#include "bridges/cluster/natskv/nats_json.h"

#include <string.h>

/* Deeper values are not looked into. */
#define MAX_DEPTH 16u

struct json_reader {
    const char *at, *end;
};

static void skip_space(struct json_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

static bool skip_string(struct json_reader *reader)
{
    for (reader->at++; reader->at < reader->end; reader->at++) {
        if (*reader->at == '"') {
            reader->at++;
            return true;
        }
        if (*reader->at == '\\')
            reader->at++;
    }
    reader->at = reader->end;
    return false;
}

/* Passes over one value. False: it does not end. */
static bool skip_value(struct json_reader *reader)
{
    unsigned depth = 0;
    skip_space(reader);
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == '"') {
            if (!skip_string(reader))
                return false;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH)
                return false;
            reader->at++;
            continue;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return true; /* of whoever holds the value */
            depth--;
            reader->at++;
        } else if (depth == 0 && c == ',') {
            return true;
        } else {
            reader->at++;
            if (depth == 0 && reader->at < reader->end && strchr(",}] \t\r\n", *reader->at))
                return true;
            continue;
        }
        if (depth == 0)
            return true;
    }
    return depth == 0;
}

struct kv_slice nats_json_member(struct kv_slice object, const char *name)
{
    const char *text = object.data;
    struct json_reader reader = {text, text + object.size};
    size_t name_size = strlen(name);
    skip_space(&reader);
    if (reader.at == reader.end || *reader.at++ != '{')
        return kv_slice(NULL, 0);
    for (;;) {
        skip_space(&reader);
        if (reader.at == reader.end || *reader.at != '"')
            return kv_slice(NULL, 0);
        const char *key = reader.at + 1;
        if (!skip_string(&reader))
            return kv_slice(NULL, 0);
        bool wanted = (size_t)(reader.at - 1 - key) == name_size && !memcmp(key, name, name_size);
        skip_space(&reader);
        if (reader.at == reader.end || *reader.at++ != ':')
            return kv_slice(NULL, 0);
        skip_space(&reader);
        const char *value = reader.at;
        if (!skip_value(&reader))
            return kv_slice(NULL, 0);
        if (wanted)
            return kv_slice(value, (size_t)(reader.at - value));
        skip_space(&reader);
        if (reader.at == reader.end || *reader.at++ != ',')
            return kv_slice(NULL, 0);
    }
}

bool nats_json_number(struct kv_slice object, const char *name, uint64_t *number)
{
    struct kv_slice value = nats_json_member(object, name);
    const char *digits = value.data;
    *number = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || *number > (UINT64_MAX - 9) / 10)
            return false;
        *number = *number * 10 + (uint64_t)(digits[i] - '0');
    }
    return value.size > 0;
}

bool nats_json_flag(struct kv_slice object, const char *name)
{
    return kv_slice_equal(nats_json_member(object, name), kv_slice_from_string("true"));
}

bool nats_json_string(struct kv_slice object, const char *name, struct kv_slice *text)
{
    struct kv_slice value = nats_json_member(object, name);
    const char *quoted = value.data;
    if (value.size < 2 || quoted[0] != '"')
        return false;
    *text = kv_slice(quoted + 1, value.size - 2);
    return true;
}

static int sextet_of(char text)
{
    if (text >= 'A' && text <= 'Z')
        return text - 'A';
    if (text >= 'a' && text <= 'z')
        return text - 'a' + 26;
    if (text >= '0' && text <= '9')
        return text - '0' + 52;
    return text == '+' ? 62 : text == '/' ? 63 : -1;
}

bool nats_json_base64(struct kv_slice text, uint8_t *bytes, size_t *size)
{
    const char *from = text.data;
    size_t left = text.size, at = 0;
    if (left % 4 != 0)
        return false;
    while (left > 0 && from[left - 1] == '=' && text.size - left < 2)
        left--;
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < left; i++) {
        int sextet = sextet_of(from[i]);
        if (sextet < 0)
            return false;
        bits = bits << 6 | (uint32_t)sextet;
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[at++] = (uint8_t)(bits >> held);
        }
    }
    *size = at;
    return true;
}
