/*
 * py_watch: the type mqkv._mqkv.Watch, a stream of changes; mqkv.watch is what programs use.
 */
#ifndef MQKV_PYTHON_PY_WATCH_H
#define MQKV_PYTHON_PY_WATCH_H

#include "bridges/python/extension/py_common.h"

/* Adds the type to the module. False: an exception is set. */
bool py_watch_setup(PyObject *module);

#endif
