/*
 * assert: invariants that are checked in the builds that look for bugs (variants debug, asan, tsan,
 * fuzz and coverage, or any build with -DMQKV_ASSERT) and cost nothing in a release.
 *
 * An assertion states what only a bug of this program could break. What a caller of a public
 * function, a file, a message or the system can get wrong is an error with a status, in every
 * build.
 */
#ifndef MQKV_COMMON_ASSERT_ASSERT_H
#define MQKV_COMMON_ASSERT_ASSERT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/*
 * KV_ASSERT(condition): if `condition` does not hold, prints file, line and condition on stderr and
 * ends the process with SIGABRT. A release compiles `condition`, so that what only an assertion
 * names counts as used, but never evaluates it: `condition` must have no side effect. Every thread
 * may assert, whichever locks it holds.
 */
#ifdef MQKV_ASSERT

#include <stdio.h>
#include <stdlib.h>

#define KV_ASSERT(condition) \
    (__builtin_expect(!!(condition), 1) ? (void)0 : assert_failed(__FILE__, __LINE__, #condition))

/* dprintf, since another thread may hold the lock of stderr. */
_Noreturn static inline void assert_failed(const char *file, int line, const char *condition)
{
    dprintf(STDERR_FILENO, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

#else
#define KV_ASSERT(condition) ((void)(false && (condition)))
#endif

/* For KV_ASSERT: whether the calling thread holds `mutex`, as glibc notes it. Elsewhere, and where
 * the thread sanitizer or tests/explore stands for the mutexes: whether a thread holds it. */
static inline bool mutex_is_held(const pthread_mutex_t *mutex)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
    return mutex->__data.__owner == gettid();
#else
    return pthread_mutex_trylock((pthread_mutex_t *)(uintptr_t)mutex) != 0;
#endif
}

#endif
