#include "tests/explore/fiber.h"

#include <asm/prctl.h>
#include <err.h>
#include <link.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The bit of AT_HWCAP2 that says that programs may set FS without the kernel. */
#define MAY_SET_FS 2u

struct fiber {
    void *stack_pointer;
    uint64_t fs_base;
    pthread_t thread; /* sleeps for ever; lends its thread-local variables */
    uint8_t *variables;
    uint8_t *stack;
    sem_t is_known;
};

static struct fiber of_process;
static struct fiber fibers[FIBERS_MAX];

/* The program's thread-local variables, as they are when a thread begins. */
static const uint8_t *first_values;
static size_t first_values_bytes;
static size_t variables_bytes;

/* Keeps what a function has to keep on the stack of the one fiber, and takes it from the stack of
 * the other: rdi: where to keep the stack pointer, rsi: the other's, rdx: the other's FS base, ecx:
 * whether FS is to be set. */
void fiber_swap(void **keep, void *stack_pointer, uint64_t fs_base, int set_fs);
__asm__(".text\n.globl fiber_swap\n.type fiber_swap,@function\n"
        "fiber_swap:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  test %ecx, %ecx\n"
        "  jz 1f\n"
        "  wrfsbase %rdx\n"
        "1:\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n");

/* Where a new fiber begins: rbx is its function, r12 the argument. */
void fiber_begin(void);
__asm__(".text\n.globl fiber_begin\n.type fiber_begin,@function\n"
        "fiber_begin:\n"
        "  mov %r12, %rdi\n"
        "  call *%rbx\n"
        "  ud2\n");

static uint64_t fs_base(void)
{
    uint64_t base = 0;
    syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
    return base;
}

/* The first object of the list is the program. */
static int find_variables(struct dl_phdr_info *info, size_t size, void *fiber)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_TLS)
            continue;
        first_values = (const uint8_t *)info->dlpi_addr + header->p_vaddr;
        first_values_bytes = header->p_filesz;
        variables_bytes = header->p_memsz;
        ((struct fiber *)fiber)->variables = info->dlpi_tls_data;
    }
    return 1;
}

static void *lend_variables(void *argument)
{
    struct fiber *fiber = argument;
    fiber->fs_base = fs_base();
    dl_iterate_phdr(find_variables, fiber);
    sem_post(&fiber->is_known);
    for (;;)
        pause();
    return NULL;
}

static void make(struct fiber *fiber)
{
    sigset_t all, before;
    sigfillset(&all);
    sem_init(&fiber->is_known, 0, 0);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&fiber->thread, NULL, lend_variables, fiber) != 0)
        errx(2, "cannot start a thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (sem_wait(&fiber->is_known) != 0)
        continue;
    fiber->stack = mmap(NULL, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED || mprotect(fiber->stack, 4096, PROT_NONE) != 0)
        err(2, "cannot map a stack");
}

struct fiber *fiber_of_process(void)
{
    of_process.fs_base = fs_base();
    of_process.thread = pthread_self();
    return &of_process;
}

struct fiber *fiber_prepare(unsigned number, void (*run)(void *), void *argument)
{
    struct fiber *fiber = &fibers[number];
    /* All at once: after a fork the C library could give their memory to new threads. */
    for (unsigned i = 0; i < FIBERS_MAX && !fibers[FIBERS_MAX - 1].stack; i++)
        make(&fibers[i]);
    memcpy(fiber->variables, first_values, first_values_bytes);
    memset(fiber->variables + first_values_bytes, 0, variables_bytes - first_values_bytes);
    /* After six pops and the return the stack is aligned as a call leaves it. */
    uint64_t *top = (uint64_t *)(void *)(fiber->stack + FIBER_STACK_BYTES) - 9;
    memset(top, 0, 9 * sizeof *top);
    top[3] = (uint64_t)(uintptr_t)argument;    /* r12 */
    top[4] = (uint64_t)(uintptr_t)run;         /* rbx */
    top[6] = (uint64_t)(uintptr_t)fiber_begin; /* where the return goes */
    fiber->stack_pointer = top;
    return fiber;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    static int may_set_fs = -1;
    if (may_set_fs < 0)
        may_set_fs = (getauxval(AT_HWCAP2) & MAY_SET_FS) != 0;
    if (!may_set_fs)
        syscall(SYS_arch_prctl, ARCH_SET_FS, to->fs_base);
    fiber_swap(&from->stack_pointer, to->stack_pointer, to->fs_base, may_set_fs);
}

pthread_t fiber_pthread(const struct fiber *fiber)
{
    return fiber->thread;
}
