#include "tests/support/test_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void require_fit(int length, size_t room, const char *text)
{
    if (length >= 0 && (size_t)length < room)
        return;
    fprintf(stderr, "test_names: too long: %s\n", text);
    abort();
}

void test_path(char *path, size_t path_bytes, const char *name)
{
    const char *dir = getenv("MQKV_TEST_DIR");
    if (!dir)
        dir = getenv("TMPDIR");
    require_fit(snprintf(path, path_bytes, "%s/%s", dir ? dir : "/tmp", name), path_bytes, path);
}

void test_queue_name(char *name, size_t name_bytes)
{
    const char *base = getenv("MQKV_TEST_QUEUE");
    require_fit(snprintf(name, name_bytes, "%s.%d", base ? base : "/t", (int)getpid()), name_bytes,
                name);
}
