#include "tests/explore/machine.h"

#include <stdlib.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/machine_clock.h"
#include "tests/explore/machine_faults.h"
#include "tests/explore/machine_handles.h"
#include "tests/explore/machine_maps.h"
#include "tests/explore/machine_names.h"
#include "tests/explore/seeded_numbers.h"
#include "tests/explore/seeded_schedule.h"

#define EAGER_PERCENT 30u /* how often the disk writes of its own accord, at most */

static struct {
    bool is_on;
    uint64_t seed;
    uint32_t cuts;
    unsigned eager_percent;
} machine;

bool machine_is_on(void)
{
    return machine.is_on;
}

bool machine_runs(void)
{
    return machine.is_on && schedule_is_running();
}

bool machine_is_eager(void)
{
    return seeded_below(&faults.random, 100) < machine.eager_percent;
}

static void forget_everything(void)
{
    machine_maps_forget();
    machine_files_forget();
    machine_shared_forget();
    machine_handles_forget();
    machine_names_forget();
}

void machine_begin(void)
{
    forget_everything();
    machine.is_on = true;
    machine.seed = schedule_random();
    machine.cuts = 0;
    machine_faults_begin(machine.seed);
    machine_clock_begin(machine.seed);
    machine.eager_percent = (unsigned)seeded_some_of(&faults.random, EAGER_PERCENT);
}

void machine_end(void)
{
    forget_everything();
    machine.is_on = false;
}

static struct kept {
    unsigned count;
    struct kept_file {
        struct machine_name name;
        mode_t mode;
        uint64_t size, top;
        uint8_t *content;
    } files[MACHINE_NAMES];
} kept[MACHINE_KEPT];

void machine_keep(unsigned number)
{
    const struct machine_name *name;
    for (unsigned i = 0; (name = machine_names_nth(i)); i++) {
        const struct machine_file *file = name->file;
        uint64_t top = at_most(file->cache_top, file->size);
        uint8_t *content = malloc(top + 1);
        if (!content)
            explore_fail("no memory for what the machine keeps");
        memcpy(content, file->cache, top);
        kept[number].files[i] = (struct kept_file){*name, file->mode, file->size, top, content};
        kept[number].count = i + 1;
    }
}

/* The first `top` bytes are given; zeros follow. */
static void put_file(const struct machine_name *name, mode_t mode, const void *content,
                     uint64_t top, uint64_t size)
{
    struct machine_file *file = machine_file_make(mode);
    memcpy(file->cache, content, top);
    memcpy(file->disk, content, top);
    file->cache_top = file->disk_top = top;
    file->size = file->disk_size = size;
    memset(file->has_block, true, (size + MACHINE_PAGE_BYTES - 1) / MACHINE_PAGE_BYTES);
    machine_names_put(name, file);
}

bool machine_put_back(unsigned number)
{
    for (unsigned i = 0; i < kept[number].count; i++) {
        const struct kept_file *from = &kept[number].files[i];
        put_file(&from->name, from->mode, from->content, from->top, from->size);
    }
    return kept[number].count > 0;
}

void machine_put_file(const char *path, const void *content, uint64_t bytes)
{
    static const char root[] = MACHINE_PATH "/";
    if (strncmp(path, root, sizeof root - 1) != 0 || path[sizeof root] != '/' ||
        bytes > MACHINE_FILE_BYTES)
        explore_fail("%s is no place for a file of the machine", path);
    struct machine_name name =
        machine_names_find((unsigned)(path[sizeof root - 1] - 'a'), path + sizeof root + 1);
    put_file(&name, 0600, content, bytes, bytes);
}

void machine_bury(unsigned process)
{
    machine_handles_bury(process);
    machine_maps_bury(process);
    faults.die_in = 0;
}

static void start_again(void)
{
    machine_shared_forget();
    machine_clock_boot();
    faults.has_failed = false;
}

void machine_cut_power(void)
{
    uint64_t random = machine.seed + ++machine.cuts;
    machine_names_commit(seeded_some_of(&random, machine_names_pending()));
    machine_names_wake_up();
    machine_files_wake_up(&random);
    start_again();
}

uint64_t machine_disk_states(void)
{
    return machine_names_states();
}

void machine_cut_power_at(uint64_t state)
{
    uint64_t random = machine.seed + ++machine.cuts;
    machine_names_take_state(state);
    machine_names_wake_up();
    machine_files_wake_up_as_they_are(&random);
    start_again();
}
