/*
 * kernel_objects: what the descriptors of a schedule stand for: queues, events, timers, sets of
 * epoll, pidfds, sockets. Each kind is in a file of its own (queue_calls.c, event_calls.c,
 * epoll_calls.c, process_calls.c, socket_calls.c), which says by a struct object_kind what holds
 * for all descriptors. For those files alone; others see kernel_calls.h.
 */
#ifndef MQKV_TESTS_EXPLORE_KERNEL_OBJECTS_H
#define MQKV_TESTS_EXPLORE_KERNEL_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <time.h>

#include "tests/explore/kernel_calls.h"
#include "tests/explore/seeded_schedule.h"

#define HERE        __builtin_return_address(0)
#define OBJECTS_MAX 256u
#define NAME_BYTES  128u
#define NS_PER_S    UINT64_C(1000000000)

struct description;
struct object;

struct object_kind {
    uint32_t (*ready)(const struct object *object); /* the events of epoll that hold */
    void (*free)(struct object *object);            /* what it has; NULL: nothing */
    /* As the C library's; NULL: EINVAL. */
    ssize_t (*read)(struct description *description, void *buffer, size_t bytes, const void *place);
    ssize_t (*write)(struct description *description, const void *data, size_t bytes,
                     const void *place);
    void (*describe)(const struct object *object, char *text, size_t size); /* NULL: no words */
    bool keeps_name; /* an object with a name outlives its descriptors */
};

struct object {
    const struct object_kind *kind; /* NULL: unused */
    unsigned uses;                  /* descriptions */
    char name[NAME_BYTES];
    ino_t inode;
    uid_t uid;
    mode_t mode;

    struct message *first; /* of a queue */
    long count, depth, message_bytes;

    uint64_t counter; /* of an event */
    bool is_semaphore;

    uint64_t due_ns, every_ns; /* of a timer; due_ns 0: not set */

    struct interest *watches; /* of a set of epoll */

    unsigned process; /* of a pidfd */

    struct socket_end *socket;
};

struct description {
    struct object *object; /* NULL: unused */
    unsigned uses;         /* descriptors */
    bool nonblock, can_read, can_write;
};

/* A system call is a step, and what was stored before it is seen. */
void kernel_enter(const void *place);

struct object *kernel_new_object(const struct object_kind *kind);

/* The nth object of that kind, in some order; NULL: there are no more. */
struct object *kernel_object(const struct object_kind *kind, unsigned nth);

/* Frees an object whose name is gone and that nobody has open. */
void kernel_free_unused(struct object *object);

/* The lowest descriptor that is free, for what is open, or for the object. */
int kernel_open_descriptor(struct description *description);
int kernel_open_object(struct object *object, bool nonblock, bool can_read, bool can_write);

bool kernel_is_ours(int descriptor);

/* NULL: it is not open. */
struct description *kernel_description(int descriptor);

/* NULL and EBADF: it is not open, or is none of that kind. */
struct description *kernel_description_as(int descriptor, const struct object_kind *kind);

/* EPERM: the user of the process may not. */
bool kernel_may_change(const struct object *object);

/* The events of the object that hold, for schedule_wait too. */
uint32_t kernel_ready_events(const struct object *object);
bool kernel_is_readable(const void *object);

/* These events have come to the object: watches with EPOLLET are told. */
void kernel_note_edge(const struct object *object, uint32_t events);

/* As the C library's, of one of ours. */
ssize_t kernel_read(int descriptor, void *buffer, size_t bytes, const void *place);
ssize_t kernel_write(int descriptor, const void *data, size_t bytes, const void *place);

/* No set watches it any more. */
void kernel_forget_watches(const struct description *description);

/* process_calls.c: */
uid_t explored_geteuid(void);
bool kernel_has_ended(unsigned process);
bool kernel_is_signalled(unsigned thread);
void kernel_set_signalled(unsigned thread, bool is_signalled);
void kernel_processes_reset(void);
void kernel_note_ended(unsigned process);

/* lock_calls.c: the locks of the process on the file, or all of them, end. */
void kernel_locks_reset(void);
bool kernel_has_locks(void);
void kernel_forget_locks(unsigned process, dev_t device, ino_t inode);
void kernel_end_locks(unsigned process);

static inline uint64_t kernel_ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

#endif
