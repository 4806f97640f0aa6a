/*
 * py_queue: the type mqkv._mqkv.Queue, a queue for jobs; mqkv.jobs is what programs use.
 */
#ifndef MQKV_PYTHON_PY_QUEUE_H
#define MQKV_PYTHON_PY_QUEUE_H

#include "bridges/python/extension/py_common.h"

/* Adds the type to the module. False: an exception is set. */
bool py_queue_setup(PyObject *module);

#endif
