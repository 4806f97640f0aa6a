/*
 * py_operation: the arguments of put, get, add and so on, as a struct clientk_operation. Client,
 * Batch and Pipeline have the same methods with the same arguments, which are described once, here.
 */
#ifndef MQKV_PYTHON_PY_OPERATION_H
#define MQKV_PYTHON_PY_OPERATION_H

#include "bridges/python/extension/py_common.h"

/* The arguments that only some of the callers take. */
enum py_extra { PY_EXTRA_NONE, PY_EXTRA_WITH_VERSION, PY_EXTRA_TAG };

/* Owns references to the objects whose bytes the operation borrows. */
struct py_operation {
    struct clientk_operation operation;
    PyObject *key;
    PyObject *value;
    PyObject *tag;     /* NULL: none */
    bool with_version; /* return the version too */
};

/* The arguments of a METH_FASTCALL | METH_KEYWORDS method. */
struct py_arguments {
    PyObject *const *values;
    Py_ssize_t count;
    PyObject *names; /* of the last ones; NULL: none */
};

/* False: an exception is set, and nothing is owned. */
bool py_operation_parse(struct py_operation *parsed, enum clientk_opcode opcode,
                        const struct py_arguments *arguments, enum py_extra extra);
void py_operation_release(struct py_operation *parsed);

/* The bytes of a bytes-like object, or of a str as UTF-8. *owned: the reference that keeps them.
 * False: an exception is set. */
bool py_take_bytes(PyObject *object, struct kv_slice *bytes, PyObject **owned);

/* None or NULL: the server's default. False: an exception is set. */
bool py_take_durability(PyObject *object, enum clientk_durability *durability);

/* The methods of a type whose function SUBMIT(self, opcode, arguments) takes an operation; get is
 * left to the type. */
#define PY_OPERATION_METHOD(prefix, name, opcode, submit)                                       \
    static PyObject *prefix##_##name(PyObject *self, PyObject *const *values, Py_ssize_t count, \
                                     PyObject *names)                                           \
    {                                                                                           \
        return submit(self, opcode, &(struct py_arguments){values, count, names});              \
    }
#define PY_DEFINE_OPERATION_METHODS(prefix, submit)                 \
    PY_OPERATION_METHOD(prefix, exists, CLIENTK_EXISTS, submit)     \
    PY_OPERATION_METHOD(prefix, put, CLIENTK_PUT, submit)           \
    PY_OPERATION_METHOD(prefix, delete, CLIENTK_DELETE, submit)     \
    PY_OPERATION_METHOD(prefix, add, CLIENTK_ADD, submit)           \
    PY_OPERATION_METHOD(prefix, append, CLIENTK_APPEND, submit)     \
    PY_OPERATION_METHOD(prefix, exchange, CLIENTK_EXCHANGE, submit) \
    PY_OPERATION_METHOD(prefix, touch, CLIENTK_TOUCH, submit)       \
    PY_OPERATION_METHOD(prefix, scan_page, CLIENTK_SCAN, submit)    \
    PY_OPERATION_METHOD(prefix, stats_json, CLIENTK_STATS, submit)  \
    PY_OPERATION_METHOD(prefix, sync, CLIENTK_SYNC, submit)

/* The rows of its PyMethodDef table; the docstrings are those of the stub beside. */
#define PY_OPERATION_ROWS(prefix)                                                                \
    PY_FAST("get", prefix##_get, PY_DOC_GET), PY_FAST("exists", prefix##_exists, PY_DOC_EXISTS), \
        PY_FAST("put", prefix##_put, PY_DOC_PUT),                                                \
        PY_FAST("delete", prefix##_delete, PY_DOC_DELETE),                                       \
        PY_FAST("add", prefix##_add, PY_DOC_ADD),                                                \
        PY_FAST("append", prefix##_append, PY_DOC_APPEND),                                       \
        PY_FAST("exchange", prefix##_exchange, PY_DOC_EXCHANGE),                                 \
        PY_FAST("touch", prefix##_touch, PY_DOC_TOUCH),                                          \
        PY_FAST("scan_page", prefix##_scan_page, PY_DOC_SCAN_PAGE),                              \
        PY_FAST("stats_json", prefix##_stats_json, PY_DOC_STATS_JSON),                           \
        PY_FAST("sync", prefix##_sync, PY_DOC_SYNC)

#define PY_WRITE_DOC                                                                              \
    "\n\nttl: seconds (a number or timedelta), or expiry_ms: milliseconds since 1970, when the\n" \
    "entry ends; keep_ttl: when the one that is replaced would have. At most one condition:\n"    \
    "if_absent (else Exists), if_present (else NotFound), if_version=N (else VersionMismatch,\n"  \
    "NotFound). durability: 'interval', or 'always' to return when it is on disk; None: the\n"    \
    "server's own setting."
#define PY_DOC_GET    "The value of the key; None (of a Client: default) if there is none."
#define PY_DOC_EXISTS "Whether the key is there."
#define PY_DOC_PUT    "Stores the value and returns the entry's new version." PY_WRITE_DOC
#define PY_DOC_DELETE                                                                           \
    "Deletes the entry and returns the version of the deletion; NotFound if there is none.\n\n" \
    "if_version=N: only that version (else VersionMismatch)."
#define PY_DOC_ADD                                                                               \
    "Adds delta (1) to a decimal number and returns the sum.\n\n"                                \
    "An absent key counts as initial (0), and gets ttl or expiry_ms; with if_present it is\n"    \
    "NotFound. A sum below min or above max, or beyond 64 bits, is OutOfBounds, which has the\n" \
    "number that is there; a value that is no number is NotANumber. Nothing changes then.\n"     \
    "canonical: zeros that lead ('007') are NotANumber too.\n"                                   \
    "with_version (of a Client): returns (sum, version)."
#define PY_DOC_APPEND                                                                   \
    "Appends to the value, which may be absent, and returns its new size in bytes.\n\n" \
    "with_version (of a Client): returns (size, version)."
#define PY_DOC_EXCHANGE                                                     \
    "Stores the value and returns the old one, None if there was none.\n\n" \
    "with_version (of a Client): returns (old value, version)." PY_WRITE_DOC
#define PY_DOC_TOUCH                                                                               \
    "Lets the entry end in ttl seconds (None: never), or at expiry_ms; NotFound if there is none." \
    "\n\nReturns the entry's new version."
#define PY_DOC_SCAN_PAGE                                                                           \
    "One page of a scan: (entries, cursor of the next page), the cursor 0 after the last one.\n\n" \
    "limit: entries, about; 0: as many as the server likes. atomic: whole data files, each as\n"   \
    "it was at one moment. Corrupt and StorageError have the entries before the record that\n"     \
    "cannot be read, and the cursor behind it."
#define PY_DOC_STATS_JSON "The server's statistics, or one section of them, as JSON bytes."
#define PY_DOC_SYNC       "Returns when everything written before is on disk."

#endif
