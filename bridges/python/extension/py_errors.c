/* Exceptions are classes of mqkv.errors, which knows which status is which. */
#include "bridges/python/extension/py_common.h"

static PyObject *make_error; /* mqkv.errors.from_status */

bool py_errors_setup(void)
{
    PyObject *errors = PyImport_ImportModule("mqkv.errors");
    if (!errors)
        return false;
    make_error = PyObject_GetAttrString(errors, "from_status");
    Py_DECREF(errors);
    return make_error != NULL;
}

PyObject *py_raise_status(enum kv_status status, const char *text, PyObject *key, PyObject *result)
{
    if (!text)
        text = kv_status_text(status);
    PyObject *sentence = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!sentence)
        return NULL;
    PyObject *error =
        PyObject_CallFunction(make_error, "isOOO", (int)status, kv_status_name(status), sentence,
                              key ? key : Py_None, result ? result : Py_None);
    Py_DECREF(sentence);
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

void py_free_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}
