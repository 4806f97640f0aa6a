/*
 * py_client: the type mqkv._mqkv.Client.
 */
#ifndef MQKV_PYTHON_PY_CLIENT_H
#define MQKV_PYTHON_PY_CLIENT_H

#include "bridges/python/extension/py_common.h"

bool py_client_check(PyObject *object);

/* Makes the type and adds it to the module. False: an exception is set. */
bool py_client_setup(PyObject *module);

#endif
