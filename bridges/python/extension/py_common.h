/*
 * py_common: what all files of the extension share: Python's header with the limited interface of
 * 3.11 (one binary for every later version), and the module's global objects.
 *
 * The GIL protects everything in the extension's objects. It is released in every call of
 * libclientk that may wait.
 */
#ifndef MQKV_PYTHON_PY_COMMON_H
#define MQKV_PYTHON_PY_COMMON_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <structmember.h>

#include "mqkv/clientk.h"

/* A slot of a type, a method: C has no conversion between the kinds of pointers. */
#define PY_SLOT(id, function)               \
    {                                       \
        id, __extension__(void *)(function) \
    }
#define PY_FAST(name, function, doc)                                                               \
    {                                                                                              \
        name, __extension__(PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, \
            doc                                                                                    \
    }

/* Frees an object of a type that was made from a specification. */
void py_free_object(PyObject *object);

/* Raises the exception of mqkv.errors for the status. text: a sentence, or NULL: the status' own
 * phrase. key and result may be NULL. Returns NULL. */
PyObject *py_raise_status(enum kv_status status, const char *text, PyObject *key, PyObject *result);

/* Imports mqkv.errors. False: an exception is set. */
bool py_errors_setup(void);

#endif
