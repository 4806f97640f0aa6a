#include "wire/queue_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/assert/assert.h"

bool wire_name_valid(const char *name)
{
    if (name[0] != '/' || strcmp(name, "/.") == 0 || strcmp(name, "/..") == 0)
        return false;
    /* Letters and digits of ASCII, whatever the locale. */
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t chars = strspn(name + 1, allowed);
    return chars > 0 && chars <= WIRE_BASE_NAME_MAX_CHARS && name[1 + chars] == '\0';
}

void wire_queue_name(char out[WIRE_QUEUE_NAME_BYTES], const char *base, enum wire_queue_role role,
                     pid_t pid, unsigned number)
{
    KV_ASSERT(wire_name_valid(base));
    switch (role) {
    case WIRE_LANE:
        if (number == 0)
            snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s", base);
        else
            snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.l%u", base, number);
        break;
    case WIRE_BULK_LANE:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.b%u", base, number);
        break;
    case WIRE_GUEST_LANE:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.g%u", base, number);
        break;
    case WIRE_READ_LANE:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.read", base);
        break;
    case WIRE_LOCK:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.lock", base);
        break;
    case WIRE_REPLY_QUEUE:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.c%d.%u", base, (int)pid, number);
        break;
    case WIRE_REPLY_SEGMENT:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.s%d.%u", base, (int)pid, number);
        break;
    case WIRE_REPLY_RING:
        snprintf(out, WIRE_QUEUE_NAME_BYTES, "%s.r%d.%u", base, (int)pid, number);
        break;
    }
}

/* Reads the digits at *at, which ends before `end`, as a number up to `max`, and moves *at behind
 * them. False: there are no digits, or the number is too big. Leading zeros are accepted. */
static bool name_take_number(const char **at, const char *end, uint64_t max, uint64_t *number)
{
    const char *start = *at;
    uint64_t sum = 0;
    while (*at < end && **at >= '0' && **at <= '9') {
        sum = sum * 10 + (uint64_t)(**at - '0');
        if (sum > max)
            return false;
        ++*at;
    }
    *number = sum;
    return *at > start;
}

bool wire_queue_name_parse(const char *name, size_t name_bytes, const char *base,
                           enum wire_queue_role role, pid_t *pid)
{
    size_t base_bytes = strlen(base);
    if (name_bytes >= WIRE_QUEUE_NAME_BYTES || name_bytes < base_bytes)
        return false;
    uint64_t found_pid = 0;
    uint64_t number = 0;
    bool with_pid =
        role == WIRE_REPLY_QUEUE || role == WIRE_REPLY_SEGMENT || role == WIRE_REPLY_RING;
    if (role != WIRE_LOCK && role != WIRE_READ_LANE && name_bytes > base_bytes + 2) {
        const char *at = name + base_bytes + 2, *end = name + name_bytes; /* behind ".<letter>" */
        if (!with_pid ||
            (name_take_number(&at, end, INT32_MAX, &found_pid) && at < end && *at++ == '.'))
            name_take_number(&at, end, UINT32_MAX, &number);
    }

    /* The name is well-formed if the numbers in it form the same name again: it has no leading
     * zeros, and nothing in front or behind. */
    char formed[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(formed, base, role, (pid_t)found_pid, (unsigned)number);
    if (strlen(formed) != name_bytes || memcmp(formed, name, name_bytes) != 0)
        return false;
    if (with_pid && found_pid == 0)
        return false;
    if (pid)
        *pid = (pid_t)found_pid;
    return true;
}
