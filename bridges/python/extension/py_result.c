#include "bridges/python/extension/py_result.h"

#include <inttypes.h>
#include <stdio.h>

struct py_result {
    PyObject_HEAD PyObject *key;
    PyObject *tag;
    PyObject *value; /* bytes; of a SCAN a list of entries; NULL: none */
    enum clientk_opcode opcode;
    enum kv_status status;
    bool done;
    bool keys_only; /* of a SCAN */
    int64_t number;
    uint64_t version;
    uint64_t expiry_ms;
    uint64_t cut_offset; /* of a page that ends at a damaged record */
};

static PyTypeObject *result_type;
static PyTypeObject *entry_type;
static PyTypeObject *stat_type;

/* Entries ----------------------------------------------------------------------------------- */

static PyObject *new_fields(PyTypeObject *type, PyObject *const *fields, Py_ssize_t count)
{
    PyObject *made = PyStructSequence_New(type);
    bool complete = made != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        complete &= fields[i] != NULL;
        if (made)
            PyStructSequence_SetItem(made, i, fields[i]);
        else
            Py_XDECREF(fields[i]);
    }
    if (complete)
        return made;
    Py_XDECREF(made);
    return NULL;
}

PyObject *py_result_entry(PyObject *key, PyObject *value, uint64_t version, uint64_t expiry_ms)
{
    PyObject *fields[] = {key, value, PyLong_FromUnsignedLongLong(version),
                          PyLong_FromUnsignedLongLong(expiry_ms)};
    return new_fields(entry_type, fields, 4);
}

PyObject *py_result_stat(const struct clientk_result *from)
{
    PyObject *fields[] = {PyLong_FromSize_t(from->value.size),
                          PyLong_FromUnsignedLongLong(from->value.version),
                          PyLong_FromUnsignedLongLong(from->value.expiry_ms)};
    return new_fields(stat_type, fields, 3);
}

static PyObject *bytes_of(const void *data, size_t size)
{
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

struct py_page {
    PyObject *entries;
    bool with_values;
};

static bool append_entry(void *context, const struct clientk_entry *entry)
{
    struct py_page *page = context;
    PyObject *value;
    if (page->with_values) {
        value = bytes_of(entry->value.data, entry->value.size);
    } else {
        Py_INCREF(Py_None);
        value = Py_None;
    }
    PyObject *made = py_result_entry(bytes_of(entry->key.data, entry->key.size), value,
                                     entry->version, entry->expiry_ms);
    bool appended = made && PyList_Append(page->entries, made) == 0;
    Py_XDECREF(made);
    return appended;
}

/* NULL: an exception is set, or *status is that of a malformed page. */
static PyObject *page_of(const struct clientk_value *value, bool with_values,
                         enum kv_status *status)
{
    struct py_page page = {PyList_New(0), with_values};
    if (!page.entries)
        return NULL;
    enum kv_status read = clientk_read_page(value, append_entry, &page);
    if (read != KV_OK)
        *status = read;
    if (read == KV_OK && !PyErr_Occurred())
        return page.entries;
    Py_DECREF(page.entries);
    return NULL;
}

/* Results ----------------------------------------------------------------------------------- */

PyObject *py_result_new(struct py_operation *parsed)
{
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(result_type, Py_tp_alloc);
    struct py_result *result = (struct py_result *)allocate(result_type, 0);
    if (!result)
        return NULL;
    result->opcode = parsed->operation.opcode;
    result->keys_only = parsed->operation.scan.keys_only;
    result->key = parsed->key;
    result->tag = parsed->tag;
    Py_XINCREF(result->key);
    parsed->tag = NULL;
    return (PyObject *)result;
}

/* A page that ends at a record that is damaged or cannot be read. */
static bool is_cut(const struct clientk_result *from)
{
    return (from->status == KV_CORRUPT || from->status == KV_IO) && from->value.version != 0;
}

static bool take_result_value(struct py_result *result, const struct clientk_result *from)
{
    bool found = from->status == KV_OK;
    switch (result->opcode) {
    case CLIENTK_EXCHANGE:
        found = found && from->found;
        break;
    case CLIENTK_GET:
    case CLIENTK_STATS:
        break;
    case CLIENTK_SCAN:
        if (!found && !is_cut(from))
            return true;
        if (!found)
            result->cut_offset = from->value.version;
        result->value = page_of(&from->value, !result->keys_only, &result->status);
        return result->value || !PyErr_Occurred();
    default:
        found = false;
    }
    if (found)
        result->value = bytes_of(from->value.data, from->value.size);
    return !found || result->value;
}

bool py_result_fill(PyObject *self, const struct clientk_result *from)
{
    struct py_result *result = (struct py_result *)self;
    result->status = from->status;
    if (!take_result_value(result, from))
        return false;
    result->number = from->number;
    result->version = result->opcode == CLIENTK_SCAN ? 0 : from->value.version;
    result->expiry_ms = from->value.expiry_ms;
    if (result->opcode == CLIENTK_EXISTS)
        result->number = (int64_t)from->value.size;
    result->done = true;
    return true;
}

static PyObject *new_reference(PyObject *object)
{
    PyObject *given = object ? object : Py_None;
    Py_INCREF(given);
    return given;
}

PyObject *py_result_answer(PyObject *self, const char *text)
{
    struct py_result *result = (struct py_result *)self;
    if (result->status == KV_NOT_FOUND && result->opcode == CLIENTK_GET)
        return new_reference(NULL);
    if (result->status == KV_NOT_FOUND && result->opcode == CLIENTK_EXISTS)
        return PyBool_FromLong(0);
    if (result->status != KV_OK) {
        char cut[96];
        if (result->cut_offset) {
            snprintf(cut, sizeof cut, "the record at offset %" PRIu64 " of a data file %s",
                     result->cut_offset,
                     result->status == KV_CORRUPT ? "is damaged" : "cannot be read");
            text = cut;
        }
        return py_raise_status(result->status, text, result->key, (PyObject *)result);
    }
    switch (result->opcode) {
    case CLIENTK_EXISTS:
        return PyBool_FromLong(1);
    case CLIENTK_PUT:
    case CLIENTK_DELETE:
    case CLIENTK_TOUCH:
        return PyLong_FromUnsignedLongLong(result->version);
    case CLIENTK_ADD:
    case CLIENTK_APPEND:
        return PyLong_FromLongLong(result->number);
    case CLIENTK_SCAN:
        return Py_BuildValue("(OK)", result->value, (unsigned long long)result->number);
    default:
        return new_reference(result->value);
    }
}

PyObject *py_result_version(PyObject *self)
{
    return PyLong_FromUnsignedLongLong(((struct py_result *)self)->version);
}

/* The type ---------------------------------------------------------------------------------- */

static void result_dealloc(PyObject *self)
{
    struct py_result *result = (struct py_result *)self;
    Py_CLEAR(result->key);
    Py_CLEAR(result->tag);
    Py_CLEAR(result->value);
    py_free_object(self);
}

/* False with an exception: it has no outcome yet. */
static bool check_done(const struct py_result *result)
{
    if (!result->done)
        PyErr_SetString(PyExc_RuntimeError,
                        "the operation is not done: execute the batch, flush the pipeline, or let "
                        "the transaction end");
    return result->done;
}

static PyObject *result_result(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return check_done((struct py_result *)self) ? py_result_answer(self, NULL) : NULL;
}

static PyObject *result_ok(PyObject *self, void *ignored)
{
    (void)ignored;
    struct py_result *result = (struct py_result *)self;
    return check_done(result) ? PyBool_FromLong(result->status == KV_OK) : NULL;
}

static PyObject *result_status(PyObject *self, void *ignored)
{
    (void)ignored;
    struct py_result *result = (struct py_result *)self;
    return check_done(result) ? PyUnicode_FromString(kv_status_name(result->status)) : NULL;
}

static PyObject *result_cursor(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong((uint64_t)((struct py_result *)self)->number);
}

static PyObject *result_repr(PyObject *self)
{
    struct py_result *result = (struct py_result *)self;
    return PyUnicode_FromFormat("<mqkv.Result of %R: %s>", result->key ? result->key : Py_None,
                                result->done ? kv_status_name(result->status) : "not done");
}

static PyMethodDef result_methods[] = {
    {"result", result_result, METH_NOARGS,
     "What Client's call returns; raises what it raises. RuntimeError before it is done."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Result[type] of result()."},
    {NULL, NULL, 0, NULL}};

static PyMemberDef result_members[] = {
    {"key", T_OBJECT, offsetof(struct py_result, key), READONLY, "The operation's key."},
    {"tag", T_OBJECT, offsetof(struct py_result, tag), READONLY, "What was given as tag."},
    {"value", T_OBJECT, offsetof(struct py_result, value), READONLY,
     "The value as bytes; None if there is none."},
    {"done", T_BOOL, offsetof(struct py_result, done), READONLY, "Whether it has its outcome."},
    {"number", T_LONGLONG, offsetof(struct py_result, number), READONLY,
     "The sum of an add, the size after an append, the size of what exists."},
    {"version", T_ULONGLONG, offsetof(struct py_result, version), READONLY,
     "The entry's version; after a write the new one."},
    {"expiry_ms", T_ULONGLONG, offsetof(struct py_result, expiry_ms), READONLY,
     "Milliseconds since 1970, 0: never."},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef result_getters[] = {
    {"ok", result_ok, NULL, "Whether the operation was executed.", NULL},
    {"status", result_status, NULL, "The status as a word: 'ok', 'not_found', ...", NULL},
    {"cursor", result_cursor, NULL, "Where a scan goes on.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot result_slots[] = {PY_SLOT(Py_tp_dealloc, result_dealloc),
                                     PY_SLOT(Py_tp_repr, result_repr),
                                     {Py_tp_methods, result_methods},
                                     {Py_tp_members, result_members},
                                     {Py_tp_getset, result_getters},
                                     {Py_tp_doc, "What became of an operation."},
                                     {0, NULL}};
static PyType_Spec result_spec = {"mqkv.Result", sizeof(struct py_result), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  result_slots};

static PyStructSequence_Field entry_fields[] = {
    {"key", "bytes"},
    {"value", "bytes; None where only keys were asked for"},
    {"version", "grows with every write"},
    {"expiry_ms", "milliseconds since 1970, 0: never"},
    {NULL, NULL}};
static PyStructSequence_Desc entry_description = {"mqkv.Entry", "An entry of the store.",
                                                  entry_fields, 4};
static PyStructSequence_Field stat_fields[] = {{"size", "of the value in bytes"},
                                               {"version", "grows with every write"},
                                               {"expiry_ms", "milliseconds since 1970, 0: never"},
                                               {NULL, NULL}};
static PyStructSequence_Desc stat_description = {"mqkv.Stat", "An entry without its value.",
                                                 stat_fields, 3};

bool py_result_setup(PyObject *module)
{
    result_type = (PyTypeObject *)PyType_FromSpec(&result_spec);
    entry_type = PyStructSequence_NewType(&entry_description);
    stat_type = PyStructSequence_NewType(&stat_description);
    return result_type && entry_type && stat_type &&
           PyModule_AddObjectRef(module, "Result", (PyObject *)result_type) == 0 &&
           PyModule_AddObjectRef(module, "Entry", (PyObject *)entry_type) == 0 &&
           PyModule_AddObjectRef(module, "Stat", (PyObject *)stat_type) == 0;
}
