#include "bridges/python/extension/py_queue.h"

#include <stdlib.h>

#include "bridges/python/extension/py_client.h"
#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_operation.h"
#include "mqkv/clientk_queue.h"

#define MOST_JOBS 64u

struct py_queue {
    PyObject_HEAD PyObject *client;
    PyObject *name; /* bytes */
    struct clientk_queue_options options;
    struct clientk_queue *queue; /* NULL: not open */
    struct clientk *opened_of;   /* the handle that it is of, */
    unsigned fork_generation;    /* and the process */
    bool busy;                   /* a thread is in a call */
};

static PyTypeObject *queue_type;

/* Calls ---------------------------------------------------------------------------------------- */

static void py_queue_forget(struct py_queue *self)
{
    struct clientk_queue *queue = self->queue;
    self->queue = NULL;
    if (!queue || self->fork_generation != py_fork_generation())
        return; /* the parent's: a child must not end its sessions */
    Py_BEGIN_ALLOW_THREADS
    clientk_queue_close(queue);
    Py_END_ALLOW_THREADS
}

static bool py_queue_open(struct py_queue *self, struct clientk *client)
{
    struct kv_error error = {0};
    char *bytes;
    Py_ssize_t size;
    if (self->queue && self->opened_of == client && self->fork_generation == py_fork_generation())
        return true;
    py_queue_forget(self);
    if (PyBytes_AsStringAndSize(self->name, &bytes, &size) < 0)
        return false;
    enum kv_status status = clientk_queue_open(client, kv_slice(bytes, (size_t)size),
                                               &self->options, &self->queue, &error);
    self->opened_of = client;
    self->fork_generation = py_fork_generation();
    if (status != KV_OK)
        py_raise_status(status, error.text, NULL, NULL);
    return status == KV_OK;
}

/* False: an exception is set. py_queue_leave ends what it began. */
static bool py_queue_enter(struct py_queue *self)
{
    if (self->busy && self->fork_generation == py_fork_generation()) {
        PyErr_SetString(PyExc_RuntimeError, "a queue is for one thread at a time");
        return false;
    }
    struct clientk *client = py_handle_enter(self->client);
    if (!client)
        return false;
    self->busy = true;
    if (py_queue_open(self, client))
        return true;
    self->busy = false;
    py_handle_leave(self->client);
    return false;
}

/* Returns true if the call went well; else an exception is set. */
static bool py_queue_leave(struct py_queue *self, enum kv_status status)
{
    self->busy = false;
    py_handle_leave(self->client);
    if (!py_was_interrupted() && status != KV_OK)
        py_raise_status(status, clientk_last_error(), NULL, NULL);
    return !PyErr_Occurred();
}

/* Jobs ----------------------------------------------------------------------------------------- */

static PyObject *job_bytes(const struct clientk_value *value)
{
    return PyBytes_FromStringAndSize(value->data, (Py_ssize_t)value->size);
}

/* (payload, receipt, id, priority, attempts, max_attempts, put_ms, until_ms, reason) */
static PyObject *tuple_of_job(const struct clientk_job *job)
{
    char receipt[CLIENTK_RECEIPT_BYTES];
    clientk_queue_receipt(job, receipt);
    return Py_BuildValue("NsKIIIKKN", job_bytes(&job->payload), receipt,
                         (unsigned long long)job->id, job->priority, job->attempts,
                         job->max_attempts, (unsigned long long)job->put_ms,
                         (unsigned long long)job->until_ms, job_bytes(&job->reason));
}

/* Reads a receipt. False: an exception is set. */
static bool take_receipt(PyObject *object, struct clientk_job *job)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (!text)
        return false;
    *job = (struct clientk_job){.id = 0};
    enum kv_status status = clientk_queue_read_receipt(kv_slice(text, (size_t)size), job);
    if (status != KV_OK)
        py_raise_status(status, clientk_last_error(), NULL, NULL);
    return status == KV_OK;
}

/* put ----------------------------------------------------------------------------------------- */

/* The slices of a list of payloads, and the references that keep their bytes. */
struct payloads {
    struct kv_slice *slices;
    PyObject **owned;
    size_t count;
};

static void release_payloads(struct payloads *payloads)
{
    for (size_t i = 0; i < payloads->count; i++)
        Py_DECREF(payloads->owned[i]);
    free(payloads->slices);
    free(payloads->owned);
}

static bool take_payloads(PyObject *list, struct payloads *payloads)
{
    size_t count = (size_t)PyList_Size(list);
    *payloads = (struct payloads){.slices = calloc(count + 1, sizeof *payloads->slices),
                                  .owned = calloc(count + 1, sizeof *payloads->owned)};
    if (!payloads->slices || !payloads->owned) {
        PyErr_NoMemory();
        release_payloads(payloads);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        if (!item || !py_take_bytes(item, &payloads->slices[i], &payloads->owned[i])) {
            release_payloads(payloads);
            return false;
        }
        payloads->count++;
    }
    return true;
}

static PyObject *list_of_ids(const uint64_t *ids, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *id = PyLong_FromUnsignedLongLong(ids[i]);
        if (!id || PyList_SetItem(list, (Py_ssize_t)i, id) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *py_queue_put(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_put_job_options options = {0};
    struct payloads payloads;
    PyObject *list, *answer = NULL;
    unsigned long long delay_ms;
    if (!PyArg_ParseTuple(arguments, "O!IKII", &PyList_Type, &list, &options.priority, &delay_ms,
                          &options.max_attempts, &options.backoff_ms) ||
        !take_payloads(list, &payloads))
        return NULL;
    options.delay_ms = delay_ms;
    uint64_t *ids = calloc(payloads.count + 1, sizeof *ids);
    if (!ids) {
        PyErr_NoMemory();
    } else if (py_queue_enter(self)) {
        enum kv_status status;
        Py_BEGIN_ALLOW_THREADS
        status =
            clientk_queue_put(self->queue, payloads.slices, payloads.count, &options, ids, NULL);
        Py_END_ALLOW_THREADS
        if (py_queue_leave(self, status))
            answer = list_of_ids(ids, payloads.count);
    }
    free(ids);
    release_payloads(&payloads);
    return answer;
}

/* take ----------------------------------------------------------------------------------------- */

static PyObject *list_of_jobs(const struct clientk_job *jobs, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *job = tuple_of_job(&jobs[i]);
        if (!job || PyList_SetItem(list, (Py_ssize_t)i, job) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Gives back jobs that nobody gets. */
static void give_back(struct clientk_queue *queue, const struct clientk_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        clientk_queue_release(queue, &jobs[i], 0);
}

static PyObject *py_queue_take(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job jobs[MOST_JOBS] = {{.id = 0}};
    unsigned count;
    int timeout_ms;
    size_t taken = 0;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(arguments, "Ii", &count, &timeout_ms) || !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_take(self->queue, count, timeout_ms, jobs, &taken);
    Py_END_ALLOW_THREADS
    if (status == KV_NOT_FOUND)
        status = KV_OK; /* an empty list */
    if (!py_was_interrupted() && status == KV_OK)
        list = list_of_jobs(jobs, taken);
    if (!list)
        give_back(self->queue, jobs, taken);
    for (size_t i = 0; i < taken; i++)
        clientk_job_free(&jobs[i]);
    if (!py_queue_leave(self, status))
        Py_CLEAR(list);
    return list;
}

/* Settling ------------------------------------------------------------------------------------- */

static PyObject *py_queue_ack(PyObject *object, PyObject *list)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job jobs[MOST_JOBS];
    Py_ssize_t count = PyList_Size(list);
    if (count < 0 || count > (Py_ssize_t)MOST_JOBS) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "at most 64 jobs are acknowledged at once");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take_receipt(PyList_GetItem(list, i), &jobs[i]))
            return NULL;
    if (!py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_ack(self->queue, jobs, (size_t)count);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    Py_RETURN_NONE;
}

/* fail(receipt, reason, delay_ms), which below 0 is as the backoff says; returns whether it is
 * dead. */
static PyObject *py_queue_fail(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job job;
    PyObject *receipt;
    const char *reason;
    Py_ssize_t reason_bytes;
    long long delay_ms;
    bool dead = false;
    if (!PyArg_ParseTuple(arguments, "Uy#L", &receipt, &reason, &reason_bytes, &delay_ms) ||
        !take_receipt(receipt, &job) || !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_fail(self->queue, &job, kv_slice(reason, (size_t)reason_bytes), delay_ms,
                                &dead);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    return PyBool_FromLong(dead);
}

static PyObject *py_queue_bury(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job job;
    PyObject *receipt;
    const char *reason;
    Py_ssize_t reason_bytes;
    if (!PyArg_ParseTuple(arguments, "Uy#", &receipt, &reason, &reason_bytes) ||
        !take_receipt(receipt, &job) || !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_bury(self->queue, &job, kv_slice(reason, (size_t)reason_bytes));
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_queue_release(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job job;
    PyObject *receipt;
    unsigned long long delay_ms;
    if (!PyArg_ParseTuple(arguments, "UK", &receipt, &delay_ms) || !take_receipt(receipt, &job) ||
        !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_release(self->queue, &job, delay_ms);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    Py_RETURN_NONE;
}

/* extend(receipt, lease_ms); returns when the lease ends. */
static PyObject *py_queue_extend(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_job job;
    PyObject *receipt;
    unsigned long long lease_ms;
    if (!PyArg_ParseTuple(arguments, "UK", &receipt, &lease_ms) || !take_receipt(receipt, &job) ||
        !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_extend(self->queue, &job, lease_ms);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    return PyLong_FromUnsignedLongLong(job.until_ms);
}

/* Looking -------------------------------------------------------------------------------------- */

/* lengths(): (ready, leased, later, dead) */
static PyObject *py_queue_lengths(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_queue *self = (struct py_queue *)object;
    struct clientk_queue_lengths lengths = {0};
    if (!py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_length(self->queue, &lengths);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    return Py_BuildValue("KKKK", (unsigned long long)lengths.ready,
                         (unsigned long long)lengths.leased, (unsigned long long)lengths.later,
                         (unsigned long long)lengths.dead);
}

/* A clientk_visit_job, without the GIL. */
static bool list_job(void *context, const struct clientk_job *job, enum clientk_job_state state)
{
    (void)state;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *tuple = tuple_of_job(job);
    bool added = tuple && PyList_Append(context, tuple) == 0;
    Py_XDECREF(tuple);
    PyGILState_Release(gil);
    return added;
}

static PyObject *py_queue_list(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    int state;
    unsigned long long limit;
    if (!PyArg_ParseTuple(arguments, "iK", &state, &limit))
        return NULL;
    PyObject *list = PyList_New(0);
    if (!list || !py_queue_enter(self)) {
        Py_XDECREF(list);
        return NULL;
    }
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_list(self->queue, (enum clientk_job_state)state, limit, list_job, list);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        Py_CLEAR(list);
    return list;
}

static PyObject *py_queue_revive(PyObject *object, PyObject *limit_given)
{
    struct py_queue *self = (struct py_queue *)object;
    uint64_t count = 0;
    unsigned long long limit = PyLong_AsUnsignedLongLong(limit_given);
    if (PyErr_Occurred() || !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_revive(self->queue, limit, &count);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    return PyLong_FromUnsignedLongLong(count);
}

static PyObject *py_queue_drop(PyObject *object, PyObject *arguments)
{
    struct py_queue *self = (struct py_queue *)object;
    int state;
    unsigned long long limit;
    uint64_t count = 0;
    if (!PyArg_ParseTuple(arguments, "iK", &state, &limit) || !py_queue_enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_queue_drop(self->queue, (enum clientk_job_state)state, limit, &count);
    Py_END_ALLOW_THREADS
    if (!py_queue_leave(self, status))
        return NULL;
    return PyLong_FromUnsignedLongLong(count);
}

/* The type ------------------------------------------------------------------------------------- */

static PyObject *py_queue_new(PyTypeObject *type, PyObject *positional, PyObject *named)
{
    static char *names[] = {"client", "name", "lease_ms", "durability", NULL};
    PyObject *client, *name, *durability = NULL;
    struct clientk_queue_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(positional, named, "OSI|O", names, &client, &name,
                                     &options.lease_ms, &durability) ||
        !py_take_durability(durability, &options.durability))
        return NULL;
    if (!py_client_check(client)) {
        PyErr_SetString(PyExc_TypeError, "a Queue needs a Client");
        return NULL;
    }
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_queue *self = (struct py_queue *)allocate(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(client);
    Py_INCREF(name);
    self->client = client;
    self->name = name;
    self->options = options;
    if (py_queue_enter(self) && py_queue_leave(self, KV_OK)) /* the name is one */
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void py_queue_dealloc(PyObject *object)
{
    struct py_queue *self = (struct py_queue *)object;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    py_queue_forget(self);
    PyErr_Restore(type, value, traceback);
    Py_CLEAR(self->client);
    Py_CLEAR(self->name);
    py_free_object(object);
}

static PyMethodDef queue_methods[] = {
    {"put", py_queue_put, METH_VARARGS, "See mqkv.Queue."},
    {"take", py_queue_take, METH_VARARGS, "See mqkv.Queue."},
    {"ack", py_queue_ack, METH_O, "See mqkv.Queue."},
    {"fail", py_queue_fail, METH_VARARGS, "See mqkv.Queue."},
    {"bury", py_queue_bury, METH_VARARGS, "See mqkv.Queue."},
    {"release", py_queue_release, METH_VARARGS, "See mqkv.Queue."},
    {"extend", py_queue_extend, METH_VARARGS, "See mqkv.Queue."},
    {"lengths", py_queue_lengths, METH_NOARGS, "See mqkv.Queue."},
    {"list", py_queue_list, METH_VARARGS, "See mqkv.Queue."},
    {"revive", py_queue_revive, METH_O, "See mqkv.Queue."},
    {"drop", py_queue_drop, METH_VARARGS, "See mqkv.Queue."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot queue_slots[] = {PY_SLOT(Py_tp_new, py_queue_new),
                                    PY_SLOT(Py_tp_dealloc, py_queue_dealloc),
                                    {Py_tp_methods, queue_methods},
                                    {Py_tp_doc, "A queue for jobs, for one thread at a time."},
                                    {0, NULL}};
static PyType_Spec queue_spec = {"mqkv._mqkv.Queue", sizeof(struct py_queue), 0, Py_TPFLAGS_DEFAULT,
                                 queue_slots};

bool py_queue_setup(PyObject *module)
{
    queue_type = (PyTypeObject *)PyType_FromSpec(&queue_spec);
    return queue_type && PyModule_AddObjectRef(module, "Queue", (PyObject *)queue_type) == 0;
}
