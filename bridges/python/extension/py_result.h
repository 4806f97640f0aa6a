/*
 * py_result: mqkv.Result, what became of an operation, and mqkv.Entry and mqkv.Stat.
 */
#ifndef MQKV_PYTHON_PY_RESULT_H
#define MQKV_PYTHON_PY_RESULT_H

#include "bridges/python/extension/py_operation.h"

/* A Result without an outcome yet, of the operation, whose key and tag it takes over. NULL: an
 * exception is set. */
PyObject *py_result_new(struct py_operation *parsed);

/* Gives it its outcome. False: an exception is set; it then has no outcome. */
bool py_result_fill(PyObject *result, const struct clientk_result *from);

/* What a call of the operation returns, or the exception that it raises. text: the sentence of an
 * exception, or NULL. */
PyObject *py_result_answer(PyObject *result, const char *text);
PyObject *py_result_version(PyObject *result);

/* Version and expiry with the size, of an EXISTS that found its key. */
PyObject *py_result_stat(const struct clientk_result *from);
PyObject *py_result_entry(PyObject *key, PyObject *value, uint64_t version, uint64_t expiry_ms);

/* Makes the types and adds them to the module. */
bool py_result_setup(PyObject *module);

#endif
