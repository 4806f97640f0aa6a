/*
 * machine: a simulated machine under the code: files in directories, a disk, a clock, a boot, and
 * power that fails. While a machine runs, the system calls that the rooms make on paths below
 * MACHINE_PATH, and on descriptors that came of them, are the machine's and never reach the
 * operating system. Everything that the machine decides comes from the seed of the schedule.
 *
 * What programs see is the page cache. What the disk has of it:
 *
 * - A sync of a file brings all of it to the disk that was written before the sync began. Any other
 *   page of 4 KiB gets there when it likes, in any order; of a page that is on its way when the
 *   power goes, any of its sectors of 512 bytes, each whole or up to any byte.
 * - A file's new length gets there in the order of the changes, or half of the way; and what lies
 *   beyond a truncation keeps its old content until then.
 * - Names that were made, renamed or removed get there with the next sync of the directory, or
 *   before, but in their order (as in the journal of a file system).
 * - A sync that fails has brought some of the pages to the disk; others stay in memory, taken for
 *   clean, and are not written again unless they are changed again (Rebello et al., "Can
 *   Applications Recover from fsync Failures?", USENIX ATC 2020). So may be pages that the disk
 *   refused before, of which the next sync of the file tells, once.
 *
 * The model of the disk is that of T. S. Pillai et al., "All File Systems Are Not Created Equal"
 * (OSDI 2014): nothing is on disk but by the sync that covers it, everything else may be. What was
 * synced does not rot.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_H
#define MQKV_TESTS_EXPLORE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* The machine's directories: /machine/a to /machine/d. */
#define MACHINE_PATH "/machine"

/* One of so many calls fails, by chance; 0: none does. */
struct machine_faults {
    uint32_t syncs;      /* EIO */
    uint32_t dir_syncs;  /* EIO */
    uint32_t write_back; /* the disk refuses pages that it writes of its own accord */
    uint32_t reads;      /* EIO */
    uint32_t writes;     /* EIO, some of it written */
    uint32_t interrupts; /* reads and writes that transfer less, and EINTR */
    uint64_t disk_bytes; /* of files and their blocks; 0: there is room for all */
    bool boot_untold;    /* the system does not tell the boot's number */
};

/* Switches a machine on whose directories are empty; and forgets it: other calls go to the
 * operating system again. */
void machine_begin(void);
void machine_end(void);

/* Keeps what is in the directories under a number below MACHINE_KEPT, for the machines that this
 * process will begin; and puts it into the empty directories of one, all on disk. False: nothing is
 * kept there. */
#define MACHINE_KEPT 8u
void machine_keep(unsigned number);
bool machine_put_back(unsigned number);

/* A file of the machine, all on disk. */
void machine_put_file(const char *path, const void *content, uint64_t bytes);

void machine_set_faults(const struct machine_faults *faults);

/* Whether the disk has failed a call or refused a page since the power came last. */
bool machine_has_failed(void);

/* The process that makes the count-th call from now on dies in that call (explore_is_gone). 0: no
 * call. */
void machine_die_at(uint32_t count);

/* What the machine does when a process has died: its descriptors and mappings are gone, and the
 * objects in shared memory stay. */
void machine_bury(unsigned process);

/* The power goes and comes back, when no process lives: the page cache is what the disk has of the
 * files; shared memory is empty; the boot is another one. */
void machine_cut_power(void);

/* How many things a disk may be found to have if the power goes now, torn sectors left out (2^62:
 * or more); and the power goes, and it is this one of them. */
uint64_t machine_disk_states(void);
void machine_cut_power_at(uint64_t state);

/* Lets CLOCK_REALTIME jump. */
void machine_move_clock(int64_t by_ms);

/* The latest time that CLOCK_REALTIME told, in milliseconds. */
uint64_t machine_latest_ms(void);

#endif
