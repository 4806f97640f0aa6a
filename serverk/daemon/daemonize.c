#include "serverk/daemon/daemonize.h"
#include "common/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit code where a signal ended the child. */
#define EXIT_FAILED 4

struct daemonize {
    int report; /* the pipe to the parent: one byte, the exit code */
};

/* Waits, in the parent, for the child's word, and exits with it. */
static _Noreturn void exit_as_told(int report, pid_t child)
{
    unsigned char exit_code = EXIT_FAILED;
    ssize_t got;
    do
        got = read(report, &exit_code, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1) {
        int status = 0;
        if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
            fprintf(stderr, "serverk: the daemon was ended by signal %d\n", WTERMSIG(status));
    }
    _exit(exit_code);
}

enum kv_status daemonize_start(struct daemonize **result, struct kv_error *error)
{
    struct daemonize *daemonize = malloc(sizeof *daemonize);
    if (!daemonize)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(daemonize);
        return kv_error_set_errno(error, "cannot go to the background (--daemon)");
    }
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        enum kv_status status = kv_error_set_errno(error, "cannot go to the background (--daemon)");
        close(ends[0]);
        close(ends[1]);
        free(daemonize);
        return status;
    }
    if (child > 0) {
        close(ends[1]);
        exit_as_told(ends[0], child);
    }
    close(ends[0]);
    setsid();
    daemonize->report = ends[1];
    *result = daemonize;
    return KV_OK;
}

static void report_exit_code(struct daemonize *daemonize, int exit_code)
{
    unsigned char byte = (unsigned char)exit_code;
    ssize_t written = write(daemonize->report, &byte, 1);
    (void)written; /* a parent that was killed needs no answer */
    close(daemonize->report);
    free(daemonize);
}

static bool is_file(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

void daemonize_ready(struct daemonize *daemonize)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        if (!is_file(STDERR_FILENO))
            dup2(nowhere, STDERR_FILENO);
        if (nowhere > STDERR_FILENO)
            close(nowhere);
    }
    report_exit_code(daemonize, 0);
}

void daemonize_failed(struct daemonize *daemonize, int exit_code)
{
    report_exit_code(daemonize, exit_code);
}
