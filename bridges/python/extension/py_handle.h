/*
 * py_handle: the type behind mqkv.Client: a handle of libclientk that any thread may use, that may
 * be closed while others are in a call, and that a child of fork(2) opens anew when it needs it.
 */
#ifndef MQKV_PYTHON_PY_HANDLE_H
#define MQKV_PYTHON_PY_HANDLE_H

#include "bridges/python/extension/py_common.h"

/* The library's handle, to be given back by py_handle_leave. NULL: an exception is set, as for a
 * signal handler that runs within a call of the handle. */
struct clientk *py_handle_enter(PyObject *self);

/* After a call. Closes the handle if it was closed meanwhile and this was the last call. */
void py_handle_leave(PyObject *self);

/* The number of forks that this process has behind it: what was opened under another number
 * belongs to the parent. */
unsigned py_fork_generation(void);

/* Returns true if an exception of a signal handler (KeyboardInterrupt) ended the call that has
 * returned. */
bool py_was_interrupted(void);

/* Options of clientk_open: what the handle gives to the library. */
struct py_handle {
    PyObject_HEAD struct clientk *client;
    unsigned fork_generation;
    unsigned calls;      /* threads in a call */
    bool main_is_inside; /* Python's main thread is one of them */
    bool closed;
    bool closing; /* by the last call */
    struct clientk_options options;
    char *queue, *spin, *server_uid, *replies; /* what options borrows; NULL: default */
    struct clientk_value spare_values[4];      /* memory for answers, kept for the next calls */
    unsigned spare_count;
};

/* new, init, dealloc, close; the type itself is made by py_client. */
int py_handle_init(PyObject *self, PyObject *positional, PyObject *named);
void py_handle_dealloc(PyObject *self);
PyObject *py_handle_close(PyObject *self, PyObject *ignored);

/* The names of enum clientk_direct; NULL ends them. */
extern const char *const py_direct_names[];

/* Memory for an answer, and back. */
struct clientk_value py_handle_take_value(struct py_handle *handle);
void py_handle_give_value(struct py_handle *handle, struct clientk_value *value);

/* Prepares for forks and signals. False: an exception is set. */
bool py_handle_setup(void);

#endif
