/*
 * instructions: how many instructions of its own a piece of this program executes, which repeats
 * from run to run where times do not. Counted by the CPU (perf_event_open(2), user mode only), or,
 * where the machine does not let us, by Callgrind when the program runs under it.
 *
 * Threads: those of the calling thread; one user at a time.
 */
#ifndef MQKV_TESTS_BENCH_INSTRUCTIONS_H
#define MQKV_TESTS_BENCH_INSTRUCTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum instructions_source {
    INSTRUCTIONS_NONE,
    INSTRUCTIONS_CPU,
    INSTRUCTIONS_CALLGRIND /* writes a file a piece, whose trigger is the piece's name */
};

enum instructions_source instructions_open(void);
void instructions_close(void);

void instructions_begin(void);

/* How many since begin; 0 where the source is not the CPU. Callgrind writes them down as `name`. */
uint64_t instructions_end(const char *name);

#endif
