#include "tests/support/direct_case.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "tests/support/client_calls.h"

#define TEXT(text) kv_slice_from_string(text)

struct handmade_store made;
static struct client_settings settings;
struct direct direct;
struct direct_reader reader;

void direct_case_offer_of(uid_t uid, pid_t pid, uint64_t instance)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    ck_assert_int_ge(pidfd, 0);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = instance,
                                   .store_device = made.device,
                                   .store_inode = made.inode};
    direct_welcome(&direct, &welcome, uid, (struct direct_server){.fd = pidfd});
    close(pidfd);
}

void direct_case_offer(pid_t pid, uint64_t instance)
{
    direct_case_offer_of(geteuid(), pid, instance);
}

void direct_case_begin(enum clientk_direct mode, uint32_t datafiles, uint32_t stale_ms)
{
    handmade_store_make(&made, datafiles);
    settings = (struct client_settings){.direct = mode, .direct_stale_ms = stale_ms};
    direct_init(&direct, &settings);
    handles_lock();
    direct_readers_join(&direct.readers, &reader);
    handles_unlock();
    direct_case_offer(getpid(), 7);
}

void direct_case_begin_mapped(void)
{
    direct_case_begin(CLIENTK_DIRECT_MAP, 1, 0);
}

void direct_case_begin_pread(void)
{
    direct_case_begin(CLIENTK_DIRECT_PREAD, 1, 0);
}

void direct_case_end(void)
{
    handles_lock();
    direct_readers_leave(&direct.readers, &reader);
    handles_unlock();
    direct_free(&direct);
    handmade_store_remove(&made);
}

void assert_read(const char *key, const char *expected)
{
    struct clientk_value value = {.data = NULL};
    enum kv_status status = KV_IO;
    ck_assert_msg(direct_get(&direct, &reader, TEXT(key), true, &value, &status),
                  "%s is to be asked for", key);
    ck_assert_int_eq(status, expected ? KV_OK : KV_NOT_FOUND);
    if (expected)
        ck_assert_str_eq(value.data, expected);
    ck_assert_uint_eq(value.size, expected ? strlen(expected) : 0);
    clientk_value_free(&value);
}

void assert_asks(const char *key)
{
    struct clientk_value value = {.data = NULL};
    enum kv_status status;
    ck_assert(!direct_get(&direct, &reader, TEXT(key), true, &value, &status));
    clientk_value_free(&value);
}

void direct_case_put(const char *key, const char *value)
{
    handmade_put(&made, TEXT(key), TEXT(value), 0);
}

void direct_case_put_keys(void)
{
    char key[16], value[24];
    for (int i = 0; i < DIRECT_CASE_KEYS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        snprintf(value, sizeof value, "value%d", i);
        direct_case_put(key, value);
    }
}

void assert_keys(void)
{
    char key[16], value[24];
    for (int i = 0; i < DIRECT_CASE_KEYS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        snprintf(value, sizeof value, "value%d", i);
        assert_read(key, value);
    }
}
