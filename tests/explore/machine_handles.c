#include "tests/explore/machine_handles.h"

#include <errno.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/seeded_schedule.h"

#define HANDLES      256u
#define FIRST_HANDLE (1 << 20) /* no descriptor of the operating system is as high */

static struct machine_handle handles[HANDLES];

struct machine_handle *machine_handle_of(int descriptor)
{
    if (descriptor < FIRST_HANDLE || descriptor >= FIRST_HANDLE + (int)HANDLES)
        return NULL;
    struct machine_handle *handle = &handles[descriptor - FIRST_HANDLE];
    return handle->in_use ? handle : NULL;
}

struct machine_handle *machine_handle(int descriptor)
{
    struct machine_handle *handle = machine_handle_of(descriptor);
    if (!handle)
        explore_fail("a call on a descriptor that is not open");
    return handle;
}

struct machine_file *machine_handle_file(int descriptor)
{
    struct machine_file *file = machine_handle(descriptor)->file;
    if (!file)
        explore_fail("a call on the descriptor of a directory");
    return file;
}

int machine_handle_open(struct machine_file *file, unsigned directory)
{
    for (unsigned i = 0; i < HANDLES; i++) {
        struct machine_handle *handle = &handles[i];
        if (handle->in_use)
            continue;
        *handle = (struct machine_handle){true, file, directory, schedule_process(), 0, 0, false};
        if (file)
            file->handles++;
        return FIRST_HANDLE + (int)i;
    }
    errno = EMFILE;
    return -1;
}

void machine_handle_close(struct machine_handle *handle)
{
    handle->in_use = false;
    if (handle->file) {
        handle->file->handles--;
        machine_file_release(handle->file);
    }
}

void machine_handles_forget(void)
{
    memset(handles, 0, sizeof handles);
}

void machine_handles_bury(unsigned process)
{
    for (unsigned i = 0; i < HANDLES; i++)
        if (handles[i].in_use && handles[i].process == process)
            machine_handle_close(&handles[i]);
}
