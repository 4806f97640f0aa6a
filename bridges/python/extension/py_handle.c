#include "bridges/python/extension/py_handle.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Larger memory is not kept: a client of one large value would hold it for ever. */
#define MAX_SPARE_BYTES (256u * 1024)

static atomic_uint fork_generation;
static pthread_t main_thread; /* of Python, where signal handlers run */
static bool in_handlers;      /* they run now, within a call that waits */

/* Forks and signals ------------------------------------------------------------------------- */

static void after_fork_in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
    main_thread = pthread_self();
}

unsigned py_fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

static bool is_main_thread(void)
{
    return pthread_equal(pthread_self(), main_thread);
}

bool py_handle_setup(void)
{
    main_thread = pthread_self();
    if (pthread_atfork(NULL, NULL, after_fork_in_child) == 0)
        return true;
    PyErr_NoMemory();
    return false;
}

/* Asked by a call that waits, without the GIL: runs Python's signal handlers, and ends the call if
 * one raised an exception. */
static bool handlers_raised(void)
{
    if (!is_main_thread())
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool were_in_handlers = in_handlers; /* a call of a handler waits */
    in_handlers = true;
    bool raised = PyErr_Occurred() || PyErr_CheckSignals() != 0;
    in_handlers = were_in_handlers;
    PyGILState_Release(state);
    return raised;
}

bool py_was_interrupted(void)
{
    return PyErr_Occurred() != NULL;
}

/* Opening and closing ----------------------------------------------------------------------- */

/* NULL: an exception is set. */
static struct clientk *open_client(const struct clientk_options *options)
{
    struct clientk *client = NULL;
    struct kv_error error = {0};
    enum kv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = clientk_open(options, &client, &error);
    Py_END_ALLOW_THREADS
    if (!py_was_interrupted()) {
        if (status == KV_OK)
            return client;
        py_raise_status(status, error.text, NULL, NULL);
    }
    if (status == KV_OK)
        clientk_close(client);
    return NULL;
}

/* Closes what no call uses any more. */
static void close_client(struct clientk *client, bool is_ours)
{
    if (!is_ours) {
        clientk_abandon(client);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    clientk_close(client);
    Py_END_ALLOW_THREADS
}

static void close_handle(struct py_handle *handle)
{
    struct clientk *client = handle->client;
    handle->client = NULL;
    handle->closing = false;
    if (client)
        close_client(client, handle->fork_generation == py_fork_generation());
}

/* In a child: the parent's handle is given up, and one of our own opened. Threads may come here
 * together; the first that is ready wins. */
static bool open_again(struct py_handle *handle)
{
    if (handle->fork_generation != py_fork_generation()) {
        handle->calls = 0; /* of threads of the parent */
        handle->main_is_inside = false;
        close_handle(handle);
        handle->fork_generation = py_fork_generation();
    }
    struct clientk *client = open_client(&handle->options);
    if (!client)
        return false;
    if (handle->client || handle->closed)
        close_client(client, true);
    else
        handle->client = client;
    return true;
}

/* A signal handler that runs within a call would wait for the end of that call, which waits for the
 * handler. False: an exception is set. */
static bool admit_main_thread(struct py_handle *handle)
{
    if (!is_main_thread())
        return true;
    if (in_handlers && handle->main_is_inside) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a signal handler cannot use a client in a call of which it runs: let it "
                        "set a flag, or give it a client of its own");
        return false;
    }
    handle->main_is_inside = true;
    return true;
}

struct clientk *py_handle_enter(PyObject *self)
{
    struct py_handle *handle = (struct py_handle *)self;
    if (!handle->closed && (!handle->client || handle->fork_generation != py_fork_generation()) &&
        (!handle->options.timeout_ms || !open_again(handle))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "Client.__init__() was not called");
        return NULL;
    }
    if (handle->closed) {
        py_raise_status(KV_USAGE, "the client is closed", NULL, NULL);
        return NULL;
    }
    if (!admit_main_thread(handle))
        return NULL;
    handle->calls++;
    return handle->client;
}

void py_handle_leave(PyObject *self)
{
    struct py_handle *handle = (struct py_handle *)self;
    if (handle->fork_generation != py_fork_generation())
        return; /* forked within the call, by a signal handler: the count is the parent's */
    if (handle->calls > 0) /* else forked within it, too, and the child has counted anew */
        handle->calls--;
    if (is_main_thread())
        handle->main_is_inside = false;
    if (handle->calls == 0 && handle->closing)
        close_handle(handle);
}

PyObject *py_handle_close(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct py_handle *handle = (struct py_handle *)self;
    handle->closed = true;
    if (handle->fork_generation != py_fork_generation())
        handle->calls = 0;
    if (handle->calls > 0)
        handle->closing = true;
    else
        close_handle(handle);
    Py_RETURN_NONE;
}

void py_handle_dealloc(PyObject *self)
{
    struct py_handle *handle = (struct py_handle *)self;
    close_handle(handle);
    for (unsigned i = 0; i < handle->spare_count; i++)
        clientk_value_free(&handle->spare_values[i]);
    free(handle->queue);
    free(handle->spin);
    free(handle->server_uid);
    free(handle->replies);
    py_free_object(self);
}

const char *const py_direct_names[] = {[CLIENTK_DIRECT_AUTO] = "auto",
                                       [CLIENTK_DIRECT_OFF] = "off",
                                       [CLIENTK_DIRECT_MAP] = "map",
                                       [CLIENTK_DIRECT_PREAD] = "pread",
                                       NULL};

/* Arguments --------------------------------------------------------------------------------- */

/* The library's options are text or numbers; a server_uid may be given as either. */
static bool take_text(PyObject *object, char **text)
{
    *text = NULL;
    if (!object || object == Py_None)
        return true;
    PyObject *written = PyObject_Str(object);
    const char *bytes = written ? PyUnicode_AsUTF8AndSize(written, NULL) : NULL;
    if (bytes && !(*text = strdup(bytes)))
        PyErr_NoMemory();
    Py_XDECREF(written);
    return *text != NULL;
}

static bool take_timeout(double seconds, uint32_t *timeout_ms)
{
    if (!(seconds > 0 && seconds * 1000 <= UINT32_MAX)) {
        PyErr_SetString(PyExc_ValueError, "timeout must be above 0 and below 49 days");
        return false;
    }
    *timeout_ms = (uint32_t)ceil(seconds * 1000);
    return true;
}

static bool take_direct(PyObject *object, enum clientk_direct *direct)
{
    if (!object || object == Py_None)
        return true;
    for (unsigned i = 0; PyUnicode_Check(object) && py_direct_names[i]; i++)
        if (PyUnicode_CompareWithASCIIString(object, py_direct_names[i]) == 0) {
            *direct = (enum clientk_direct)i;
            return true;
        }
    PyErr_SetString(PyExc_ValueError, "direct must be 'auto', 'off', 'map' or 'pread'");
    return false;
}

static bool take_stale(double seconds, uint32_t *stale_ms)
{
    if (!(seconds >= 0 && seconds * 1000 <= UINT32_MAX)) {
        PyErr_SetString(PyExc_ValueError, "direct_stale must be at least 0 and below 49 days");
        return false;
    }
    *stale_ms = (uint32_t)ceil(seconds * 1000);
    return true;
}

int py_handle_init(PyObject *self, PyObject *positional, PyObject *named)
{
    static char *names[] = {"queue",          "timeout",    "repeat_writes", "fail_fast",
                            "fail_fast_open", "spin",       "combine_above", "combine_groups",
                            "priority",       "server_uid", "replies",       "direct",
                            "direct_stale",   NULL};
    struct py_handle *handle = (struct py_handle *)self;
    if (handle->options.timeout_ms) {
        PyErr_SetString(PyExc_RuntimeError, "Client.__init__() was called before");
        return -1;
    }
    PyObject *queue = NULL, *spin = NULL, *server_uid = NULL, *replies = NULL, *direct = NULL;
    double timeout_s = CLIENTK_DEFAULT_TIMEOUT_MS / 1000.0, stale_s = 0;
    int repeat_writes = 0, fail_fast = 0, fail_fast_open = 0;
    unsigned combine_above = 0, combine_groups = 0;
    unsigned char priority = 0;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "|O$dpppOIIbOOOd", names, &queue,
                                     &timeout_s, &repeat_writes, &fail_fast, &fail_fast_open, &spin,
                                     &combine_above, &combine_groups, &priority, &server_uid,
                                     &replies, &direct, &stale_s))
        return -1;
    struct clientk_options options = {.repeat_writes = repeat_writes,
                                      .fail_fast = fail_fast,
                                      .fail_fast_open = fail_fast_open,
                                      .combine_above = combine_above,
                                      .combine_groups = combine_groups,
                                      .priority = priority,
                                      .interrupted = handlers_raised};
    if (!take_timeout(timeout_s, &options.timeout_ms) || !take_text(queue, &handle->queue) ||
        !take_text(spin, &handle->spin) || !take_text(server_uid, &handle->server_uid) ||
        !take_text(replies, &handle->replies) || !take_direct(direct, &options.direct) ||
        !take_stale(stale_s, &options.direct_stale_ms))
        return -1;
    options.replies = handle->replies;
    options.queue = handle->queue;
    options.spin = handle->spin;
    options.server_uid = handle->server_uid;
    handle->options = options;
    handle->fork_generation = py_fork_generation();
    handle->client = open_client(&handle->options);
    handle->closed = handle->client == NULL;
    return handle->client ? 0 : -1;
}

/* Memory for answers ------------------------------------------------------------------------ */

struct clientk_value py_handle_take_value(struct py_handle *handle)
{
    if (handle->spare_count == 0)
        return (struct clientk_value){0};
    return handle->spare_values[--handle->spare_count];
}

void py_handle_give_value(struct py_handle *handle, struct clientk_value *value)
{
    unsigned room = sizeof handle->spare_values / sizeof handle->spare_values[0];
    if (handle->spare_count < room && value->capacity <= MAX_SPARE_BYTES)
        handle->spare_values[handle->spare_count++] = *value;
    else
        clientk_value_free(value);
}
