/*
 * suites: every unit suite there is, one declaration per tests/unit/test_<room>_<noun>.c. The
 * runner of the room, tests/unit/main_<room>.c, lists those of its room.
 */
#ifndef MQKV_TESTS_UNIT_SUITES_H
#define MQKV_TESTS_UNIT_SUITES_H

#include <check.h>

/* common */
Suite *suite_common_assert(void);
Suite *suite_common_clock(void);
Suite *suite_common_copy(void);
Suite *suite_common_cursor(void);
Suite *suite_common_error(void);
Suite *suite_common_escape(void);
Suite *suite_common_histogram(void);
Suite *suite_common_log(void);
Suite *suite_common_mapguard(void);
Suite *suite_common_option_table(void);
Suite *suite_common_parse(void);
Suite *suite_common_random(void);
Suite *suite_common_delay(void);
Suite *suite_common_slice(void);
Suite *suite_common_status(void);
Suite *suite_common_written_file(void);

/* allocator (lab/allocator) */
Suite *suite_allocator_calls(void);
Suite *suite_allocator_freelist(void);
Suite *suite_allocator_threads(void);

/* kvstore */
Suite *suite_kvstore_bound(void);
Suite *suite_kvstore_broken(void);
Suite *suite_kvstore_cache(void);
Suite *suite_kvstore_checkpoint(void);
Suite *suite_kvstore_compact(void);
Suite *suite_kvstore_compact_failures(void);
Suite *suite_kvstore_concurrency(void);
Suite *suite_kvstore_copylog(void);
Suite *suite_kvstore_damage(void);
Suite *suite_kvstore_verified(void);
Suite *suite_kvstore_expiry(void);
Suite *suite_kvstore_faults(void);
Suite *suite_kvstore_fileio(void);
Suite *suite_kvstore_fork(void);
Suite *suite_kvstore_format(void);
Suite *suite_kvstore_hold(void);
Suite *suite_kvstore_hole(void);
Suite *suite_kvstore_index(void);
Suite *suite_kvstore_kvcheck(void);
Suite *suite_kvstore_lock(void);
Suite *suite_kvstore_open(void);
Suite *suite_kvstore_powercut(void);
Suite *suite_kvstore_powercut_orders(void);
Suite *suite_kvstore_pread(void);
Suite *suite_kvstore_prefetch(void);
Suite *suite_kvstore_record(void);
Suite *suite_kvstore_room(void);
Suite *suite_kvstore_recovery(void);
Suite *suite_kvstore_s3fifo(void);
Suite *suite_kvstore_scan(void);
Suite *suite_kvstore_scancursor(void);
Suite *suite_kvstore_arena(void);
Suite *suite_kvstore_change_losses(void);
Suite *suite_kvstore_changes(void);
Suite *suite_kvstore_gone(void);
Suite *suite_kvstore_rollback(void);
Suite *suite_kvstore_takeover(void);
Suite *suite_kvstore_store(void);
Suite *suite_kvstore_commit_log(void);
Suite *suite_kvstore_direct_io(void);
Suite *suite_kvstore_sync(void);
Suite *suite_kvstore_sync_slot(void);
Suite *suite_kvstore_torn(void);
Suite *suite_kvstore_eventcount(void);
Suite *suite_kvstore_kept_pages(void);
Suite *suite_kvstore_past_logs(void);

/* lab */
Suite *suite_lab_cost_estimate(void);
Suite *suite_lab_optimistic(void);
Suite *suite_lab_schedule(void);
Suite *suite_lab_slots(void);

/* history (tests/history, the linearizability checker) */
Suite *suite_history_check(void);

/* serverk */
Suite *suite_serverk_allowance(void);
Suite *suite_serverk_commit(void);
Suite *suite_serverk_aside(void);
Suite *suite_serverk_parking(void);
Suite *suite_serverk_lane_plan(void);
Suite *suite_serverk_lanes(void);
Suite *suite_serverk_large(void);
Suite *suite_serverk_option_file(void);
Suite *suite_serverk_options(void);
Suite *suite_serverk_stats_json(void);
Suite *suite_serverk_session(void);
Suite *suite_serverk_audit(void);
Suite *suite_serverk_orphans(void);
Suite *suite_serverk_watchdog(void);
Suite *suite_serverk_watchers(void);
Suite *suite_serverk_sandbox(void);
Suite *suite_serverk_shares(void);
Suite *suite_serverk_start_guard(void);
Suite *suite_serverk_fragments(void);
Suite *suite_serverk_farewell(void);
Suite *suite_serverk_overload(void);
Suite *suite_serverk_receiver(void);
Suite *suite_serverk_worker(void);

/* mirror */
Suite *suite_mirror_state(void);
Suite *suite_mirror_copy_page(void);

/* natskv */
Suite *suite_natskv_subject(void);
Suite *suite_natskv_json(void);
Suite *suite_natskv_rewrite(void);
Suite *suite_natskv_sweep(void);
Suite *suite_natskv_walk(void);

/* wire */
Suite *suite_wire_example(void);
Suite *suite_wire_identity(void);
Suite *suite_wire_message(void);
Suite *suite_wire_change(void);
Suite *suite_wire_operation(void);
Suite *suite_wire_queue(void);
Suite *suite_wire_queue_name(void);
Suite *suite_wire_value_segment(void);
Suite *suite_wire_reply_ring(void);
Suite *suite_wire_timeslice(void);
Suite *suite_wire_wait(void);

/* program (clientk/program) */
Suite *suite_program_arguments(void);
Suite *suite_program_command(void);
Suite *suite_program_diagnosis(void);
Suite *suite_program_dump(void);
Suite *suite_program_json(void);
Suite *suite_program_line(void);
Suite *suite_program_line_source(void);
Suite *suite_program_listing(void);
Suite *suite_program_live_records(void);
Suite *suite_program_metrics(void);
Suite *suite_program_migration(void);
Suite *suite_program_output(void);
Suite *suite_program_workload(void);

/* clientk */
Suite *suite_clientk_batch(void);
Suite *suite_clientk_calls(void);
Suite *suite_clientk_direct(void);
Suite *suite_clientk_direct_damage(void);
Suite *suite_clientk_direct_live(void);
Suite *suite_clientk_direct_stopped(void);
Suite *suite_clientk_linger(void);
Suite *suite_clientk_failures(void);
Suite *suite_clientk_interruption(void);
Suite *suite_clientk_key_set(void);
Suite *suite_clientk_event_loop(void);
Suite *suite_clientk_pipeline(void);
Suite *suite_clientk_window(void);
Suite *suite_clientk_scan(void);
Suite *suite_clientk_session_end(void);
Suite *suite_clientk_sham(void);
Suite *suite_clientk_threads(void);
Suite *suite_clientk_values(void);
Suite *suite_clientk_watch(void);

/* kresp */
Suite *suite_kresp_buffer(void);
Suite *suite_kresp_connection(void);
Suite *suite_kresp_decimal(void);
Suite *suite_kresp_error(void);
Suite *suite_kresp_glob(void);
Suite *suite_kresp_reply(void);
Suite *suite_kresp_request(void);
Suite *suite_kresp_sandbox(void);
Suite *suite_kresp_scripts(void);
Suite *suite_kresp_shares(void);
Suite *suite_kresp_steps(void);
Suite *suite_kresp_transaction(void);

#endif
