/*
 * machine_clock: the machine's clock of the day, and the number of its boot.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_CLOCK_H
#define MQKV_TESTS_EXPLORE_MACHINE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_BOOT_PATH "/proc/sys/kernel/random/boot_id"

/* The first boot of a machine, and another one of the same. */
void machine_clock_begin(uint64_t seed);
void machine_clock_boot(void);

/* What CLOCK_REALTIME would tell now. */
uint64_t machine_clock_now_ns(void);

/* A read of the file that tells the boot's number. */
ssize_t machine_read_boot(void *to, size_t bytes, off_t offset);

#endif
