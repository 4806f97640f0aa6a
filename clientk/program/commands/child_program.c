#include "clientk/program/commands/child_program.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/time/clock.h"

int child_program_failure_code(const struct kv_error *error)
{
    return error->status == KV_NOT_FOUND ? 127 : 126;
}

/* The words as posix_spawn takes them; NULL: errno, or one has a NUL byte (EINVAL). */
static char **arguments_of(const struct word *words, size_t count)
{
    char **arguments = calloc(count + 1, sizeof *arguments);
    for (size_t i = 0; arguments && i < count; i++) {
        if (strlen(words[i].data) != words[i].size) {
            free(arguments);
            errno = EINVAL;
            return NULL;
        }
        arguments[i] = words[i].data;
    }
    return arguments;
}

/* Returns 0 or an errno. */
static int spawn(struct child_program *self, char **arguments)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int failure = posix_spawnattr_init(&attributes);
    if (failure != 0)
        return failure;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* which this program ignores */
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &self->mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    failure = posix_spawnp(&self->pid, arguments[0], NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return failure;
}

enum kv_status child_program_start(struct child_program *self, const struct word *words,
                                   size_t count, struct kv_error *error)
{
    *self = (struct child_program){.pid = -1};
    char **arguments = arguments_of(words, count);
    if (!arguments)
        return errno == EINVAL
                   ? kv_error_set(error, KV_USAGE, "a word of the program has a NUL byte in it")
                   : kv_error_set(error, KV_NO_MEMORY, "no memory for the words of the program");
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&self->awaited);
    for (size_t i = 0; i < 4; i++)
        sigaddset(&self->awaited, (const int[]){SIGCHLD, SIGINT, SIGTERM, SIGHUP}[i]);
    pthread_sigmask(SIG_BLOCK, &self->awaited, &self->mask);
    int failure = spawn(self, arguments);
    free(arguments);
    if (failure == 0)
        return KV_OK;
    child_program_end(self);
    return kv_error_set(error, failure == ENOENT ? KV_NOT_FOUND : KV_IO, "%.200s: %s",
                        words[0].data, strerror(failure));
}

/* Returns true if it has ended, and takes its exit code. */
static bool reap(struct child_program *self)
{
    int status = 0;
    if (waitpid(self->pid, &status, WNOHANG) != self->pid)
        return false;
    self->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    self->pid = -1;
    return true;
}

bool child_program_wait(struct child_program *self, int timeout_ms)
{
    const uint64_t end_ms =
        clock_monotonic_ns() / 1000000 + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);
    while (!reap(self)) {
        uint64_t now_ms = clock_monotonic_ns() / 1000000;
        uint64_t left_ms = timeout_ms < 0 ? 3600000 : end_ms > now_ms ? end_ms - now_ms : 0;
        const struct timespec left = {.tv_sec = (time_t)(left_ms / 1000),
                                      .tv_nsec = (long)(left_ms % 1000) * 1000000};
        siginfo_t told;
        int number = sigtimedwait(&self->awaited, &told, &left);
        if (number < 0 && errno == EAGAIN && timeout_ms >= 0)
            return reap(self);
        if (number <= 0 || number == SIGCHLD)
            continue;
        self->signal = number;
        if (told.si_code != SI_KERNEL)
            kill(self->pid, number);
    }
    return true;
}

void child_program_stop(const struct child_program *self)
{
    if (self->pid > 0)
        kill(self->pid, SIGTERM);
}

void child_program_end(struct child_program *self)
{
    pthread_sigmask(SIG_SETMASK, &self->mask, NULL);
}
