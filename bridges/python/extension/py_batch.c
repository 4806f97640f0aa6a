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

/* Transactions ------------------------------------------------------------------------------ */

struct py_guards {
    struct clientk_guard *guards;
    size_t count;
    PyObject *owned; /* list of the objects whose bytes the guards borrow */
};

static void free_guards(struct py_guards *guards)
{
    free(guards->guards);
    Py_XDECREF(guards->owned);
}

/* Takes the bytes, which live as long as the guards. False: an exception is set. */
static bool borrow_bytes(struct py_guards *guards, PyObject *object, struct kv_slice *bytes)
{
    PyObject *owned;
    if (!py_take_bytes(object, bytes, &owned))
        return false;
    bool kept = PyList_Append(guards->owned, owned) == 0;
    Py_DECREF(owned);
    return kept;
}

/* A pair of a key and what must hold of it: a version, True or False (whether it is there), or its
 * value. False: an exception is set. */
static bool take_guard_pair(struct py_guards *guards, PyObject *pair)
{
    struct clientk_guard *guard = &guards->guards[guards->count];
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "a guard is a pair of a key and what must hold of it");
        return false;
    }
    PyObject *expected = PyTuple_GetItem(pair, 1);
    if (!borrow_bytes(guards, PyTuple_GetItem(pair, 0), &guard->key))
        return false;
    guards->count++;
    if (PyBool_Check(expected)) {
        guard->kind = expected == Py_True ? CLIENTK_GUARD_PRESENT : CLIENTK_GUARD_ABSENT;
        return true;
    }
    if (PyLong_Check(expected)) {
        guard->kind = CLIENTK_GUARD_VERSION;
        guard->version = PyLong_AsUnsignedLongLong(expected);
        return !PyErr_Occurred();
    }
    guard->kind = CLIENTK_GUARD_VALUE;
    return borrow_bytes(guards, expected, &guard->value);
}

static bool take_guards(struct py_guards *guards, PyObject *pairs)
{
    PyObject *given = PySequence_Tuple(pairs);
    if (!given)
        return false;
    Py_ssize_t count = PyTuple_Size(given);
    *guards = (struct py_guards){.guards = calloc((size_t)count + 1, sizeof *guards->guards),
                                 .owned = PyList_New(0)};
    bool taken = guards->guards && guards->owned;
    if (!guards->guards)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; taken && i < count; i++)
        taken = take_guard_pair(guards, PyTuple_GetItem(given, i));
    Py_DECREF(given);
    if (!taken)
        free_guards(guards);
    return taken;
}

/* The exception for a transaction that was not done, or perhaps; of the operation, if one is why.
 * Returns NULL. */
static PyObject *raise_not_done(const struct py_execution *execution, enum kv_status status,
                                const struct clientk_transacted *transacted)
{
    const char *text = clientk_last_error();
    if (transacted->outcome == CLIENTK_UNKNOWN && status != KV_TIMEOUT && status != KV_NOT_DURABLE)
        status = KV_OUTCOME_UNKNOWN;
    if (transacted->part != CLIENTK_PART_THEN || transacted->at >= execution->count)
        return py_raise_status(status, text, NULL, NULL);
    PyObject *result = PyList_GetItem(execution->results, (Py_ssize_t)transacted->at);
    if (!py_result_fill(result, &execution->outcomes[transacted->at]))
        return NULL;
    return py_raise_status(status, text, execution->parsed[transacted->at].key, result);
}

static PyObject *execute_as_one(const struct py_batch *batch, const struct py_execution *execution,
                                const struct clientk_transaction *transaction)
{
    struct clientk_transacted transacted;
    enum kv_status status;
    struct clientk *client = py_handle_enter(batch->client);
    if (!client)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_transact(client, transaction, execution->outcomes, &transacted);
    Py_END_ALLOW_THREADS
    py_handle_leave(batch->client);
    if (py_was_interrupted())
        return NULL;
    if (status != KV_OK)
        return raise_not_done(execution, status, &transacted);
    if (transacted.outcome == CLIENTK_ELSE)
        return PyLong_FromSize_t(transacted.guard);
    if (!fill_results(execution))
        return NULL;
    Py_RETURN_NONE;
}

/* The batch is empty afterwards, unless an argument is wrong. */
static PyObject *batch_transact(PyObject *self, PyObject *positional, PyObject *named)
{
    static char *names[] = {"guards", "durability", NULL};
    struct clientk_transaction transaction = {0};
    struct py_batch *batch = (struct py_batch *)self;
    struct py_execution execution;
    struct py_guards guards;
    PyObject *pairs, *durability = NULL, *answer = NULL;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "O|$O", names, &pairs, &durability) ||
        !py_take_durability(durability, &transaction.durability) || !take_guards(&guards, pairs))
        return NULL;
    if (begin_execution(&execution, batch)) {
        transaction.guards = guards.guards;
        transaction.guard_count = guards.count;
        transaction.then = execution.operations;
        transaction.then_count = execution.count;
        answer = execute_as_one(batch, &execution, &transaction);
        free_execution(&execution);
    }
    free_guards(&guards);
    return answer;
}

static PyObject *batch_withdraw(PyObject *self, PyObject *result)
{
    struct py_batch *batch = (struct py_batch *)self;
    for (size_t i = 0; i < batch->count; i++) {
        if (PyList_GetItem(batch->results, (Py_ssize_t)i) != result)
            continue;
        if (PySequence_DelItem(batch->results, (Py_ssize_t)i) != 0)
            return NULL;
        py_operation_release(&batch->operations[i]);
        batch->count--;
        memmove(&batch->operations[i], &batch->operations[i + 1],
                (batch->count - i) * sizeof *batch->operations);
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_ValueError, "no such operation waits in the batch");
    return NULL;
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
    {"transact", __extension__(PyCFunction)(void (*)(void))(batch_transact),
     METH_VARARGS | METH_KEYWORDS,
     "Executes the operations as one transaction: all of them, if all guards hold, or none.\n\n"
     "guards: pairs of a key and its version (0: absent), True or False (whether it is there),\n"
     "or its value. Returns None, or the number of the first guard that did not hold. The batch\n"
     "is empty afterwards."},
    {"withdraw", batch_withdraw, METH_O, "Drops one operation, given by its Result."},
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
