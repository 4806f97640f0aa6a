/*
 * held_disk: serverk on a disk that can stand still: each write to a data file of 16 KiB or more
 * first says so by a byte to the FIFO $MQKV_DISK_SAYS and then waits for a byte of the FIFO
 * $MQKV_DISK_WAITS. An 'x' there lets this and all later ones pass.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvstore/log/fileio.h"

int serverk_main(int argc, char **argv);
#define main serverk_main
#include "serverk/daemon/serverk.c"
#undef main

#define HELD_BYTES (16u << 10)

static int says = -1, waits = -1;
static _Atomic bool passes;

static ssize_t write_when_let(int fd, const void *data, size_t size, off_t offset)
{
    char byte = '.';
    if (size >= HELD_BYTES && !atomic_load(&passes) &&
        (write(says, &byte, 1) != 1 || read(waits, &byte, 1) != 1 || byte == 'x'))
        atomic_store(&passes, true);
    return fileio_system.write_at(fd, data, size, offset);
}

/* Open for both: it waits for nobody to open the other end, and never sees an end. */
static int open_fifo(const char *variable)
{
    const char *path = getenv(variable);
    int fifo = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fifo < 0) {
        perror(variable);
        exit(2);
    }
    return fifo;
}

int main(int argc, char **argv)
{
    static struct fileio held;
    says = open_fifo("MQKV_DISK_SAYS");
    waits = open_fifo("MQKV_DISK_WAITS");
    held = fileio_system;
    held.write_at = write_when_let;
    fileio = &held;
    return serverk_main(argc, argv);
}
