/* The module mqkv._mqkv: libclientk for Python. The package mqkv is what programs import. */
#include "bridges/python/extension/py_batch.h"
#include "bridges/python/extension/py_client.h"
#include "bridges/python/extension/py_handle.h"
#include "bridges/python/extension/py_pipeline.h"
#include "bridges/python/extension/py_queue.h"
#include "bridges/python/extension/py_result.h"
#include "bridges/python/extension/py_watch.h"

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "mqkv._mqkv",
                                 .m_doc = "libclientk, as the package mqkv uses it.", .m_size = -1};

PyMODINIT_FUNC PyInit__mqkv(void);

PyMODINIT_FUNC PyInit__mqkv(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && py_errors_setup() && py_handle_setup() && py_result_setup(module) &&
        py_client_setup(module) && py_batch_setup(module) && py_pipeline_setup(module) &&
        py_queue_setup(module) && py_watch_setup(module) &&
        PyModule_AddStringConstant(module, "library_version", clientk_version()) == 0 &&
        PyModule_AddStringConstant(module, "DEFAULT_QUEUE", CLIENTK_DEFAULT_QUEUE) == 0)
        return module;
    Py_XDECREF(module);
    return NULL;
}
