#include "bridges/python/extension/py_batch.h"

#include <stdlib.h>

#include "bridges/python/extension/py_client.h"
#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_result.h"

/* What waits to be executed: operations[i] is that of results[i]. */
struct py_batch {
    PyObject_HEAD PyObject *client;
    PyObject *results; /* list */
    struct py_operation *operations;
    size_t count, capacity;
};

static PyTypeObject *batch_type;

static bool make_batch_room(struct py_batch *batch)
{
    if (batch->count < batch->capacity)
        return true;
    size_t capacity = batch->capacity ? 2 * batch->capacity : 16;
    struct py_operation *grown = realloc(batch->operations, capacity * sizeof *grown);
    if (!grown) {
        PyErr_NoMemory();
        return false;
    }
    batch->operations = grown;
    batch->capacity = capacity;
    return true;
}

static PyObject *batch_submit(PyObject *self, enum clientk_opcode opcode,
                              const struct py_arguments *arguments)
{
    struct py_batch *batch = (struct py_batch *)self;
    struct py_operation parsed;
    if (!py_operation_parse(&parsed, opcode, arguments, PY_EXTRA_TAG))
        return NULL;
    /* From here on no other thread can run: it might add to this batch, or execute it. */
    PyObject *result = py_result_new(&parsed);
    if (!result || !make_batch_room(batch) || PyList_Append(batch->results, result) != 0) {
        Py_XDECREF(result);
        py_operation_release(&parsed);
        return NULL;
    }
    batch->operations[batch->count++] = parsed;
    return result;
}

PY_OPERATION_METHOD(batch, get, CLIENTK_GET, batch_submit)
PY_DEFINE_OPERATION_METHODS(batch, batch_submit)

/* What an execution works on: taken out of the batch, to which other threads may add meanwhile. */
struct py_execution {
    PyObject *results;
    struct py_operation *parsed;
    struct clientk_operation *operations;
    struct clientk_result *outcomes;
    size_t count;
};

static void free_execution(struct py_execution *execution)
{
    for (size_t i = 0; i < execution->count; i++) {
        py_operation_release(&execution->parsed[i]);
        if (execution->outcomes)
            clientk_value_free(&execution->outcomes[i].value);
    }
    free(execution->parsed);
    free(execution->operations);
    free(execution->outcomes);
    Py_XDECREF(execution->results);
}

static bool begin_execution(struct py_execution *execution, struct py_batch *batch)
{
    PyObject *empty = PyList_New(0);
    *execution = (struct py_execution){
        .operations = malloc((batch->count + 1) * sizeof *execution->operations),
        .outcomes = calloc(batch->count + 1, sizeof *execution->outcomes)};
    if (!empty || !execution->operations || !execution->outcomes) {
        Py_XDECREF(empty);
        free_execution(execution);
        PyErr_NoMemory();
        return false;
    }
    execution->results = batch->results;
    execution->parsed = batch->operations;
    execution->count = batch->count;
    batch->results = empty;
    batch->operations = NULL;
    batch->count = batch->capacity = 0;
    for (size_t i = 0; i < execution->count; i++)
        execution->operations[i] = execution->parsed[i].operation;
    return true;
}

static bool fill_results(const struct py_execution *execution)
{
    for (size_t i = 0; i < execution->count; i++)
        if (!py_result_fill(PyList_GetItem(execution->results, (Py_ssize_t)i),
                            &execution->outcomes[i]))
            return false;
    return true;
}

/* The batch is empty afterwards, whatever happened. */
static PyObject *batch_execute(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct py_batch *batch = (struct py_batch *)self;
    struct py_execution execution;
    if (!begin_execution(&execution, batch))
        return NULL;
    enum kv_status status = KV_OK;
    struct clientk *client = py_handle_enter(batch->client);
    if (!client) {
        free_execution(&execution);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = clientk_execute(client, execution.operations, execution.count, execution.outcomes);
    Py_END_ALLOW_THREADS
    py_handle_leave(batch->client);
    PyObject *results = NULL;
    if (!py_was_interrupted() && fill_results(&execution)) {
        if (status == KV_OK) {
            results = execution.results;
            Py_INCREF(results);
        } else {
            py_raise_status(status, clientk_last_error(), NULL, NULL);
        }
    }
    free_execution(&execution);
    return results;
}

static void drop_batch_operations(struct py_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        py_operation_release(&batch->operations[i]);
    free(batch->operations);
    batch->operations = NULL;
    batch->count = batch->capacity = 0;
}

static PyObject *batch_clear(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct py_batch *batch = (struct py_batch *)self;
    PyObject *empty = PyList_New(0);
    if (!empty)
        return NULL;
    drop_batch_operations(batch);
    Py_DECREF(batch->results);
    batch->results = empty;
    Py_RETURN_NONE;
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)((struct py_batch *)self)->count;
}

static PyObject *batch_new(PyTypeObject *type, PyObject *positional, PyObject *named)
{
    static char *names[] = {"client", NULL};
    PyObject *client;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "O", names, &client))
        return NULL;
    if (!py_client_check(client)) {
        PyErr_SetString(PyExc_TypeError, "a Batch needs a Client");
        return NULL;
    }
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(type, Py_tp_alloc);
    struct py_batch *batch = (struct py_batch *)allocate(type, 0);
    if (!batch)
        return NULL;
    Py_INCREF(client);
    batch->client = client;
    batch->results = PyList_New(0);
    if (batch->results)
        return (PyObject *)batch;
    Py_DECREF(batch);
    return NULL;
}

static void batch_dealloc(PyObject *self)
{
    struct py_batch *batch = (struct py_batch *)self;
    drop_batch_operations(batch);
    Py_CLEAR(batch->results);
    Py_CLEAR(batch->client);
    py_free_object(self);
}

static PyMethodDef batch_methods[] = {
    PY_OPERATION_ROWS(batch),
    {"execute", batch_execute, METH_NOARGS,
     "Executes the operations in order, in as few messages as they fit in, and returns their\n"
     "Results. Each has its own status; an exception says what stopped the execution as a whole.\n"
     "Not atomic. The batch is empty afterwards."},
    {"clear", batch_clear, METH_NOARGS, "Drops the operations."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot batch_slots[] = {PY_SLOT(Py_tp_new, batch_new),
                                    PY_SLOT(Py_tp_dealloc, batch_dealloc),
                                    PY_SLOT(Py_mp_length, batch_length),
                                    {Py_tp_methods, batch_methods},
                                    {Py_tp_doc, "Operations that are executed together."},
                                    {0, NULL}};
static PyType_Spec batch_spec = {"mqkv._mqkv.Batch", sizeof(struct py_batch), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, batch_slots};

bool py_batch_setup(PyObject *module)
{
    batch_type = (PyTypeObject *)PyType_FromSpec(&batch_spec);
    return batch_type && PyModule_AddObjectRef(module, "Batch", (PyObject *)batch_type) == 0;
}
