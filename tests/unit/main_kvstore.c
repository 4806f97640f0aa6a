#include <stddef.h>

#include "tests/support/run_suites.h"
#include "tests/unit/suites.h"

int main(void)
{
    static const suite_maker makers[] = {
        suite_kvstore_fileio,
        suite_kvstore_record,
        suite_kvstore_index,
        suite_kvstore_arena,
        suite_kvstore_lock,
        suite_kvstore_fork,
        suite_kvstore_format,
        suite_kvstore_hole,
        suite_kvstore_damage,
        suite_kvstore_verified,
        suite_kvstore_kvcheck,
        suite_kvstore_faults,
        suite_kvstore_store,
        suite_kvstore_expiry,
        suite_kvstore_recovery,
        suite_kvstore_torn,
        suite_kvstore_compact,
        suite_kvstore_compact_failures,
        suite_kvstore_copylog,
        suite_kvstore_room,
        suite_kvstore_sync,
        suite_kvstore_sync_slot,
        suite_kvstore_eventcount,
        suite_kvstore_scan,
        suite_kvstore_scancursor,
        suite_kvstore_concurrency,
        suite_kvstore_open,
        suite_kvstore_checkpoint,
        suite_kvstore_powercut,
        suite_kvstore_powercut_orders,
        suite_kvstore_prefetch,
        suite_kvstore_pread,
        suite_kvstore_direct_io,
        suite_kvstore_kept_pages,
        suite_kvstore_cache,
        suite_kvstore_broken,
        suite_kvstore_commit_log,
        suite_kvstore_takeover,
        suite_kvstore_hold,
        suite_kvstore_bound,
        suite_kvstore_s3fifo,
        suite_kvstore_changes,
        suite_kvstore_change_losses,
        suite_kvstore_past_logs,
        suite_kvstore_rollback,
        suite_kvstore_gone,
        NULL,
    };
    return run_suites(makers);
}
