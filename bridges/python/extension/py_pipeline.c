#include "bridges/python/extension/py_pipeline.h"

#include <stdlib.h>

#include "bridges/python/extension/py_client.h"
#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_result.h"

/* An operation that is complete, with a copy of its outcome: the library completes it while this
 * thread is without the GIL. */
struct py_completion {
    PyObject *result; /* a reference */
    struct clientk_result outcome;
};

struct py_pipeline {
    PyObject_HEAD PyObject *client;
    struct clientk_pipeline *pipeline;
    bool busy; /* a thread is in a call */
    struct py_completion *completions;
    size_t count, capacity; /* there is room for all that is pending */
};

static PyTypeObject *pipeline_type;

/* Completions ------------------------------------------------------------------------------- */

/* False if there is only a size, of an EXISTS or of a GET that was refused: data is what an earlier
 * operation left, which may be less. A value that is there has room for the NUL after it. */
static bool has_value(const struct clientk_value *value)
{
    return value->data && value->size < value->capacity;
}

/* Called by the library, without the GIL. */
static void take_completion(void *context, void *tag, const struct clientk_result *result)
{
    struct py_pipeline *self = context;
    struct py_completion *completion = &self->completions[self->count++];
    completion->result = tag;
    completion->outcome = *result;
    completion->outcome.value.data = NULL;
    if (!has_value(&result->value))
        return;
    completion->outcome.value.data = malloc(result->value.size + 1);
    if (completion->outcome.value.data) {
        memcpy(completion->outcome.value.data, result->value.data, result->value.size);
    } else {
        completion->outcome.status = KV_NO_MEMORY;
        completion->outcome.value.size = 0;
    }
}

static bool make_completion_room(struct py_pipeline *self)
{
    size_t needed = self->count + clientk_pipeline_pending(self->pipeline) + 1;
    if (needed <= self->capacity)
        return true;
    size_t capacity = needed < 32 ? 64 : 2 * needed;
    struct py_completion *grown = realloc(self->completions, capacity * sizeof *grown);
    if (!grown) {
        PyErr_NoMemory();
        return false;
    }
    self->completions = grown;
    self->capacity = capacity;
    return true;
}

/* Hands out what was completed; to the list too, if there is one. False: an exception is set. */
static bool deliver(struct py_pipeline *self, PyObject *list)
{
    bool delivered = true;
    for (size_t i = 0; i < self->count; i++) {
        struct py_completion *completion = &self->completions[i];
        delivered &= py_result_fill(completion->result, &completion->outcome);
        if (list && delivered)
            delivered &= PyList_Append(list, completion->result) == 0;
        Py_DECREF(completion->result);
        free(completion->outcome.value.data);
    }
    self->count = 0;
    return delivered;
}

/* Calls ------------------------------------------------------------------------------------- */

/* False: an exception is set. leave_pipeline ends what enter began. */
static bool enter(struct py_pipeline *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "a pipeline is for one thread at a time");
    else if (!self->pipeline)
        py_raise_status(KV_USAGE, "the pipeline is closed", NULL, NULL);
    else
        self->busy = true;
    return self->busy && !PyErr_Occurred();
}

static bool leave_pipeline(struct py_pipeline *self, enum kv_status status, PyObject *list)
{
    bool interrupted = py_was_interrupted();
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    if (interrupted)
        PyErr_Fetch(&type, &value, &traceback);
    bool delivered = deliver(self, list);
    self->busy = false;
    if (interrupted) {
        PyErr_Restore(type, value, traceback);
        return false;
    }
    if (delivered && status != KV_OK)
        py_raise_status(status, clientk_last_error(), NULL, list);
    return delivered && status == KV_OK;
}

static PyObject *pipeline_submit(PyObject *object, enum clientk_opcode opcode,
                                 const struct py_arguments *arguments)
{
    struct py_pipeline *self = (struct py_pipeline *)object;
    struct py_operation parsed;
    if (!py_operation_parse(&parsed, opcode, arguments, PY_EXTRA_TAG))
        return NULL;
    PyObject *result = NULL;
    if (enter(self)) {
        if (make_completion_room(self) && (result = py_result_new(&parsed))) {
            enum kv_status status;
            Py_INCREF(result);
            Py_BEGIN_ALLOW_THREADS
            status = clientk_pipeline_submit(self->pipeline, &parsed.operation, result);
            Py_END_ALLOW_THREADS
            if (status != KV_OK)
                Py_DECREF(result);
            if (!leave_pipeline(self, status, NULL))
                Py_CLEAR(result);
        } else {
            self->busy = false;
        }
    }
    py_operation_release(&parsed);
    return result;
}

PY_OPERATION_METHOD(pipeline, get, CLIENTK_GET, pipeline_submit)
PY_DEFINE_OPERATION_METHODS(pipeline, pipeline_submit)

static PyObject *pipeline_flush(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_pipeline *self = (struct py_pipeline *)object;
    if (!enter(self))
        return NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_pipeline_flush(self->pipeline);
    Py_END_ALLOW_THREADS
    if (!leave_pipeline(self, status, NULL))
        return NULL;
    Py_RETURN_NONE;
}

/* Never waits. An exception has what was completed before it. */
static PyObject *pipeline_process(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_pipeline *self = (struct py_pipeline *)object;
    PyObject *list = PyList_New(0);
    if (!list || !enter(self)) {
        Py_XDECREF(list);
        return NULL;
    }
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_pipeline_process(self->pipeline);
    Py_END_ALLOW_THREADS
    if (leave_pipeline(self, status, list))
        return list;
    Py_DECREF(list);
    return NULL;
}

static PyObject *pipeline_fileno(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_pipeline *self = (struct py_pipeline *)object;
    if (!enter(self))
        return NULL;
    int descriptor;
    Py_BEGIN_ALLOW_THREADS
    descriptor = clientk_pipeline_fd(self->pipeline);
    Py_END_ALLOW_THREADS
    if (!leave_pipeline(self, descriptor < 0 ? KV_LIMIT : KV_OK, NULL))
        return NULL;
    return PyLong_FromLong(descriptor);
}

static PyObject *pipeline_set_priority(PyObject *object, PyObject *number)
{
    struct py_pipeline *self = (struct py_pipeline *)object;
    unsigned long priority = PyLong_AsUnsignedLong(number);
    if ((priority == (unsigned long)-1 && PyErr_Occurred()) || !enter(self))
        return NULL;
    unsigned clamped = priority < UINT8_MAX ? (unsigned)priority : UINT8_MAX;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_pipeline_set_priority(self->pipeline, clamped);
    Py_END_ALLOW_THREADS
    if (!leave_pipeline(self, status, NULL))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pipeline_pending(PyObject *object, void *ignored)
{
    (void)ignored;
    struct py_pipeline *self = (struct py_pipeline *)object;
    return PyLong_FromSize_t(self->busy ? 0 : clientk_pipeline_pending(self->pipeline));
}

static PyObject *pipeline_is_closed(PyObject *object, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct py_pipeline *)object)->pipeline == NULL);
}

/* Opening and closing ----------------------------------------------------------------------- */

static void close_pipeline(struct py_pipeline *self)
{
    struct clientk_pipeline *pipeline = self->pipeline;
    if (!pipeline)
        return;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    clientk_pipeline_close(pipeline);
    Py_END_ALLOW_THREADS
    self->pipeline = NULL;
    self->busy = false;
}

static PyObject *pipeline_close(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    struct py_pipeline *self = (struct py_pipeline *)object;
    if (!self->pipeline)
        Py_RETURN_NONE;
    if (!enter(self))
        return NULL;
    close_pipeline(self);
    if (!leave_pipeline(self, KV_OK, NULL))
        return NULL;
    Py_RETURN_NONE;
}

static bool open_pipeline(struct py_pipeline *self, unsigned window, unsigned batch)
{
    struct clientk *client = py_handle_enter(self->client);
    if (!client)
        return false;
    struct kv_error error = {0};
    struct clientk_pipeline *pipeline = NULL;
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_pipeline_open(client, window, batch, take_completion, self, &pipeline, &error);
    Py_END_ALLOW_THREADS
    py_handle_leave(self->client);
    self->pipeline = pipeline;
    if (!py_was_interrupted() && status != KV_OK)
        py_raise_status(status, error.text, NULL, NULL);
    return !PyErr_Occurred();
}

static PyObject *pipeline_new(PyTypeObject *type, PyObject *positional, PyObject *named)
{
    static char *names[] = {"client", "window", "batch", NULL};
    PyObject *client;
    unsigned window = 0, batch = 0;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "O|II", names, &client, &window, &batch))
        return NULL;
    if (!py_client_check(client)) {
        PyErr_SetString(PyExc_TypeError, "a Pipeline needs a Client");
        return NULL;
    }
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_pipeline *self = (struct py_pipeline *)allocate(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(client);
    self->client = client;
    if (open_pipeline(self, window, batch))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* What is still pending is completed, as far as the timeout lets it. */
static void pipeline_dealloc(PyObject *object)
{
    struct py_pipeline *self = (struct py_pipeline *)object;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    close_pipeline(self);
    if (!deliver(self, NULL))
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, traceback);
    free(self->completions);
    Py_CLEAR(self->client);
    py_free_object(object);
}

static PyMethodDef pipeline_methods[] = {
    PY_OPERATION_ROWS(pipeline),
    {"flush", pipeline_flush, METH_NOARGS,
     "Sends what is pending and waits until everything is done. Each Result has its own status;\n"
     "an exception says what stopped a message."},
    {"process", pipeline_process, METH_NOARGS,
     "In an event loop: completes what has come, sends what was submitted, and returns the\n"
     "Results that were completed. Never waits."},
    {"fileno", pipeline_fileno, METH_NOARGS,
     "Hands the pipeline to an event loop: a descriptor that is readable when process() has\n"
     "something to do. No call but flush() and close() waits from then on."},
    {"set_priority", pipeline_set_priority, METH_O,
     "The priority, 0 to 31, of operations from now on."},
    {"close", pipeline_close, METH_NOARGS, "Flushes and closes. Closing twice is harmless."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef pipeline_getters[] = {
    {"pending", pipeline_pending, NULL, "Operations that are not done.", NULL},
    {"closed", pipeline_is_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot pipeline_slots[] = {
    PY_SLOT(Py_tp_new, pipeline_new),           PY_SLOT(Py_tp_dealloc, pipeline_dealloc),
    {Py_tp_methods, pipeline_methods},          {Py_tp_getset, pipeline_getters},
    {Py_tp_doc, "Several messages in flight."}, {0, NULL}};
static PyType_Spec pipeline_spec = {"mqkv._mqkv.Pipeline", sizeof(struct py_pipeline), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, pipeline_slots};

bool py_pipeline_setup(PyObject *module)
{
    pipeline_type = (PyTypeObject *)PyType_FromSpec(&pipeline_spec);
    return pipeline_type &&
           PyModule_AddObjectRef(module, "Pipeline", (PyObject *)pipeline_type) == 0;
}
