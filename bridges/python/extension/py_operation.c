#include "bridges/python/extension/py_operation.h"

#include <math.h>
#include <time.h>

enum argument {
    KEY,
    VALUE,
    DELTA,
    TTL,
    EXPIRY_MS,
    KEEP_TTL,
    IF_ABSENT,
    IF_PRESENT,
    IF_VERSION,
    DURABILITY,
    MIN,
    MAX,
    INITIAL,
    CANONICAL,
    PREFIX,
    CURSOR,
    LIMIT,
    KEYS_ONLY,
    ATOMIC,
    SECTION,
    WITH_VERSION,
    TAG,
    ARGUMENTS
};

static const char *const argument_names[ARGUMENTS] = {
    "key",       "value",      "delta",        "ttl",        "expiry_ms", "keep_ttl",
    "if_absent", "if_present", "if_version",   "durability", "min",       "max",
    "initial",   "canonical",  "prefix",       "cursor",     "limit",     "keys_only",
    "atomic",    "section",    "with_version", "tag"};

#define BIT(argument) (1u << (argument))
#define EXPIRY        (BIT(TTL) | BIT(EXPIRY_MS))
#define PUT_ARGUMENTS \
    (EXPIRY | BIT(KEEP_TTL) | BIT(IF_ABSENT) | BIT(IF_PRESENT) | BIT(IF_VERSION) | BIT(DURABILITY))

/* What an operation takes: by place (some of it required), and by name only. */
struct signature {
    const char *name;
    unsigned places, required;
    enum argument place[2];
    unsigned by_name;
};

static const struct signature signatures[] = {
    [CLIENTK_GET] = {"get", 1, 1, {KEY}, 0},
    [CLIENTK_EXISTS] = {"exists", 1, 1, {KEY}, 0},
    [CLIENTK_PUT] = {"put", 2, 2, {KEY, VALUE}, PUT_ARGUMENTS},
    [CLIENTK_DELETE] = {"delete", 1, 1, {KEY}, BIT(IF_VERSION) | BIT(DURABILITY)},
    [CLIENTK_ADD] = {"add",
                     2,
                     1,
                     {KEY, DELTA},
                     EXPIRY | BIT(IF_PRESENT) | BIT(DURABILITY) | BIT(MIN) | BIT(MAX) |
                         BIT(INITIAL) | BIT(CANONICAL) | BIT(WITH_VERSION)},
    [CLIENTK_APPEND] = {"append", 2, 2, {KEY, VALUE}, BIT(DURABILITY) | BIT(WITH_VERSION)},
    [CLIENTK_EXCHANGE] = {"exchange", 2, 2, {KEY, VALUE}, PUT_ARGUMENTS | BIT(WITH_VERSION)},
    [CLIENTK_TOUCH] = {"touch", 2, 1, {KEY, TTL}, BIT(EXPIRY_MS) | BIT(DURABILITY)},
    [CLIENTK_SCAN] =
        {"scan_page", 1, 0, {PREFIX}, BIT(CURSOR) | BIT(LIMIT) | BIT(KEYS_ONLY) | BIT(ATOMIC)},
    [CLIENTK_STATS] = {"stats_json", 1, 0, {SECTION}, 0},
    [CLIENTK_PING] = {"ping", 0, 0, {KEY}, 0},
    [CLIENTK_SYNC] = {"sync", 0, 0, {KEY}, 0},
};

/* Gathering --------------------------------------------------------------------------------- */

static bool is_allowed(const struct signature *signature, enum argument argument,
                       enum py_extra extra)
{
    if (argument == WITH_VERSION && extra != PY_EXTRA_WITH_VERSION)
        return false;
    if (argument == TAG)
        return extra == PY_EXTRA_TAG;
    for (unsigned i = 0; i < signature->places; i++)
        if (signature->place[i] == argument)
            return true;
    return (signature->by_name & BIT(argument)) != 0;
}

static bool take_named(const struct signature *signature, PyObject *name, PyObject *value,
                       enum py_extra extra, PyObject **given)
{
    for (unsigned argument = 0; argument < ARGUMENTS; argument++) {
        if (PyUnicode_CompareWithASCIIString(name, argument_names[argument]) != 0)
            continue;
        if (!is_allowed(signature, argument, extra))
            break;
        if (given[argument]) {
            PyErr_Format(PyExc_TypeError, "%s() got two values for '%U'", signature->name, name);
            return false;
        }
        given[argument] = value;
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes no argument '%U'", signature->name, name);
    return false;
}

/* given: borrowed, by argument. */
static bool gather(const struct signature *signature, const struct py_arguments *arguments,
                   enum py_extra extra, PyObject **given)
{
    if (arguments->count > (Py_ssize_t)signature->places) {
        PyErr_Format(PyExc_TypeError, "%s() takes %u arguments by position, %zd were given",
                     signature->name, signature->places, arguments->count);
        return false;
    }
    for (Py_ssize_t i = 0; i < arguments->count; i++)
        given[signature->place[i]] = arguments->values[i];
    Py_ssize_t named = arguments->names ? PyTuple_Size(arguments->names) : 0;
    for (Py_ssize_t i = 0; i < named; i++)
        if (!take_named(signature, PyTuple_GetItem(arguments->names, i),
                        arguments->values[arguments->count + i], extra, given))
            return false;
    for (unsigned i = 0; i < signature->required; i++)
        if (!given[signature->place[i]]) {
            PyErr_Format(PyExc_TypeError, "%s() misses the argument '%s'", signature->name,
                         argument_names[signature->place[i]]);
            return false;
        }
    return true;
}

/* Converting -------------------------------------------------------------------------------- */

bool py_take_bytes(PyObject *object, struct kv_slice *bytes, PyObject **owned)
{
    Py_ssize_t size;
    if (PyUnicode_Check(object)) {
        const char *text = PyUnicode_AsUTF8AndSize(object, &size);
        if (!text)
            return false;
        Py_INCREF(object);
        *owned = object;
        *bytes = kv_slice(text, (size_t)size);
        return true;
    }
    if (PyBytes_Check(object))
        Py_INCREF(object);
    else if (PyObject_CheckBuffer(object))
        object = PyBytes_FromObject(object);
    else {
        PyErr_SetString(PyExc_TypeError, "keys and values must be bytes-like or str");
        return false;
    }
    char *data;
    if (!object || PyBytes_AsStringAndSize(object, &data, &size) != 0) {
        Py_XDECREF(object);
        return false;
    }
    *owned = object;
    *bytes = kv_slice(data, (size_t)size);
    return true;
}

static bool is_given(PyObject *object)
{
    return object && object != Py_None;
}

/* A flag; absent: false. */
static bool take_flag(PyObject *object, bool *flag)
{
    int truth = object ? PyObject_IsTrue(object) : 0;
    *flag = truth > 0;
    return truth >= 0;
}

/* An unsigned number; absent: 0. */
static bool take_unsigned(PyObject *object, uint64_t *number)
{
    *number = is_given(object) ? PyLong_AsUnsignedLongLong(object) : 0;
    return *number != UINT64_MAX || !PyErr_Occurred();
}

/* A signed number, and whether it is given. */
static bool take_signed(PyObject *object, int64_t *number, bool *given)
{
    *given = is_given(object);
    if (!*given)
        return true;
    *number = PyLong_AsLongLong(object);
    return *number != -1 || !PyErr_Occurred();
}

/* Seconds of a number or a timedelta. -1 with an exception: neither. */
static double seconds_of(PyObject *object)
{
    if (PyLong_Check(object) || PyFloat_Check(object))
        return PyFloat_AsDouble(object);
    if (!PyObject_HasAttrString(object, "total_seconds"))
        return PyFloat_AsDouble(object);
    PyObject *number = PyObject_CallMethod(object, "total_seconds", NULL);
    double seconds = number ? PyFloat_AsDouble(number) : -1;
    Py_XDECREF(number);
    return seconds;
}

/* A thousand years: what is longer is a mistake, or should be None. */
#define MAX_TTL_S 3.2e10

/* ttl None or absent: 0, never. */
static bool take_ttl(PyObject *ttl, uint64_t *expiry_ms)
{
    if (!is_given(ttl))
        return true;
    double seconds = seconds_of(ttl);
    if (PyErr_Occurred())
        return false;
    if (!(seconds > 0 && seconds <= MAX_TTL_S)) {
        PyErr_SetString(PyExc_ValueError, "ttl must be above 0 and at most a thousand years");
        return false;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *expiry_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 +
                 (uint64_t)ceil(seconds * 1000);
    return true;
}

static bool take_expiry(PyObject *const *given, uint64_t *expiry_ms)
{
    if (is_given(given[TTL]) && is_given(given[EXPIRY_MS])) {
        PyErr_SetString(PyExc_TypeError, "give ttl or expiry_ms, not both");
        return false;
    }
    return take_unsigned(given[EXPIRY_MS], expiry_ms) && take_ttl(given[TTL], expiry_ms);
}

bool py_take_durability(PyObject *object, enum clientk_durability *durability)
{
    *durability = CLIENTK_SERVER_DEFAULT;
    if (!is_given(object))
        return true;
    if (PyUnicode_Check(object)) {
        if (PyUnicode_CompareWithASCIIString(object, "always") == 0)
            *durability = CLIENTK_SYNC_ALWAYS;
        else if (PyUnicode_CompareWithASCIIString(object, "interval") == 0)
            *durability = CLIENTK_SYNC_INTERVAL;
        if (*durability != CLIENTK_SERVER_DEFAULT)
            return true;
    }
    PyErr_SetString(PyExc_ValueError, "durability must be 'interval', 'always' or None");
    return false;
}

/* Options of put, delete, append, exchange, touch. */
static bool take_write(PyObject *const *given, struct clientk_write_options *write)
{
    if (is_given(given[IF_VERSION]) &&
        (!take_unsigned(given[IF_VERSION], &write->if_version) || write->if_version == 0)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError,
                            "no entry has version 0; to put a new one: if_absent");
        return false;
    }
    return take_flag(given[IF_ABSENT], &write->if_absent) &&
           take_flag(given[IF_PRESENT], &write->if_present) &&
           take_flag(given[KEEP_TTL], &write->keep_expiry) &&
           take_expiry(given, &write->expiry_ms) &&
           py_take_durability(given[DURABILITY], &write->durability);
}

static bool take_add(PyObject *const *given, struct clientk_operation *operation)
{
    struct clientk_add_options *add = &operation->add;
    bool present;
    operation->delta = 1;
    return take_signed(given[DELTA], &operation->delta, &present) &&
           take_signed(given[MIN], &add->min, &add->has_min) &&
           take_signed(given[MAX], &add->max, &add->has_max) &&
           take_signed(given[INITIAL], &add->initial, &present) &&
           take_flag(given[IF_PRESENT], &add->if_present) &&
           take_flag(given[CANONICAL], &add->canonical) && take_expiry(given, &add->expiry_ms) &&
           py_take_durability(given[DURABILITY], &add->durability);
}

static bool take_scan(PyObject *const *given, struct clientk_scan_options *scan)
{
    uint64_t limit;
    if (!take_unsigned(given[LIMIT], &limit) || !take_unsigned(given[CURSOR], &scan->cursor))
        return false;
    scan->limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
    return take_flag(given[KEYS_ONLY], &scan->keys_only) && take_flag(given[ATOMIC], &scan->atomic);
}

static bool take_operation_options(PyObject *const *given, struct clientk_operation *operation)
{
    switch (operation->opcode) {
    case CLIENTK_ADD:
        return take_add(given, operation);
    case CLIENTK_SCAN:
        return take_scan(given, &operation->scan);
    case CLIENTK_TOUCH:
        if (!given[TTL] && !given[EXPIRY_MS]) {
            PyErr_SetString(PyExc_TypeError, "touch() misses the argument 'ttl'");
            return false;
        }
        return take_write(given, &operation->write);
    case CLIENTK_PUT:
    case CLIENTK_DELETE:
    case CLIENTK_APPEND:
    case CLIENTK_EXCHANGE:
        return take_write(given, &operation->write);
    case CLIENTK_GET:
    case CLIENTK_EXISTS:
    case CLIENTK_STATS:
    case CLIENTK_PING:
    case CLIENTK_SYNC:
    case CLIENTK_BACKUP: /* not offered */
    case CLIENTK_ADMIN:  /* clientk has it as commands */
        return true;
    }
    return true;
}

static bool take_all(struct py_operation *parsed, PyObject *const *given)
{
    PyObject *key = given[KEY] ? given[KEY] : given[PREFIX] ? given[PREFIX] : given[SECTION];
    if (given[KEY] || is_given(key))
        if (!py_take_bytes(key, &parsed->operation.key, &parsed->key))
            return false;
    if (given[VALUE] && !py_take_bytes(given[VALUE], &parsed->operation.value, &parsed->value))
        return false;
    Py_XINCREF(given[TAG]);
    parsed->tag = given[TAG];
    return take_flag(given[WITH_VERSION], &parsed->with_version) &&
           take_operation_options(given, &parsed->operation);
}

bool py_operation_parse(struct py_operation *parsed, enum clientk_opcode opcode,
                        const struct py_arguments *arguments, enum py_extra extra)
{
    PyObject *given[ARGUMENTS] = {0};
    *parsed = (struct py_operation){.operation = {.opcode = opcode}};
    if (!gather(&signatures[opcode], arguments, extra, given))
        return false;
    if (take_all(parsed, given))
        return true;
    py_operation_release(parsed);
    return false;
}

void py_operation_release(struct py_operation *parsed)
{
    Py_CLEAR(parsed->key);
    Py_CLEAR(parsed->value);
    Py_CLEAR(parsed->tag);
}
