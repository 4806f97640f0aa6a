/*
 * py_batch: the type mqkv._mqkv.Batch: operations that are executed together, in order.
 */
#ifndef MQKV_PYTHON_PY_BATCH_H
#define MQKV_PYTHON_PY_BATCH_H

#include "bridges/python/extension/py_common.h"

/* Makes the type and adds it to the module. False: an exception is set. */
bool py_batch_setup(PyObject *module);

#endif
