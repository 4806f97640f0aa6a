#include "bridges/python/extension/py_watch.h"

#include "bridges/python/extension/py_client.h"
#include "bridges/python/extension/py_handle.h"

struct py_watch {
    PyObject_HEAD struct clientk_watch *watch; /* NULL: closed */
    bool busy;                                 /* a thread is in a call */
};

static PyTypeObject *watch_type;

/* Calls ---------------------------------------------------------------------------------------- */

/* False: an exception is set. py_watch_leave ends what it began. */
static bool py_watch_enter(struct py_watch *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "a watch is for one thread at a time");
    else if (!self->watch)
        py_raise_status(KV_USAGE, "the watch is closed", NULL, NULL);
    else
        self->busy = true;
    return !PyErr_Occurred();
}

/* Returns true if the call went well; else an exception is set. */
static bool py_watch_leave(struct py_watch *self, enum kv_status status)
{
    self->busy = false;
    if (!py_was_interrupted() && status != KV_OK)
        py_raise_status(status, clientk_last_error(), NULL, NULL);
    return !PyErr_Occurred();
}

static PyObject *py_watch_bytes(struct kv_slice slice)
{
    return PyBytes_FromStringAndSize(slice.data, (Py_ssize_t)slice.size);
}

/* (kind, key, value, version, expiry_ms, number, parts, goes_on) */
static PyObject *tuple_of_change(const struct py_watch *self, const struct clientk_change *change)
{
    struct clientk_change_transaction told = {0};
    clientk_watch_transaction(self->watch, &told);
    return Py_BuildValue("iNNKKKIN", (int)change->kind, py_watch_bytes(change->key),
                         py_watch_bytes(change->value), (unsigned long long)change->version,
                         (unsigned long long)change->expiry_ms, (unsigned long long)told.number,
                         (unsigned)told.parts, PyBool_FromLong(told.goes_on));
}

/* next(timeout_ms): None: there is no change yet. */
static PyObject *py_watch_next(PyObject *object, PyObject *number)
{
    struct py_watch *self = (struct py_watch *)object;
    long timeout_ms = PyLong_AsLong(number);
    if ((timeout_ms == -1 && PyErr_Occurred()) || !py_watch_enter(self))
        return NULL;
    struct clientk_change change;
    int clamped = timeout_ms > INT32_MAX ? INT32_MAX : timeout_ms < 0 ? -1 : (int)timeout_ms;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_watch_next(self->watch, clamped, &change);
    Py_END_ALLOW_THREADS
    PyObject *answer = NULL; /* an interrupted call has taken no change */
    if (!py_was_interrupted())
        answer = status == KV_OK        ? tuple_of_change(self, &change)
                 : status == KV_TIMEOUT ? Py_NewRef(Py_None)
                                        : NULL;
    if (!py_watch_leave(self, answer ? KV_OK : status))
        Py_CLEAR(answer);
    return answer;
}

static PyObject *py_watch_fileno(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_watch *self = (struct py_watch *)object;
    if (!py_watch_enter(self))
        return NULL;
    int descriptor = clientk_watch_fd(self->watch);
    if (!py_watch_leave(self, descriptor < 0 ? KV_USAGE : KV_OK))
        return NULL;
    return PyLong_FromLong(descriptor);
}

static PyObject *py_watch_position(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_watch *self = (struct py_watch *)object;
    if (!py_watch_enter(self))
        return NULL;
    struct clientk_value text = {0};
    enum kv_status status = clientk_watch_position(self->watch, &text);
    PyObject *answer = NULL;
    if (py_watch_leave(self, status))
        answer = PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "strict");
    clientk_value_free(&text);
    return answer;
}

/* Opening and closing -------------------------------------------------------------------------- */

static void py_watch_end(struct py_watch *self)
{
    struct clientk_watch *watch = self->watch;
    self->watch = NULL;
    if (!watch)
        return;
    Py_BEGIN_ALLOW_THREADS
    clientk_watch_close(watch);
    Py_END_ALLOW_THREADS
}

static PyObject *py_watch_close(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_watch *self = (struct py_watch *)object;
    if (!self->watch)
        Py_RETURN_NONE;
    if (!py_watch_enter(self))
        return NULL;
    py_watch_end(self);
    if (!py_watch_leave(self, KV_OK))
        return NULL;
    Py_RETURN_NONE;
}

static bool py_watch_open(struct py_watch *self, PyObject *handle,
                          const struct clientk_watch_options *options)
{
    struct clientk *client = py_handle_enter(handle);
    if (!client)
        return false;
    struct kv_error error = {0};
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_watch_open(client, options, &self->watch, &error);
    Py_END_ALLOW_THREADS
    py_handle_leave(handle);
    if (!py_was_interrupted() && status != KV_OK)
        py_raise_status(status, error.text, NULL, NULL);
    return !PyErr_Occurred();
}

static PyObject *py_watch_new(PyTypeObject *type, PyObject *positional, PyObject *named)
{
    static char *names[] = {"client", "prefix", "since", "keys_only", NULL};
    PyObject *client;
    const char *prefix, *since;
    Py_ssize_t prefix_bytes;
    int keys_only;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "Oy#zp", names, &client, &prefix,
                                     &prefix_bytes, &since, &keys_only))
        return NULL;
    if (!py_client_check(client)) {
        PyErr_SetString(PyExc_TypeError, "a Watch needs a Client");
        return NULL;
    }
    const struct clientk_watch_options options = {
        .prefix = kv_slice(prefix, (size_t)prefix_bytes), .since = since, .keys_only = keys_only};
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_watch *self = (struct py_watch *)allocate(type, 0);
    if (self && !py_watch_open(self, client, &options)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void py_watch_dealloc(PyObject *object)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    py_watch_end((struct py_watch *)object);
    PyErr_Restore(type, value, traceback);
    py_free_object(object);
}

static PyMethodDef watch_methods[] = {
    {"next", py_watch_next, METH_O, "See mqkv.Watch."},
    {"fileno", py_watch_fileno, METH_NOARGS,
     "A descriptor that is readable when next(0) has something to do."},
    {"position", py_watch_position, METH_NOARGS, "See mqkv.Watch."},
    {"close", py_watch_close, METH_NOARGS, "Ends it. Closing twice is harmless."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot watch_slots[] = {PY_SLOT(Py_tp_new, py_watch_new),
                                    PY_SLOT(Py_tp_dealloc, py_watch_dealloc),
                                    {Py_tp_methods, watch_methods},
                                    {Py_tp_doc, "A stream of changes, for one thread at a time."},
                                    {0, NULL}};
static PyType_Spec watch_spec = {"mqkv._mqkv.Watch", sizeof(struct py_watch), 0, Py_TPFLAGS_DEFAULT,
                                 watch_slots};

bool py_watch_setup(PyObject *module)
{
    watch_type = (PyTypeObject *)PyType_FromSpec(&watch_spec);
    return watch_type && PyModule_AddObjectRef(module, "Watch", (PyObject *)watch_type) == 0;
}
