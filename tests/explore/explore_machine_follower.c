#include "tests/explore/explore_machine_follower.h"

#include <inttypes.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"

#define KEPT_FOR_LONG_MS 3600000u

static struct follower_state {
    bool follows;
    struct kvstore_position positions[DATAFILES_MOST];
    struct followed {
        uint64_t version; /* 0: it is not there */
        uint64_t newest;  /* of all changes of the key */
        bool expires;     /* or did: it is there for some, and not for others */
    } keys[MODEL_KEYS];
} follower, taking;

static bool take_change(void *unused, const struct kvstore_change *change)
{
    (void)unused;
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        struct followed *followed = &taking.keys[key];
        if (!kv_slice_equal(change->key, model_key(key)))
            continue;
        if (change->version <= followed->newest)
            explore_fail("key %u: change %" PRIu64 " comes after %" PRIu64, key, change->version,
                         followed->newest);
        followed->newest = change->version;
        followed->version = change->kind == KVSTORE_CHANGE_PUT ? change->version : 0;
        followed->expires = change->expiry_ms != 0 || change->kind == KVSTORE_CHANGE_EXPIRE;
    }
    return true;
}

/* Where the store was not even killed, and everything is kept, nothing may be missed. */
static void miss(void)
{
    const struct kvstore_options *options = &run.options;
    follower.follows = false;
    if (run.goes_on_smoothly && !machine_has_failed() && !run.clock_jumps &&
        options->max_bytes == 0 && options->keep_changes_ms >= KEPT_FOR_LONG_MS)
        explore_fail("a follower has missed some, though nothing was lost");
}

/* False: it stopped before the end, or died, and what was taken is void. */
static bool catch_up_with(uint32_t file)
{
    bool at_end = false;
    enum kv_status status = KV_OK;
    taking = follower;
    while (status == KV_OK && !at_end)
        status = kvstore_changes(run.store, file, &taking.positions[file], kv_slice_from_string(""),
                                 100, take_change, NULL, &at_end);
    if (status == KV_OK)
        follower = taking;
    else if (status == KV_MISSED)
        miss();
    else
        machine_check_status(status, "kvstore_changes");
    return status == KV_OK;
}

static bool catch_up(void)
{
    bool all = true;
    for (uint32_t file = 0; file < run.options.datafiles && follower.follows; file++)
        all = catch_up_with(file) && all;
    run.goes_on_smoothly |= all && follower.follows && run.faults.disk_bytes == 0;
    explore_note("  follower: %s", !follower.follows ? "missed some"
                                   : all             ? "caught up"
                                                     : "cannot read");
    return all && follower.follows;
}

static void start_anew(const struct model_finding found[MODEL_KEYS])
{
    taking.follows = true;
    for (uint32_t file = 0; file < run.options.datafiles && taking.follows; file++) {
        enum kv_status status = kvstore_changes_now(run.store, file, &taking.positions[file]);
        machine_check_status(status, "kvstore_changes_now");
        taking.follows = status == KV_OK;
    }
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        uint64_t version = found[key].is_there ? found[key].version : 0;
        taking.keys[key] = (struct followed){version, version, true};
    }
    follower = taking;
    run.goes_on_smoothly = follower.follows && run.faults.disk_bytes == 0;
}

void machine_follow(void)
{
    if (follower.follows)
        catch_up();
}

void machine_judge_follower(const struct model_finding found[MODEL_KEYS])
{
    if (run.options.keep_changes_ms == 0)
        return;
    bool caught_up = follower.follows && catch_up();
    if (!follower.follows)
        start_anew(found);
    if (!caught_up || run.options.evict != KVSTORE_EVICT_NONE)
        return;
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        const struct followed *followed = &follower.keys[key];
        uint64_t version = found[key].is_there ? found[key].version : 0;
        if (followed->version != version && !followed->expires)
            explore_fail("key %u: who follows the changes has version %" PRIu64 ", but %" PRIu64
                         " is found",
                         key, followed->version, version);
    }
}

void machine_forget_follower(void)
{
    memset(&follower, 0, sizeof follower);
}
