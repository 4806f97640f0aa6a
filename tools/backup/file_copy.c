#include "tools/backup/file_copy.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/memory/whole_io.h"
#include "common/report/error.h"
#include "kvstore/format/file_name.h"

/* The bytes that one call copies: few enough that neither Ctrl-C nor the server has to wait
 * long. */
#define STEP_BYTES (UINT64_C(16) << 20)

int file_copy_write(int fd, const void *bytes, size_t size, uint64_t offset)
{
    return whole_write(fd, bytes, size, (off_t)offset) ? 0 : -1;
}

static enum kv_status write_failed(const struct file_copy *copy, struct kv_error *error)
{
    struct file_name name = file_name(copy->from->number, FILE_LOG);
    return kv_error_set_errno(error, "%s/%s: cannot write the file", copy->dir, name.text);
}

/* Makes the copy from shared blocks of the whole file, its header page too, cut to what is held.
 * False: the file systems cannot do that. */
static bool share_blocks(struct file_copy *copy)
{
    if (ioctl(copy->to, FICLONE, copy->from->fd) != 0)
        return false;
    if (ftruncate(copy->to, (off_t)copy->from->bytes) != 0)
        return false;
    copy->shared_bytes = copy->from->bytes;
    return true;
}

/* Copies a step in the kernel and moves *offset. Returns 0: done; 1: the kernel cannot, or does not
 * say which of the two disks fails; -1: errno of the writing. */
static int copy_in_kernel(const struct file_copy *copy, uint64_t *offset)
{
    uint64_t left = copy->from->bytes - *offset;
    loff_t from = (loff_t)*offset, to = from;
    ssize_t copied = copy_file_range(copy->from->fd, &from, copy->to, &to,
                                     left < STEP_BYTES ? left : STEP_BYTES, 0);
    if (copied > 0) {
        *offset += (uint64_t)copied;
        return 0;
    }
    if (copied == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
        errno == EOPNOTSUPP || errno == EBADF || errno == EIO)
        return 1;
    return errno == EINTR ? 0 : -1;
}

static enum kv_status step_by_reading(const struct file_copy *copy, void *buffer, uint64_t *offset,
                                      struct kv_error *error)
{
    uint64_t left = copy->from->bytes - *offset;
    size_t size = copy->from->store->piece_bytes;
    size = left < size ? (size_t)left : size;
    enum kv_status status = held_file_read(copy->from, *offset, buffer, size, error);
    if (status != KV_OK)
        return status;
    if (file_copy_write(copy->to, buffer, size, *offset) != 0)
        return write_failed(copy, error);
    *offset += size;
    return KV_OK;
}

static enum kv_status step_in_kernel(struct file_copy *copy, bool *in_kernel, uint64_t *offset,
                                     struct kv_error *error)
{
    int result = copy_in_kernel(copy, offset);
    *in_kernel = result == 0;
    return result < 0 ? write_failed(copy, error) : held_store_keep(copy->from->store, error);
}

enum kv_status file_copy_run(struct file_copy *copy, uint64_t offset, struct kv_error *error)
{
    bool in_kernel = copy->from->fd >= 0;
    if (in_kernel && copy->is_new && share_blocks(copy))
        return held_store_keep(copy->from->store, error);
    void *buffer = malloc(copy->from->store->piece_bytes);
    if (!buffer)
        return kv_error_set(error, KV_NO_MEMORY, "no memory to copy data files");
    enum kv_status status = KV_OK;
    while (offset < copy->from->bytes && status == KV_OK) {
        status = in_kernel ? step_in_kernel(copy, &in_kernel, &offset, error)
                           : step_by_reading(copy, buffer, &offset, error);
        if (status == KV_OK && !copy->progress(copy->context, offset))
            status = kv_error_set(error, KV_TIMEOUT, "interrupted");
    }
    free(buffer);
    return status;
}
