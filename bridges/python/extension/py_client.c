/* mqkv._mqkv.Client: the calls of a handle. mqkv.Client adds what Python can say better. */
#include "bridges/python/extension/py_client.h"

#include <stdlib.h>

#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_range.h"
#include "bridges/python/extension/py_result.h"

static PyTypeObject *client_type;

/* Single calls ------------------------------------------------------------------------------ */

/* The library's call for the operation, without the GIL. */
static enum kv_status call(struct clientk *client, const struct clientk_operation *operation,
                           struct clientk_result *result)
{
    uint64_t size = 0;
    uint64_t *version = &result->value.version;
    switch (operation->opcode) {
    case CLIENTK_GET:
        return clientk_get(client, operation->key, &result->value);
    case CLIENTK_EXISTS:
        return clientk_exists(client, operation->key, &result->value);
    case CLIENTK_PUT:
        return clientk_put(client, operation->key, operation->value, &operation->write, version);
    case CLIENTK_DELETE:
        return clientk_delete(client, operation->key, &operation->write, version);
    case CLIENTK_ADD:
        return clientk_add(client, operation->key, operation->delta, &operation->add,
                           &result->number, version);
    case CLIENTK_SYNC:
        return clientk_sync(client);
    case CLIENTK_APPEND: {
        enum kv_status status = clientk_append(client, operation->key, operation->value,
                                               &operation->write, &size, version);
        result->number = (int64_t)size;
        return status;
    }
    case CLIENTK_EXCHANGE: {
        uint64_t new_version = 0;
        enum kv_status status =
            clientk_exchange(client, operation->key, operation->value, &operation->write,
                             &result->value, &result->found, &new_version);
        result->value.version = new_version;
        return status;
    }
    default: {
        enum kv_status status = clientk_execute(client, operation, 1, result);
        return status == KV_OK ? result->status : status;
    }
    }
}

/* Executes the operation. The sentence of a failure is that of this thread's last error. */
static bool execute_one(PyObject *self, const struct clientk_operation *operation,
                        struct clientk_result *result)
{
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return false;
    result->value = py_handle_take_value((struct py_handle *)self);
    Py_BEGIN_ALLOW_THREADS
    result->status = call(client, operation, result);
    Py_END_ALLOW_THREADS
    py_handle_leave(self);
    return !py_was_interrupted();
}

/* A key that is not there is no failure of which the library has a sentence. */
static const char *call_sentence(enum kv_status status)
{
    return status == KV_NOT_FOUND ? NULL : clientk_last_error();
}

static PyObject *raise_failure(enum kv_status status, PyObject *key)
{
    return py_raise_status(status, call_sentence(status), key, NULL);
}

static PyObject *finish_call(const struct py_operation *parsed, PyObject *result,
                             const struct clientk_result *from)
{
    if (!py_result_fill(result, from))
        return NULL;
    PyObject *answer = py_result_answer(result, call_sentence(from->status));
    if (answer && parsed->with_version)
        return Py_BuildValue("(NN)", answer, py_result_version(result));
    return answer;
}

static PyObject *client_call(PyObject *self, enum clientk_opcode opcode,
                             const struct py_arguments *arguments)
{
    struct py_operation parsed;
    if (!py_operation_parse(&parsed, opcode, arguments, PY_EXTRA_WITH_VERSION))
        return NULL;
    struct clientk_result from = {.status = KV_OK};
    PyObject *result = py_result_new(&parsed);
    PyObject *answer = NULL;
    if (result && execute_one(self, &parsed.operation, &from))
        answer = finish_call(&parsed, result, &from);
    py_handle_give_value((struct py_handle *)self, &from.value);
    Py_XDECREF(result);
    py_operation_release(&parsed);
    return answer;
}

PY_DEFINE_OPERATION_METHODS(client, client_call)

/* GET has a way of its own: it is what is called most. absent: what is returned where there is no
 * such key; NULL: that is an exception. */
static PyObject *get_value(PyObject *self, PyObject *key, PyObject *absent,
                           struct clientk_result *from)
{
    struct clientk_operation operation = {.opcode = CLIENTK_GET};
    PyObject *owned, *value = NULL;
    if (!py_take_bytes(key, &operation.key, &owned))
        return NULL;
    if (execute_one(self, &operation, from)) {
        if (from->status == KV_OK) {
            value = PyBytes_FromStringAndSize(from->value.data, (Py_ssize_t)from->value.size);
        } else if (from->status == KV_NOT_FOUND && absent) {
            Py_INCREF(absent);
            value = absent;
        } else {
            raise_failure(from->status, owned);
        }
    }
    Py_DECREF(owned);
    return value;
}

static bool take_get_arguments(const struct py_arguments *arguments, PyObject **key,
                               PyObject **fallback)
{
    static const char *const names[] = {"key", "default"};
    PyObject *given[2] = {NULL, NULL};
    Py_ssize_t named = arguments->names ? PyTuple_Size(arguments->names) : 0;
    bool fits = arguments->count <= 2;
    for (Py_ssize_t i = 0; fits && i < arguments->count; i++)
        given[i] = arguments->values[i];
    for (Py_ssize_t i = 0; fits && i < named; i++) {
        PyObject *name = PyTuple_GetItem(arguments->names, i);
        int place = PyUnicode_CompareWithASCIIString(name, names[0]) == 0   ? 0
                    : PyUnicode_CompareWithASCIIString(name, names[1]) == 0 ? 1
                                                                            : -1;
        fits = place >= 0 && !given[place];
        if (fits)
            given[place] = arguments->values[arguments->count + i];
    }
    *key = given[0];
    *fallback = given[1] ? given[1] : Py_None;
    if (fits && given[0])
        return true;
    PyErr_SetString(PyExc_TypeError, "get() takes a key and a default");
    return false;
}

static PyObject *client_get(PyObject *self, PyObject *const *values, Py_ssize_t count,
                            PyObject *names)
{
    PyObject *key, *fallback;
    if (!take_get_arguments(&(struct py_arguments){values, count, names}, &key, &fallback))
        return NULL;
    struct clientk_result from = {.status = KV_OK};
    PyObject *value = get_value(self, key, fallback, &from);
    py_handle_give_value((struct py_handle *)self, &from.value);
    return value;
}

/* Facts ------------------------------------------------------------------------------------- */

static PyObject *client_entry(PyObject *self, PyObject *key)
{
    struct clientk_result from = {.status = KV_OK};
    PyObject *value = get_value(self, key, NULL, &from);
    PyObject *entry = NULL;
    struct kv_slice bytes;
    PyObject *owned;
    if (value && py_take_bytes(key, &bytes, &owned)) {
        entry = py_result_entry(PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size),
                                value, from.value.version, from.value.expiry_ms);
        Py_DECREF(owned);
    }
    py_handle_give_value((struct py_handle *)self, &from.value);
    return entry;
}

static PyObject *client_stat(PyObject *self, PyObject *key)
{
    struct clientk_operation operation = {.opcode = CLIENTK_EXISTS};
    struct clientk_result from = {.status = KV_OK};
    PyObject *owned, *stat = NULL;
    if (!py_take_bytes(key, &operation.key, &owned))
        return NULL;
    if (execute_one(self, &operation, &from)) {
        if (from.status == KV_OK)
            stat = py_result_stat(&from);
        else
            raise_failure(from.status, owned);
    }
    py_handle_give_value((struct py_handle *)self, &from.value);
    Py_DECREF(owned);
    return stat;
}

static PyObject *client_ping(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return NULL;
    uint64_t round_trip_ns = 0;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_ping(client, &round_trip_ns);
    Py_END_ALLOW_THREADS
    py_handle_leave(self);
    if (py_was_interrupted())
        return NULL;
    if (status != KV_OK)
        return py_raise_status(status, clientk_last_error(), NULL, NULL);
    return PyFloat_FromDouble((double)round_trip_ns / 1e9);
}

static PyObject *client_set_priority(PyObject *self, PyObject *number)
{
    unsigned long priority = PyLong_AsUnsignedLong(number);
    if (priority == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return NULL;
    unsigned clamped = priority < UINT8_MAX ? (unsigned)priority : UINT8_MAX;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_set_priority(client, clamped);
    Py_END_ALLOW_THREADS
    py_handle_leave(self);
    if (status != KV_OK)
        return py_raise_status(status, clientk_last_error(), NULL, NULL);
    ((struct py_handle *)self)->options.priority = (uint8_t)clamped;
    Py_RETURN_NONE;
}

static PyObject *client_info(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct clientk *client = py_handle_enter(self);
    if (!client)
        return NULL;
    struct clientk_info info = {0};
    Py_BEGIN_ALLOW_THREADS
    clientk_info(client, &info);
    Py_END_ALLOW_THREADS
    PyObject *facts = Py_BuildValue(
        "{sIsKsIsIsIsIsIsKsKsKszszsKsKszsssN}", "server_pid", info.server_pid, "max_value_bytes",
        (unsigned long long)info.max_value_bytes, "sessions", info.sessions, "reply_depth",
        info.reply_depth, "reply_bytes", info.reply_bytes, "lane_bytes", info.lane_bytes,
        "bulk_bytes", info.bulk_bytes, "messages", (unsigned long long)info.messages, "operations",
        (unsigned long long)info.operations, "reconnects", (unsigned long long)info.reconnects,
        "replies", info.replies, "replies_reason", info.replies_reason, "direct_reads",
        (unsigned long long)info.direct_reads, "direct_asks", (unsigned long long)info.direct_asks,
        "direct_reason", info.direct_reason, "direct", py_direct_names[info.direct], "read_only",
        PyBool_FromLong(info.read_only));
    py_handle_leave(self);
    return facts;
}

static PyObject *client_is_closed(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct py_handle *)self)->closed);
}

static PyObject *client_queue(PyObject *self, void *ignored)
{
    (void)ignored;
    const char *queue = ((struct py_handle *)self)->queue;
    if (!queue || !*queue)
        queue = getenv("MQKV_QUEUE");
    return PyUnicode_FromString(queue && *queue ? queue : CLIENTK_DEFAULT_QUEUE);
}

/* The type ---------------------------------------------------------------------------------- */

static PyMethodDef client_methods[] = {
    PY_OPERATION_ROWS(client),
    PY_RANGE_ROWS,
    {"entry", client_entry, METH_O, "The entry with its version and expiry; NotFound."},
    {"stat", client_stat, METH_O, "Size, version and expiry without the value; NotFound."},
    {"ping", client_ping, METH_NOARGS, "One empty round trip; returns its seconds."},
    {"set_priority", client_set_priority, METH_O,
     "The priority, 0 to 31, of this client's messages from now on."},
    {"info", client_info, METH_NOARGS, "What is known of the server and this client, as a dict."},
    {"close", py_handle_close, METH_NOARGS,
     "Says goodbye to the server. Calls of other threads end first; closing twice is harmless."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef client_getters[] = {
    {"closed", client_is_closed, NULL, "Whether close() was called.", NULL},
    {"queue", client_queue, NULL, "The name of the server's queue.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot client_slots[] = {PY_SLOT(Py_tp_init, py_handle_init),
                                     PY_SLOT(Py_tp_dealloc, py_handle_dealloc),
                                     {Py_tp_methods, client_methods},
                                     {Py_tp_getset, client_getters},
                                     {Py_tp_doc, "A handle of libclientk; see mqkv.Client."},
                                     {0, NULL}};
static PyType_Spec client_spec = {"mqkv._mqkv.Client", sizeof(struct py_handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, client_slots};

bool py_client_check(PyObject *object)
{
    return PyObject_TypeCheck(object, client_type);
}

bool py_client_setup(PyObject *module)
{
    client_type = (PyTypeObject *)PyType_FromSpec(&client_spec);
    return client_type && PyModule_AddObjectRef(module, "Client", (PyObject *)client_type) == 0;
}
