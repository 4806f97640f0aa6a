#include "bridges/python/extension/py_range.h"

#include <stdlib.h>
#include <string.h>

#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_result.h"

/* Entries are copied, since they come without the GIL: each is a range_entry with its bytes behind
 * it. */
struct range_entry {
    uint64_t version, expiry_ms;
    size_t key_bytes, value_bytes;
};

struct copied_range {
    const struct clientk_range *range;
    uint8_t *bytes;
    size_t used, room;
    bool at_end;
    char left_out[sizeof(((struct kv_error *)NULL)->text)]; /* empty: nothing */
};

static bool keep_entry(struct copied_range *page, const struct clientk_entry *entry)
{
    const struct range_entry kept = {entry->version, entry->expiry_ms, entry->key.size,
                                     entry->value.size};
    size_t size = sizeof kept + kept.key_bytes + kept.value_bytes;
    if (!page->bytes || page->room - page->used < size) {
        size_t room = 2 * (page->room + size);
        uint8_t *larger = realloc(page->bytes, room);
        if (!larger)
            return false;
        page->bytes = larger;
        page->room = room;
    }
    uint8_t *at = page->bytes + page->used;
    memcpy(at, &kept, sizeof kept);
    memcpy(at + sizeof kept, entry->key.data, kept.key_bytes);
    if (kept.value_bytes > 0)
        memcpy(at + sizeof kept + kept.key_bytes, entry->value.data, kept.value_bytes);
    page->used += size;
    return true;
}

/* Reads up to the range's limit, without the GIL. */
static enum kv_status read_range(struct clientk *client, struct copied_range *page)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    enum kv_status status = clientk_cursor_open(client, page->range, &cursor);
    while (status == KV_OK) {
        status = clientk_cursor_next(cursor, &entry);
        if (status == KV_OK && !keep_entry(page, &entry))
            status = KV_NO_MEMORY;
        if (status == KV_CORRUPT || status == KV_IO) {
            strncpy(page->left_out, clientk_last_error(), sizeof page->left_out - 1);
            status = KV_OK;
        }
    }
    clientk_cursor_close(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

/* A list of mqkv.Entry. NULL: an exception is set. */
static PyObject *list_of_entries(struct copied_range *page, uint64_t *count)
{
    PyObject *list = PyList_New(0);
    *count = 0;
    for (size_t at = 0; list && at < page->used; *count += 1) {
        struct range_entry kept;
        memcpy(&kept, page->bytes + at, sizeof kept);
        const char *key = (const char *)page->bytes + at + sizeof kept;
        at += sizeof kept + kept.key_bytes + kept.value_bytes;
        PyObject *value =
            page->range->keys_only
                ? Py_NewRef(Py_None)
                : PyBytes_FromStringAndSize(key + kept.key_bytes, (Py_ssize_t)kept.value_bytes);
        PyObject *entry =
            py_result_entry(PyBytes_FromStringAndSize(key, (Py_ssize_t)kept.key_bytes), value,
                            kept.version, kept.expiry_ms);
        if (!entry || PyList_Append(list, entry) != 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

/* Ends a call. False: an exception is set. */
static bool leave_range(PyObject *self, enum kv_status status)
{
    py_handle_leave(self);
    if (!py_was_interrupted() && status != KV_OK)
        py_raise_status(status, clientk_last_error(), NULL, NULL);
    return !PyErr_Occurred();
}

static PyObject *page_answer(struct copied_range *page)
{
    uint64_t count;
    PyObject *entries = list_of_entries(page, &count);
    if (!entries)
        return NULL;
    return Py_BuildValue("(NNz)", entries, PyBool_FromLong(count < page->range->limit),
                         page->left_out[0] ? page->left_out : NULL);
}

PyObject *py_range_page(PyObject *self, PyObject *arguments)
{
    const char *from, *to, *prefix;
    Py_ssize_t from_bytes, to_bytes, prefix_bytes;
    int behind, reverse, keys_only;
    unsigned limit;
    if (!PyArg_ParseTuple(arguments, "y#y#y#pppI", &from, &from_bytes, &to, &to_bytes, &prefix,
                          &prefix_bytes, &behind, &reverse, &keys_only, &limit))
        return NULL;
    const struct clientk_range range = {.from = kv_slice(from, (size_t)from_bytes),
                                        .to = kv_slice(to, (size_t)to_bytes),
                                        .prefix = kv_slice(prefix, (size_t)prefix_bytes),
                                        .behind_from = behind,
                                        .reverse = reverse,
                                        .keys_only = keys_only,
                                        .page = limit,
                                        .limit = limit};
    struct copied_range page = {.range = &range};
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = read_range(client, &page);
    Py_END_ALLOW_THREADS
    PyObject *answer = leave_range(self, status) ? page_answer(&page) : NULL;
    free(page.bytes);
    return answer;
}

/* Counts or deletes: (start, stop, prefix) with a limit for deletions. */
static PyObject *sum_range(PyObject *self, PyObject *arguments, const char *format,
                           enum kv_status (*sum)(struct clientk *client,
                                                 const struct clientk_range *range,
                                                 uint64_t *counted))
{
    const char *from, *to, *prefix;
    Py_ssize_t from_bytes, to_bytes, prefix_bytes;
    unsigned long long limit = 0;
    if (!PyArg_ParseTuple(arguments, format, &from, &from_bytes, &to, &to_bytes, &prefix,
                          &prefix_bytes, &limit))
        return NULL;
    const struct clientk_range range = {.from = kv_slice(from, (size_t)from_bytes),
                                        .to = kv_slice(to, (size_t)to_bytes),
                                        .prefix = kv_slice(prefix, (size_t)prefix_bytes),
                                        .limit = limit};
    uint64_t counted = 0;
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = sum(client, &range, &counted);
    Py_END_ALLOW_THREADS
    bool done = leave_range(self, status);
    return done ? PyLong_FromUnsignedLongLong(counted) : NULL;
}

PyObject *py_range_count(PyObject *self, PyObject *arguments)
{
    return sum_range(self, arguments, "y#y#y#", clientk_count_range);
}

PyObject *py_range_delete(PyObject *self, PyObject *arguments)
{
    return sum_range(self, arguments, "y#y#y#K", clientk_delete_range);
}
