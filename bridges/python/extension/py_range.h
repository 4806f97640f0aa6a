/*
 * py_range: the calls of mqkv._mqkv.Client for ranges of keys in their order; mqkv.Client.range is
 * what programs use.
 */
#ifndef MQKV_PYTHON_PY_RANGE_H
#define MQKV_PYTHON_PY_RANGE_H

#include "bridges/python/extension/py_common.h"

/* Methods, METH_VARARGS, of (start, stop, prefix, ...), each bytes:
 *
 *   range_page    ..., behind_start, reverse, keys_only, limit: (entries, whether they are the last
 *                 ones, the sentence of records that were left out or None)
 *   count_range   how many there are
 *   remove_range  ..., limit (0: all): how many were deleted */
PyObject *py_range_page(PyObject *self, PyObject *arguments);
PyObject *py_range_count(PyObject *self, PyObject *arguments);
PyObject *py_range_delete(PyObject *self, PyObject *arguments);

#define PY_RANGE_ROWS                                                                    \
    {"range_page", py_range_page, METH_VARARGS, "A page of a range: see Client.range."}, \
        {"count_range", py_range_count, METH_VARARGS, "See Client.count."},              \
    {                                                                                    \
        "remove_range", py_range_delete, METH_VARARGS, "See Client.delete_range."        \
    }

#endif
