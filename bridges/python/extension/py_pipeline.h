/*
 * py_pipeline: the type mqkv._mqkv.Pipeline: several messages in flight, for one thread at a time,
 * or for an event loop.
 */
#ifndef MQKV_PYTHON_PY_PIPELINE_H
#define MQKV_PYTHON_PY_PIPELINE_H

#include "bridges/python/extension/py_common.h"

/* Makes the type and adds it to the module. False: an exception is set. */
bool py_pipeline_setup(PyObject *module);

#endif
