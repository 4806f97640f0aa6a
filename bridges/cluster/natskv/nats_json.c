#include "bridges/cluster/natskv/nats_json.h"

#include "common/text/json_scan.h"

struct kv_slice nats_json_member(struct kv_slice object, const char *name)
{
    struct json_scan scan = json_scan(object);
    struct kv_slice key, value;
    bool goes_on = json_scan_take(&scan, '{');
    while (goes_on && json_scan_name(&scan, &key) && json_scan_value(&scan, &value)) {
        if (kv_slice_equal(key, kv_slice_from_string(name)))
            return value;
        goes_on = json_scan_take(&scan, ',');
    }
    return kv_slice(NULL, 0);
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
