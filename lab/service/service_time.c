#include "lab/service/service_time.h"

#include <string.h>

/* Takes ":NAME" off the end of the first *bytes bytes of text. */
static bool take_suffix(const char *text, size_t *bytes, const char *name)
{
    size_t size = strlen(name) + 1;
    if (*bytes < size || text[*bytes - size] != ':' ||
        memcmp(text + *bytes - size + 1, name, size - 1) != 0)
        return false;
    *bytes -= size;
    return true;
}

bool service_time_parse(const char *text, struct service_time *service_time)
{
    struct service_time taken = {.work = false};
    size_t bytes = strlen(text);
    taken.locked = take_suffix(text, &bytes, "locked");
    if (!taken.locked)
        take_suffix(text, &bytes, "unlocked");
    taken.work = take_suffix(text, &bytes, "work");
    if (!taken.work)
        take_suffix(text, &bytes, "sleep");
    if (!delay_parse(text, bytes, SERVICE_TIME_MAX_NS, &taken.delay))
        return false;
    *service_time = taken;
    return true;
}
