#include "common/memory/mapguard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/memory/fork_mutex.h"

/* Guards are never freed, since a handler in another thread may look at them at any time; those of
 * mappings that are gone are used again. */
#define BLOCK_GUARDS 64u

/* After this many faults all of a mapping is given up. */
#define MANY_FAULTS 1000u

struct block {
    struct block *next; /* constant */
    struct mapguard guards[BLOCK_GUARDS];
};

_Atomic uint32_t mapguard_all_faults;

static struct block *_Atomic blocks;
FORK_MUTEX(adding);
static const char *program_name = "";
static uintptr_t page_bytes = 4096;

/* Adding --------------------------------------------------------------------------------------- */

/* holds: adding. */
static struct mapguard *take_free(void)
{
    for (struct block *block = atomic_load(&blocks); block; block = block->next)
        for (unsigned i = 0; i < BLOCK_GUARDS; i++)
            if (!atomic_load(&block->guards[i].taken))
                return &block->guards[i];
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->next = atomic_load(&blocks);
    atomic_store(&blocks, block);
    return &block->guards[0];
}

struct mapguard *mapguard_add(void *start, size_t bytes)
{
    pthread_mutex_lock(&adding);
    struct mapguard *guard = take_free();
    if (guard) {
        atomic_store(&guard->taken, true);
        atomic_store(&guard->faults, 0);
        atomic_store(&guard->fault_offset, 0);
        atomic_store(&guard->told, false);
        atomic_store(&guard->start, (uintptr_t)start);
        atomic_store(&guard->bytes, bytes);
    }
    pthread_mutex_unlock(&adding);
    return guard;
}

void mapguard_remove(struct mapguard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&adding);
    atomic_store(&guard->bytes, 0);
    atomic_store(&guard->taken, false);
    pthread_mutex_unlock(&adding);
}

/* The handler ---------------------------------------------------------------------------------- */

/* Returns true if the address lies in the guard's mapping. One that is being changed meanwhile by
 * another thread is none that this thread has just touched: seen half old and half new, it is
 * looked at again. */
static bool covers(struct mapguard *guard, uintptr_t address)
{
    size_t bytes = atomic_load(&guard->bytes);
    uintptr_t start = atomic_load(&guard->start);
    return bytes != 0 && address >= start && address - start < bytes &&
           atomic_load(&guard->bytes) == bytes && atomic_load(&guard->start) == start;
}

static struct mapguard *find_guard(uintptr_t address)
{
    for (struct block *block = atomic_load(&blocks); block; block = block->next)
        for (unsigned i = 0; i < BLOCK_GUARDS; i++)
            if (covers(&block->guards[i], address))
                return &block->guards[i];
    return NULL;
}

static bool zeros_at(uintptr_t at, size_t bytes)
{
    return syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                   (long)0) == (long)at;
}

/* Counts the fault, then puts a page of zeros there, which is this process's own: whoever reads
 * zeros finds the fault counted. The kernel is called directly: sanitizers watch the library's
 * mmap, which is not for handlers. */
static bool map_zero_page(struct mapguard *guard, uintptr_t address)
{
    uintptr_t page = address & ~(page_bytes - 1);
    uintptr_t start = atomic_load(&guard->start);
    uint32_t faults_before = atomic_fetch_add(&guard->faults, 1);
    if (faults_before == 0)
        atomic_store(&guard->fault_offset, page - start);
    atomic_fetch_add(&mapguard_all_faults, 1);
    /* Each page apart is a mapping of its own, of which a process has 65,530 at most. */
    if (faults_before >= MANY_FAULTS && zeros_at(start, atomic_load(&guard->bytes)))
        return true;
    return zeros_at(page, page_bytes);
}

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

static void end_by(int signal_number)
{
    say(program_name);
    say(": SIGBUS: memory that is none of a data file or segment cannot be accessed; the process "
        "ends\n");
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(signal_number, &action, NULL);
    raise(signal_number); /* comes when the handler returns */
}

static void handle_fault(int signal_number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    (void)context;
    uintptr_t address = (uintptr_t)info->si_addr;
    bool by_access = info->si_code > 0 && info->si_code != SI_KERNEL;
    struct mapguard *guard = by_access ? find_guard(address) : NULL;
    if (!guard || !map_zero_page(guard, address))
        end_by(signal_number);
    errno = saved_errno;
}

void mapguard_install(const char *program)
{
    struct sigaction action = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t bus;
    long bytes = sysconf(_SC_PAGESIZE);
    program_name = program;
    if (bytes > 0)
        page_bytes = (uintptr_t)bytes;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}
