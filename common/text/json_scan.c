#include "common/text/json_scan.h"

#include <string.h>

static void skip_blanks(struct json_scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\0' && strchr(" \t\r\n", *scan->at))
        scan->at++;
}

bool json_scan_take(struct json_scan *scan, char wanted)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != wanted)
        return false;
    scan->at++;
    return true;
}

bool json_scan_is_over(struct json_scan *scan)
{
    skip_blanks(scan);
    return scan->at == scan->end;
}

/* Skips a string from its opening quote on. */
static bool skip_quoted(struct json_scan *scan)
{
    for (scan->at++; scan->at < scan->end; scan->at++) {
        if (*scan->at == '"') {
            scan->at++;
            return true;
        }
        if (*scan->at == '\\' && ++scan->at == scan->end)
            break;
    }
    return false;
}

static bool skip_value(struct json_scan *scan)
{
    unsigned depth = 0;
    do {
        skip_blanks(scan);
        if (scan->at == scan->end)
            return false;
        char c = *scan->at;
        if (c == '"') {
            if (!skip_quoted(scan))
                return false;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_SCAN_DEEPEST)
                return false;
            scan->at++;
        } else if (depth == 0) {
            while (scan->at < scan->end && !strchr(",:]} \t\r\n", *scan->at))
                scan->at++;
        } else {
            depth -= c == '}' || c == ']';
            scan->at++;
        }
    } while (depth > 0);
    return true;
}

bool json_scan_value(struct json_scan *scan, struct kv_slice *value)
{
    skip_blanks(scan);
    const char *start = scan->at;
    if (!skip_value(scan))
        return false;
    *value = kv_slice(start, (size_t)(scan->at - start));
    return true;
}

bool json_scan_name(struct json_scan *scan, struct kv_slice *name)
{
    skip_blanks(scan);
    const char *quote = scan->at;
    if (quote == scan->end || *quote != '"' || !skip_quoted(scan))
        return false;
    *name = kv_slice(quote + 1, (size_t)(scan->at - quote) - 2);
    return json_scan_take(scan, ':');
}
