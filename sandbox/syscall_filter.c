#include "sandbox/syscall_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/report/die_by_signal.h"
#include "common/report/error.h"
#include "common/report/log.h"

/* Called with any arguments. For these the kernel keeps a bitmap (from 5.11 on), so that they do
 * not cost a run of the filter: everything that a request needs belongs here. */
static const int free_calls[] = {
    /* requests and waiting */
    SCMP_SYS(mq_timedreceive),
    SCMP_SYS(mq_timedsend),
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(getcpu),
    /* queues, events, processes of clients */
    SCMP_SYS(mq_open),
    SCMP_SYS(mq_unlink),
    SCMP_SYS(mq_getsetattr),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(eventfd2),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(signalfd4),
    SCMP_SYS(inotify_init1),
    SCMP_SYS(inotify_add_watch),
    SCMP_SYS(pidfd_open),
    /* files */
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(preadv),
    SCMP_SYS(pwritev),
    SCMP_SYS(lseek),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(fcntl),
    SCMP_SYS(flock),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchown),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(fadvise64),
    SCMP_SYS(fdatasync),
    SCMP_SYS(fsync),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(mincore),
    SCMP_SYS(msync),
    SCMP_SYS(membarrier),
    SCMP_SYS(getrandom),
    /* threads, signals, the process itself */
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(wait4),
    SCMP_SYS(waitid),
    SCMP_SYS(alarm),
    SCMP_SYS(setitimer),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getpriority),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getrusage),
    SCMP_SYS(times),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
};

/* A process of its own name spaces would see another world. */
#define NEW_NAMESPACES                                                                            \
    ((scmp_datum_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
                    CLONE_NEWPID | CLONE_NEWNET))

/* The argument of that number has these bits of `mask`. */
static struct scmp_arg_cmp is_masked(unsigned argument, scmp_datum_t mask, scmp_datum_t value)
{
    return (struct scmp_arg_cmp){
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

/* It is `value`: an int, of whose register the kernel looks at the lower half only. */
static struct scmp_arg_cmp is(unsigned argument, scmp_datum_t value)
{
    return is_masked(argument, UINT32_MAX, value);
}

static bool allow(scmp_filter_ctx filter, int call, struct scmp_arg_cmp argument)
{
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &argument) == 0;
}

/* All of them, with any arguments. */
static bool allow_all(scmp_filter_ctx filter, const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, calls[i], 0, NULL) != 0)
            return false;
    return true;
}

/* No memory that is code. */
static bool allow_memory(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp no_code = is_masked(2, PROT_EXEC, 0);
    return allow(filter, SCMP_SYS(mmap), no_code) && allow(filter, SCMP_SYS(mprotect), no_code);
}

/* clone3 has its flags in memory, where no filter sees them: the C library takes clone instead. */
static bool allow_threads(scmp_filter_ctx filter, bool forks)
{
    scmp_datum_t kind = forks ? 0 : CLONE_THREAD;
    return allow(filter, SCMP_SYS(clone), is_masked(0, NEW_NAMESPACES | kind, kind)) &&
           allow(filter, SCMP_SYS(prctl), is(0, PR_SET_NAME)) &&
           allow(filter, SCMP_SYS(prctl), is(0, PR_SET_TIMERSLACK)) &&
           (!forks || allow(filter, SCMP_SYS(prctl), is(0, PR_SET_PDEATHSIG))) &&
           seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, NULL) == 0;
}

/* Signals and limits of this process only. */
static bool allow_itself(scmp_filter_ctx filter, bool nice)
{
    scmp_datum_t self = (scmp_datum_t)getpid();
    return allow(filter, SCMP_SYS(kill), is(0, self)) &&
           allow(filter, SCMP_SYS(tgkill), is(0, self)) &&
           allow(filter, SCMP_SYS(prlimit64), is(0, 0)) &&
           allow(filter, SCMP_SYS(ioctl), is(1, TCGETS)) &&
           (!nice ||
            seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 0, NULL) == 0);
}

/* Clients at a socket, for which libclientk asks a server. Where other programs keep the CPUs busy,
 * the library has the scheduler give it short turns (wire/time_slice.h). */
static bool allow_serving(scmp_filter_ctx filter)
{
    static const int calls[] = {
        SCMP_SYS(accept4),      SCMP_SYS(getsockopt),    SCMP_SYS(setsockopt),
        SCMP_SYS(sendto),       SCMP_SYS(getpeername),   SCMP_SYS(shutdown),
        SCMP_SYS(epoll_pwait2), SCMP_SYS(sched_getattr), SCMP_SYS(sched_setattr)};
    return allow_all(filter, calls, sizeof calls / sizeof calls[0]);
}

/* An engine behind a network: its connections, and looking up the names of its servers. */
static bool allow_network(scmp_filter_ctx filter)
{
    static const int calls[] = {
        SCMP_SYS(socket),   SCMP_SYS(connect),     SCMP_SYS(shutdown),   SCMP_SYS(sendto),
        SCMP_SYS(recvfrom), SCMP_SYS(sendmsg),     SCMP_SYS(recvmsg),    SCMP_SYS(sendmmsg),
        SCMP_SYS(recvmmsg), SCMP_SYS(getsockopt),  SCMP_SYS(setsockopt), SCMP_SYS(getsockname),
        SCMP_SYS(bind),     SCMP_SYS(getpeername), SCMP_SYS(select),     SCMP_SYS(pselect6),
    };
    return allow_all(filter, calls, sizeof calls / sizeof calls[0]) &&
           allow(filter, SCMP_SYS(ioctl), is(1, FIONREAD)) &&
           allow(filter, SCMP_SYS(ioctl), is(1, FIONBIO));
}

/* Programs of another architecture's calls end at once. The kernel's precautions against programs
 * that are out to read each other's memory speculatively cost time and protect nobody here; kernels
 * before 5.16 would take them. What an older libseccomp does not know is no loss. */
static void set_attributes(scmp_filter_ctx filter)
{
    seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

/* The thread may hold locks: only a line of the log, which takes none. */
static void tell_and_end(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    log_error("system call %d, which this program never makes, was refused: it ends now. "
              "If a new C library makes the call, --sandbox off helps for the moment",
              info->si_syscall);
    die_by_signal(signal_number);
}

enum kv_status syscall_filter_enter(const struct syscall_needs *needs, bool *entered,
                                    struct kv_error *error)
{
    *entered = false;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    bool complete =
        filter && allow_all(filter, free_calls, sizeof free_calls / sizeof free_calls[0]) &&
        allow_memory(filter) && allow_threads(filter, needs->forks) &&
        allow_itself(filter, needs->nice) && (!needs->connects || allow_network(filter)) &&
        (!needs->serves || allow_serving(filter));
    if (!complete) {
        seccomp_release(filter);
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    }
    set_attributes(filter);
    struct sigaction action = {.sa_sigaction = tell_and_end, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    int result = seccomp_load(filter);
    seccomp_release(filter);
    *entered = result == 0;
    if (result == -ENOMEM)
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    return KV_OK;
}
