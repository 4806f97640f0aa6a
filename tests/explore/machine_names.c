#include "tests/explore/machine_names.h"

#include <string.h>

#include "tests/explore/explore.h"

#define PENDING_NAMES 64u

struct directory {
    struct machine_name names[MACHINE_NAMES];
    unsigned count;
};

static struct directory cached, on_disk;
static struct machine_change pending[PENDING_NAMES];
static unsigned pending_count;

static struct machine_name *find_name(struct directory *in, unsigned directory, const char *text)
{
    for (unsigned i = 0; i < in->count; i++)
        if (in->names[i].directory == directory && strcmp(in->names[i].text, text) == 0)
            return &in->names[i];
    return NULL;
}

static void remove_name(struct directory *in, const struct machine_name *name)
{
    struct machine_name *found = find_name(in, name->directory, name->text);
    if (!found)
        return;
    struct machine_file *file = found->file;
    *found = in->names[--in->count];
    file->names--;
    machine_file_release(file);
}

static void set_name(struct directory *in, const struct machine_name *name,
                     struct machine_file *file)
{
    if (!file)
        explore_fail("a name without a file");
    file->names++;
    remove_name(in, name);
    if (in->count == MACHINE_NAMES)
        explore_fail("the machine has at most %u names", MACHINE_NAMES);
    in->names[in->count] = *name;
    in->names[in->count++].file = file;
}

/* The same, on a copy of a directory, whose files do not know of it. */
static void set_name_only(struct directory *in, const struct machine_name *name,
                          struct machine_file *file)
{
    struct machine_name *found = find_name(in, name->directory, name->text);
    if (!found)
        found = &in->names[in->count++];
    *found = *name;
    found->file = file;
}

static void remove_name_only(struct directory *in, const struct machine_name *name)
{
    struct machine_name *found = find_name(in, name->directory, name->text);
    if (found)
        *found = in->names[--in->count];
}

static void apply_to_copy(struct directory *in, const struct machine_change *change)
{
    if (change->kind == NAME_SET || change->kind == NAME_EXCHANGED)
        set_name_only(in, &change->name,
                      change->kind == NAME_SET ? change->name.file : change->to.file);
    if (change->kind == NAME_EXCHANGED || change->kind == NAME_MOVED)
        set_name_only(in, &change->to, change->name.file);
    if (change->kind == NAME_REMOVED || change->kind == NAME_MOVED)
        remove_name_only(in, &change->name);
}

static void apply_change(struct directory *in, const struct machine_change *change)
{
    switch (change->kind) {
    case NAME_SET:
        set_name(in, &change->name, change->name.file);
        break;
    case NAME_EXCHANGED:
        set_name(in, &change->name, change->to.file);
        set_name(in, &change->to, change->name.file);
        break;
    case NAME_MOVED:
        set_name(in, &change->to, change->name.file);
        remove_name(in, &change->name);
        break;
    case NAME_REMOVED:
        remove_name(in, &change->name);
        break;
    }
}

static void release_change(const struct machine_change *change)
{
    struct machine_file *files[] = {change->name.file, change->to.file};
    for (unsigned i = 0; i < 2; i++)
        if (files[i]) {
            files[i]->names--;
            machine_file_release(files[i]);
        }
}

unsigned machine_names_pending(void)
{
    return pending_count;
}

void machine_names_commit(uint64_t count)
{
    for (unsigned i = 0; i < count; i++) {
        apply_change(&on_disk, &pending[i]);
        release_change(&pending[i]);
    }
    pending_count -= (unsigned)count;
    memmove(pending, pending + count, pending_count * sizeof pending[0]);
}

void machine_names_change(const struct machine_change *change)
{
    if (pending_count == PENDING_NAMES)
        machine_names_commit(1);
    if (change->name.file)
        change->name.file->names++;
    if (change->to.file)
        change->to.file->names++;
    pending[pending_count++] = *change;
    apply_change(&cached, change);
}

struct machine_name machine_names_find(unsigned directory, const char *text)
{
    struct machine_name name = {.directory = directory};
    if (strlen(text) >= sizeof name.text)
        explore_fail("the machine's names are shorter than %s", text);
    strcpy(name.text, text);
    struct machine_name *found = find_name(&cached, directory, text);
    name.file = found ? found->file : NULL;
    return name;
}

const struct machine_name *machine_names_nth(unsigned n)
{
    return n < cached.count ? &cached.names[n] : NULL;
}

void machine_names_put(const struct machine_name *name, struct machine_file *file)
{
    set_name(&cached, name, file);
    set_name(&on_disk, name, file);
}

void machine_names_forget(void)
{
    cached.count = on_disk.count = pending_count = 0;
}

#define STATES_MOST (UINT64_C(1) << 62)

static uint64_t product(uint64_t a, uint64_t b)
{
    return b != 0 && a > STATES_MOST / b ? STATES_MOST : a * b;
}

static uint64_t states_of_files(const struct directory *in)
{
    uint64_t states = 1;
    for (unsigned i = 0; i < in->count; i++)
        states = product(states, machine_file_states(in->names[i].file));
    return states;
}

uint64_t machine_names_states(void)
{
    static struct directory copy;
    copy = on_disk;
    uint64_t states = states_of_files(&copy);
    for (unsigned i = 0; i < pending_count; i++) {
        apply_to_copy(&copy, &pending[i]);
        states = at_most(states + states_of_files(&copy), STATES_MOST);
    }
    return states;
}

void machine_names_take_state(uint64_t state)
{
    for (uint64_t states; pending_count > 0; state -= states) {
        if (state < (states = states_of_files(&on_disk)))
            break;
        machine_names_commit(1);
    }
    for (unsigned i = 0; i < on_disk.count; i++) {
        uint64_t states = machine_file_states(on_disk.names[i].file);
        machine_file_take_state(on_disk.names[i].file, state % states);
        state /= states;
    }
}

void machine_names_wake_up(void)
{
    for (; pending_count > 0; pending_count--)
        release_change(&pending[pending_count - 1]);
    for (unsigned i = 0; i < on_disk.count; i++)
        on_disk.names[i].file->names++;
    while (cached.count > 0) {
        struct machine_name name = cached.names[0];
        remove_name(&cached, &name);
    }
    cached = on_disk;
}
