#include "tools/backup/tar_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "common/report/error.h"

#define BLOCK_BYTES 512u
#define SILENCE_MS  3000

/* The header of a member. Numbers are octal and end with a NUL. */
struct tar_header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char time[12];
    char check[8];
    char kind;
    char link[100];
    char magic[6];
    char version[2];
    char rest[247];
};

_Static_assert(sizeof(struct tar_header) == BLOCK_BYTES, "layout");

static const char zeros[2 * BLOCK_BYTES];

static unsigned sum_of(const struct tar_header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    size_t from = offsetof(struct tar_header, check), to = from + sizeof header->check;
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *header; i++)
        sum += i >= from && i < to ? ' ' : bytes[i];
    return sum;
}

static size_t padding_of(uint64_t size)
{
    return (BLOCK_BYTES - size % BLOCK_BYTES) % BLOCK_BYTES;
}

/* Writing -------------------------------------------------------------------------------------- */

int tar_write(int fd, const void *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR && !interrupt_pending())
            continue;
        if (written <= 0)
            return -1;
        bytes = (const char *)bytes + written;
        size -= (size_t)written;
    }
    return 0;
}

static void put_octal(char *field, size_t field_bytes, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIo64, (int)field_bytes - 1, number);
    memcpy(field, text, field_bytes - 1);
}

static void put_size(struct tar_header *header, uint64_t size)
{
    if (size < UINT64_C(1) << 33) {
        put_octal(header->size, sizeof header->size, size);
        return;
    }
    for (size_t i = sizeof header->size; i-- > 0; size >>= 8)
        header->size[i] = (char)(size & 0xff);
    header->size[0] = (char)0x80;
}

int tar_begin_member(int fd, const char *name, uint64_t size, uint64_t time_ms)
{
    struct tar_header header = {.kind = '0', .magic = "ustar", .version = {'0', '0'}};
    snprintf(header.name, sizeof header.name, "%s", name);
    put_octal(header.mode, sizeof header.mode, 0600);
    put_octal(header.uid, sizeof header.uid, 0);
    put_octal(header.gid, sizeof header.gid, 0);
    put_size(&header, size);
    put_octal(header.time, sizeof header.time, time_ms / 1000);
    put_octal(header.check, sizeof header.check - 1, sum_of(&header));
    header.check[7] = ' ';
    return tar_write(fd, &header, sizeof header);
}

int tar_end_member(int fd, uint64_t size)
{
    return tar_write(fd, zeros, padding_of(size));
}

int tar_end(int fd)
{
    return tar_write(fd, zeros, sizeof zeros);
}

/* Reading -------------------------------------------------------------------------------------- */

enum kv_status tar_read(int fd, void *bytes, size_t size, struct kv_error *error)
{
    while (size > 0) {
        ssize_t got = read(fd, bytes, size);
        if (got < 0 && errno == EINTR && !interrupt_pending())
            continue;
        if (got < 0 && errno == EINTR)
            return kv_error_set(error, KV_TIMEOUT, "interrupted");
        if (got < 0)
            return kv_error_set_errno(error, "cannot read the backup");
        if (got == 0)
            return kv_error_set(error, KV_CORRUPT, "the backup ends too early: it was cut off");
        bytes = (char *)bytes + got;
        size -= (size_t)got;
    }
    return KV_OK;
}

enum kv_status tar_skip_padding(int fd, uint64_t size, struct kv_error *error)
{
    char padding[BLOCK_BYTES];
    return tar_read(fd, padding, padding_of(size), error);
}

/* Returns the number of an octal field; UINT64_MAX: it is no number. */
static uint64_t octal_of(const char *field, size_t field_bytes)
{
    uint64_t number = 0;
    size_t i = 0;
    while (i < field_bytes && field[i] == ' ')
        i++;
    for (; i < field_bytes && field[i] >= '0' && field[i] <= '7'; i++)
        number = number << 3 | (uint64_t)(field[i] - '0');
    return i > 0 && (i == field_bytes || field[i] == '\0' || field[i] == ' ') ? number : UINT64_MAX;
}

static uint64_t size_of(const struct tar_header *header)
{
    if (!((unsigned char)header->size[0] & 0x80))
        return octal_of(header->size, sizeof header->size);
    uint64_t size = 0;
    for (size_t i = 4; i < sizeof header->size; i++)
        size = size << 8 | (unsigned char)header->size[i];
    return size;
}

enum kv_status tar_next(int fd, struct tar_member *member, bool *end, struct kv_error *error)
{
    struct tar_header header;
    enum kv_status status = tar_read(fd, &header, sizeof header, error);
    if (status != KV_OK)
        return status;
    *end = memcmp(&header, zeros, sizeof header) == 0;
    if (*end)
        return KV_OK;
    member->size = size_of(&header);
    if (octal_of(header.check, sizeof header.check) != sum_of(&header) ||
        (header.kind != '0' && header.kind != '\0') || member->size > UINT64_MAX / 2)
        return kv_error_set(error, KV_CORRUPT, "this is no backup, or it is damaged");
    snprintf(member->name, sizeof member->name, "%.100s", header.name);
    return KV_OK;
}

void tar_take_end(int fd, uint64_t size)
{
    char end[sizeof zeros];
    struct pollfd stream = {.fd = fd, .events = POLLIN};
    size_t left = padding_of(size) + sizeof zeros;
    while (left > 0 && poll(&stream, 1, SILENCE_MS) > 0) {
        ssize_t got = read(fd, end, left < sizeof end ? left : sizeof end);
        if (got <= 0)
            return;
        left -= (size_t)got;
    }
}
