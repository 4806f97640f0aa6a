#include "tests/explore/kernel_calls.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/explore/kernel_objects.h"
#include "tests/explore/machine_calls.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define DESCRIPTORS_OURS 512u

static struct {
    struct object objects[OBJECTS_MAX];
    struct description descriptions[DESCRIPTORS_OURS];
    struct description *of[DESCRIPTORS_OURS]; /* by descriptor; NULL: not open */
    unsigned owner[DESCRIPTORS_OURS];         /* the process */
    unsigned objects_used, descriptors_used;  /* the highest of the schedule + 1 */
    ino_t next_inode;
} kernel;

void kernel_enter(const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
}

/* Descriptors ---------------------------------------------------------------------------------- */

static void free_object(struct object *object)
{
    if (object->kind && object->kind->free)
        object->kind->free(object);
    object->kind = NULL;
}

void kernel_free_unused(struct object *object)
{
    if (object->uses == 0 && !(object->kind->keeps_name && object->name[0]))
        free_object(object);
}

void kernel_reset(void)
{
    for (unsigned i = 0; i < kernel.objects_used; i++)
        free_object(&kernel.objects[i]);
    memset(&kernel, 0, sizeof kernel);
    kernel.next_inode = 1;
    kernel_processes_reset();
    kernel_locks_reset();
}

struct object *kernel_new_object(const struct object_kind *kind)
{
    for (unsigned i = 0; i < OBJECTS_MAX; i++)
        if (!kernel.objects[i].kind) {
            if (i >= kernel.objects_used)
                kernel.objects_used = i + 1;
            kernel.objects[i] = (struct object){.kind = kind, .inode = kernel.next_inode++};
            return &kernel.objects[i];
        }
    schedule_fail("a schedule has at most %u queues, events and the like", OBJECTS_MAX);
}

struct object *kernel_object(const struct object_kind *kind, unsigned nth)
{
    for (unsigned i = 0; i < kernel.objects_used; i++)
        if (kernel.objects[i].kind == kind && nth-- == 0)
            return &kernel.objects[i];
    return NULL;
}

int kernel_open_descriptor(struct description *description)
{
    for (unsigned i = 0; i < DESCRIPTORS_OURS; i++) {
        if (kernel.of[i])
            continue;
        description->uses++;
        kernel.of[i] = description;
        kernel.owner[i] = schedule_process();
        if (i >= kernel.descriptors_used)
            kernel.descriptors_used = i + 1;
        return KERNEL_FIRST_DESCRIPTOR + (int)i;
    }
    schedule_fail("a schedule has at most %u descriptors", DESCRIPTORS_OURS);
}

int kernel_open_object(struct object *object, bool nonblock, bool can_read, bool can_write)
{
    struct description *description = kernel.descriptions;
    while (description->object)
        description++;
    *description = (struct description){object, 0, nonblock, can_read, can_write};
    object->uses++;
    return kernel_open_descriptor(description);
}

bool kernel_is_ours(int descriptor)
{
    return descriptor >= KERNEL_FIRST_DESCRIPTOR;
}

struct description *kernel_description(int descriptor)
{
    unsigned at = (unsigned)(descriptor - KERNEL_FIRST_DESCRIPTOR);
    return kernel_is_ours(descriptor) && at < DESCRIPTORS_OURS ? kernel.of[at] : NULL;
}

struct description *kernel_description_as(int descriptor, const struct object_kind *kind)
{
    struct description *description = kernel_description(descriptor);
    if (description && description->object->kind == kind)
        return description;
    errno = EBADF;
    return NULL;
}

static void drop(unsigned at)
{
    struct description *description = kernel.of[at];
    struct object *object = description->object;
    kernel_forget_locks(kernel.owner[at], 0, object->inode);
    kernel.of[at] = NULL;
    if (--description->uses > 0)
        return;
    description->object = NULL;
    kernel_forget_watches(description);
    object->uses--;
    kernel_free_unused(object);
}

bool kernel_close(int descriptor)
{
    struct stat facts;
    if (!kernel_is_ours(descriptor)) {
        if (kernel_has_processes() && kernel_has_locks() && fstat(descriptor, &facts) == 0)
            kernel_forget_locks(schedule_process(), facts.st_dev, facts.st_ino);
        return false;
    }
    if (!kernel_description(descriptor))
        schedule_fail("descriptor %d is closed, which is not open", descriptor);
    if (kernel_has_processes() &&
        kernel.owner[descriptor - KERNEL_FIRST_DESCRIPTOR] != schedule_process())
        schedule_fail("process %u closes what process %u has open", schedule_process(),
                      kernel.owner[descriptor - KERNEL_FIRST_DESCRIPTOR]);
    drop((unsigned)(descriptor - KERNEL_FIRST_DESCRIPTOR));
    return true;
}

void kernel_end_process(unsigned process)
{
    kernel_note_ended(process);
    for (unsigned i = 0; i < kernel.descriptors_used; i++)
        if (kernel.of[i] && kernel.owner[i] == process)
            drop(i);
    kernel_end_locks(process);
}

int explored_dup3(int from, int to, int flags)
{
    struct description *description = kernel_description(from);
    kernel_enter(HERE);
    if (!description)
        return dup3(from, to, flags);
    unsigned at = (unsigned)(to - KERNEL_FIRST_DESCRIPTOR);
    description->uses++; /* also if it is the same one */
    if (kernel_description(to))
        drop(at);
    kernel.of[at] = description;
    kernel.owner[at] = schedule_process();
    return to;
}

/* Facts ---------------------------------------------------------------------------------------- */

int kernel_fstat(int descriptor, struct stat *facts)
{
    const struct description *description = kernel_description(descriptor);
    if (!kernel_is_ours(descriptor))
        return fstat(descriptor, facts);
    kernel_enter(HERE);
    if (!description) {
        errno = EBADF;
        return -1;
    }
    const struct object *object = description->object;
    *facts = (struct stat){.st_ino = object->inode,
                           .st_nlink = object->name[0] != '\0',
                           .st_uid = object->uid,
                           .st_mode = object->mode};
    return 0;
}

bool kernel_may_change(const struct object *object)
{
    uid_t uid = explored_geteuid();
    if (uid == 0 || uid == object->uid)
        return true;
    errno = EPERM;
    return false;
}

int kernel_fchmod(int descriptor, mode_t mode)
{
    struct description *description = kernel_description(descriptor);
    if (!description)
        return fchmod(descriptor, mode);
    kernel_enter(HERE);
    if (!kernel_may_change(description->object))
        return -1;
    description->object->mode = mode;
    return 0;
}

int kernel_fchown(int descriptor, uid_t uid, gid_t gid)
{
    struct description *description = kernel_description(descriptor);
    if (!description)
        return fchown(descriptor, uid, gid);
    kernel_enter(HERE);
    if (uid != (uid_t)-1 && uid != description->object->uid && explored_geteuid() != 0) {
        errno = EPERM;
        return -1;
    }
    if (!kernel_may_change(description->object))
        return -1;
    if (uid != (uid_t)-1)
        description->object->uid = uid;
    return 0;
}

/* What is there depends on others. */
DIR *explored_opendir(const char *path)
{
    if (schedule_is_running() && strncmp(path, "/dev/", 5) == 0) {
        errno = EACCES;
        return NULL;
    }
    return opendir(path);
}

/* What holds for all kinds -------------------------------------------------------------------- */

uint32_t kernel_ready_events(const struct object *object)
{
    return object->kind->ready(object);
}

bool kernel_is_readable(const void *object)
{
    return (kernel_ready_events(object) & EPOLLIN) != 0;
}

ssize_t kernel_read(int descriptor, void *buffer, size_t bytes, const void *place)
{
    struct description *description = kernel_description(descriptor);
    kernel_enter(place);
    if (!description || !description->object->kind->read) {
        errno = description ? EINVAL : EBADF;
        return -1;
    }
    return description->object->kind->read(description, buffer, bytes, place);
}

ssize_t kernel_write(int descriptor, const void *data, size_t bytes, const void *place)
{
    struct description *description = kernel_description(descriptor);
    kernel_enter(place);
    if (!description || !description->object->kind->write) {
        errno = description ? EINVAL : EBADF;
        return -1;
    }
    return description->object->kind->write(description, data, bytes, place);
}

ssize_t explored_read(int descriptor, void *buffer, size_t bytes)
{
    if (machine_has(descriptor))
        return machine_read(descriptor, buffer, bytes, HERE);
    return kernel_is_ours(descriptor) ? kernel_read(descriptor, buffer, bytes, HERE)
                                      : read(descriptor, buffer, bytes);
}

ssize_t explored_write(int descriptor, const void *data, size_t bytes)
{
    if (machine_has(descriptor))
        return machine_write(descriptor, data, bytes, HERE);
    return kernel_is_ours(descriptor) ? kernel_write(descriptor, data, bytes, HERE)
                                      : write(descriptor, data, bytes);
}

void kernel_describe(char *text, size_t size)
{
    for (unsigned i = 0; i < kernel.objects_used; i++) {
        const struct object *object = &kernel.objects[i];
        size_t at = strlen(text);
        if (object->kind && object->kind->describe && at + NAME_BYTES + 64 < size)
            object->kind->describe(object, text + at, size - at);
    }
}
