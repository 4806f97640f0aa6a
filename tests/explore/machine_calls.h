/*
 * machine_calls: the system calls of the machine (machine.h), for those that stand for the C
 * library's functions. Each does what its name says of a descriptor of the machine's; `place` is
 * where in the code the call is. Those that return bool return false if the path or the memory is
 * none of the machine's.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_CALLS_H
#define MQKV_TESTS_EXPLORE_MACHINE_CALLS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

bool machine_runs(void); /* a machine is on, and the schedule runs */
bool machine_is_on(void);
bool machine_is_eager(void); /* the disk writes something of its own accord now */
bool machine_has(int descriptor);
bool machine_has_memory(const void *at);

bool machine_openat(int at, const char *path, int flags, mode_t mode, int *descriptor,
                    const void *place);
int machine_close(int descriptor, const void *place);
int machine_fcntl(int descriptor, int command, void *argument);
void machine_fstat(int descriptor, struct stat *facts);
bool machine_fstatat(int at, const char *path, struct stat *facts, int *result);
int machine_fchmod(int descriptor, mode_t mode);
void machine_statvfs(struct statvfs *facts);
off_t machine_lseek(int descriptor, off_t offset, int whence);
int machine_allocate(int descriptor, off_t offset, off_t bytes, const void *place);
int machine_punch(int descriptor, off_t bytes, const void *place);
int machine_truncate(int descriptor, off_t bytes, const void *place);
ssize_t machine_pread(int descriptor, void *to, size_t bytes, off_t offset, const void *place);
ssize_t machine_read(int descriptor, void *to, size_t bytes, const void *place);
ssize_t machine_pwrite(int descriptor, const void *from, size_t bytes, off_t offset,
                       const void *place);
ssize_t machine_write(int descriptor, const void *from, size_t bytes, const void *place);
int machine_fsync(int descriptor, const void *place);
bool machine_rename(int at, const char *from, const char *to, bool exchange, int *result,
                    const void *place);
bool machine_unlink(int at, const char *path, int *result, const void *place);
struct dirent *machine_list(int descriptor);

void *machine_map(size_t bytes, int protection, int flags, int descriptor, off_t offset);
bool machine_unmap(void *begin, size_t bytes);
void machine_forget(int descriptor, off_t offset);
void machine_in_memory(const void *at, size_t bytes, unsigned char *pages);

/* A mapping of the operating system's, or an object in shared memory that a process has made. */
void machine_note_map(void *begin, size_t bytes);
void machine_note_shared(const char *name);

/* What CLOCK_REALTIME tells when the schedule's clock has that time. */
uint64_t machine_clock_ns(uint64_t clock_ns);

#endif
