#include "bridges/kresp/script/script_library.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct script_library *libraries;
static _Atomic uint64_t generation;

static const char *const flag_names[] = {"no-writes", "allow-oom", "allow-stale", "no-cluster",
                                         "allow-cross-slot-keys"};

#define FLAG_COUNT (sizeof flag_names / sizeof flag_names[0])

bool script_library_is_name(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return size > 0 && size < LIBRARY_NAME_BYTES;
}

unsigned function_flag_of(const char *name)
{
    for (unsigned i = 0; i < FLAG_COUNT; i++)
        if (strcmp(flag_names[i], name) == 0)
            return 1u << i;
    return 0;
}

const char *function_flag_name(enum function_flag flag)
{
    for (unsigned i = 0; i < FLAG_COUNT; i++)
        if (1u << i == (unsigned)flag)
            return flag_names[i];
    return NULL;
}

struct script_library *script_library_new(const char *name, struct kv_slice text)
{
    struct script_library *library = calloc(1, sizeof *library + text.size);
    if (!library)
        return NULL;
    library->references = 1;
    library->size = text.size;
    strncpy(library->name, name, sizeof library->name - 1);
    if (text.size > 0)
        memcpy(library->text, text.data, text.size);
    return library;
}

struct script_library *script_library_hold(struct script_library *library)
{
    atomic_fetch_add(&library->references, 1);
    return library;
}

void script_library_release_all(struct script_library *removed)
{
    while (removed) {
        struct script_library *library = removed;
        removed = library->next;
        script_library_release(library);
    }
}

void script_library_release(struct script_library *library)
{
    if (!library || atomic_fetch_sub(&library->references, 1) > 1)
        return;
    while (library->functions) {
        struct library_function *function = library->functions;
        library->functions = function->next;
        free(function);
    }
    free(library);
}

static const struct library_function *function_of(const struct script_library *library,
                                                  struct kv_slice name)
{
    const struct library_function *function = library->functions;
    while (function && !kv_slice_equal(kv_slice_from_string(function->name), name))
        function = function->next;
    return function;
}

const char *script_library_add(struct script_library *library,
                               const struct library_function *function)
{
    if (function_of(library, kv_slice_from_string(function->name)))
        return "ERR Function already exists in the library";
    struct library_function *copy = malloc(sizeof *copy);
    if (!copy)
        return "ERR kresp: out of memory";
    *copy = *function;
    copy->next = library->functions;
    library->functions = copy;
    library->function_bytes += sizeof *copy;
    return NULL;
}

/* Takes the library out of the list; the caller has the lock. */
static struct script_library *take_library(struct kv_slice name)
{
    struct script_library **link = &libraries;
    while (*link && !kv_slice_equal(kv_slice_from_string((*link)->name), name))
        link = &(*link)->next;
    struct script_library *library = *link;
    if (library) {
        *link = library->next;
        library->next = NULL;
    }
    return library;
}

/* The caller has the lock, and has taken out the library that this one replaces. */
static enum install_outcome check_install(const struct script_library *library,
                                          char taken[LIBRARY_NAME_BYTES])
{
    size_t count = 1, bytes = library->size + library->function_bytes;
    for (const struct script_library *other = libraries; other; other = other->next) {
        count++;
        bytes += other->size + other->function_bytes;
        for (const struct library_function *function = library->functions; function;
             function = function->next) {
            if (!function_of(other, kv_slice_from_string(function->name)))
                continue;
            memcpy(taken, function->name, LIBRARY_NAME_BYTES);
            return INSTALL_FUNCTION_TAKEN;
        }
    }
    return count > LIBRARIES_MAX || bytes > LIBRARIES_MAX_BYTES ? INSTALL_FULL : INSTALLED;
}

static void put_library(struct script_library *library)
{
    library->next = libraries;
    libraries = library;
}

enum install_outcome script_library_install(struct script_library *library, bool replace,
                                            char taken[LIBRARY_NAME_BYTES],
                                            struct script_library **removed)
{
    enum install_outcome outcome = INSTALL_NAME_TAKEN;
    *removed = NULL;
    pthread_mutex_lock(&lock);
    struct script_library *old = take_library(kv_slice_from_string(library->name));
    if (!old || replace)
        outcome = check_install(library, taken);
    if (outcome == INSTALLED) {
        put_library(library);
        *removed = old;
        atomic_fetch_add(&generation, 1);
    } else if (old) {
        put_library(old);
    }
    pthread_mutex_unlock(&lock);
    return outcome;
}

struct script_library *script_library_delete(struct kv_slice name)
{
    pthread_mutex_lock(&lock);
    struct script_library *library = take_library(name);
    if (library)
        atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
    return library;
}

struct script_library *script_library_flush(void)
{
    pthread_mutex_lock(&lock);
    struct script_library *all = libraries;
    libraries = NULL;
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
    return all;
}

/* Returns the library of that name; the caller has the lock. */
static struct script_library *find_library(const char *name)
{
    struct script_library *library = libraries;
    while (library && strcmp(library->name, name) != 0)
        library = library->next;
    return library;
}

void script_library_restore(const struct script_library *installed, struct script_library *removed)
{
    struct script_library *gone = NULL;
    char taken[LIBRARY_NAME_BYTES];
    pthread_mutex_lock(&lock);
    if (installed && find_library(installed->name) == installed)
        gone = take_library(kv_slice_from_string(installed->name));
    while (removed) {
        struct script_library *library = removed;
        removed = library->next;
        if (!find_library(library->name) && check_install(library, taken) == INSTALLED) {
            put_library(library);
        } else {
            library->next = gone;
            gone = library;
        }
    }
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
    script_library_release_all(gone);
}

struct script_library *script_library_of(struct kv_slice function)
{
    pthread_mutex_lock(&lock);
    struct script_library *library = libraries;
    while (library && !function_of(library, function))
        library = library->next;
    if (library)
        atomic_fetch_add(&library->references, 1);
    pthread_mutex_unlock(&lock);
    return library;
}

void script_library_each(void (*visit)(void *context, const struct script_library *library),
                         void *context)
{
    pthread_mutex_lock(&lock);
    for (const struct script_library *library = libraries; library; library = library->next)
        visit(context, library);
    pthread_mutex_unlock(&lock);
}

uint64_t script_library_generation(void)
{
    return atomic_load(&generation);
}
