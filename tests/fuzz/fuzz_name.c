/*
 * covers: wire/queue_name.c
 *
 * Names of queues and segments under libFuzzer. The input is a base and, behind the first NUL, a
 * name: no name is taken but one that is formed from base, role, pid and number; what is formed
 * from a valid base is taken for its own role, with the pid that it was formed from, and for no
 * other role.
 */
#include "tests/fuzz/fuzzing.h"

#include "common/memory/cursor.h"
#include "wire/queue_name.h"

static const enum wire_queue_role roles[] = {WIRE_LANE,        WIRE_BULK_LANE,     WIRE_LOCK,
                                             WIRE_REPLY_QUEUE, WIRE_REPLY_SEGMENT, WIRE_REPLY_RING};
#define ROLES (sizeof roles / sizeof roles[0])

static bool of_client(enum wire_queue_role role)
{
    return role == WIRE_REPLY_QUEUE || role == WIRE_REPLY_SEGMENT || role == WIRE_REPLY_RING;
}

/* A valid base is one name below the root of the file system of queues, and nothing else. */
static void check_base(const char *base)
{
    if (!wire_name_valid(base))
        return;
    require(base[0] == '/' && !strchr(base + 1, '/') && strcmp(base, "/..") != 0);
    require(strlen(base) >= 2 && strlen(base) <= 1 + WIRE_BASE_NAME_MAX_CHARS);
}

static void check_taken(const char *base, const char *name, size_t size)
{
    for (size_t i = 0; i < ROLES; i++) {
        pid_t pid = -1;
        if (!wire_queue_name_parse(name, size, base, roles[i], &pid))
            continue;
        require(size < WIRE_QUEUE_NAME_BYTES && size >= strlen(base));
        require(memcmp(name, base, strlen(base)) == 0);
        require(of_client(roles[i]) ? pid > 0 : pid == 0);
        for (size_t j = strlen(base); j < size; j++)
            require(name[j] > ' ' && name[j] != '/');
    }
}

static void check_formed(const char *base, pid_t pid, unsigned number)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    for (size_t i = 0; i < ROLES; i++) {
        wire_queue_name(name, base, roles[i], pid, number);
        for (size_t j = 0; j < ROLES; j++) {
            pid_t found = -1;
            bool taken = wire_queue_name_parse(name, strlen(name), base, roles[j], &found);
            require(taken == (i == j));
            require(!taken || !of_client(roles[j]) || found == pid);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8)
        return 0;
    pid_t pid = (pid_t)(1 + load_u32(data) % INT32_MAX);
    unsigned number = load_u32(data + 4);
    char *base = text_of(data + 8, size - 8);
    size_t used = 8 + strlen(base) + 1;
    check_base(base);
    if (wire_name_valid(base)) {
        check_formed(base, pid, number);
        if (used < size) {
            size_t name_bytes = size - used;
            char *name = malloc(name_bytes); /* of exactly its size, without NUL */
            require(name != NULL);
            memcpy(name, data + used, name_bytes);
            check_taken(base, name, name_bytes);
            free(name);
        }
    }
    free(base);
    return 0;
}
