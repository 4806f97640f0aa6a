#include "tests/support/live_server.h"

#include <check.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "wire/queue.h"

#define MAX_LANES 32u

/* In the child: becomes serverk. Its log goes to a file in the server's directory. */
static void become_server(const struct live_server *server, const char *option1,
                          const char *option2)
{
    const char *build = getenv("MQKV_BUILD");
    char program[256];
    char log[STORE_DIR_BYTES + 8];
    snprintf(program, sizeof program, "%s/serverk", build ? build : "build");
    snprintf(log, sizeof log, "%s.log", server->dir);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(program, program, "-f", server->dir, "-m", server->queue, "-w", "2", option1, option2,
          (char *)NULL);
    perror(program);
    _exit(127);
}

static void unlink_queues(const char *base)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    for (unsigned i = 0; i < MAX_LANES; i++) {
        wire_queue_name(name, base, WIRE_LANE, 0, i);
        mq_unlink(name);
        wire_queue_name(name, base, WIRE_BULK_LANE, 0, i);
        mq_unlink(name);
    }
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    mq_unlink(name);
}

static void remove_traces(const struct live_server *server)
{
    unlink_queues(server->queue);
    char log[STORE_DIR_BYTES + 8];
    snprintf(log, sizeof log, "%s.log", server->dir);
    unlink(log);
    store_dir_remove(server->dir);
}

/* A process that cleans up when this one has ended, however it ended: a failed test runs no
 * teardown, and what it left of the user's message queues would fail the next ones. It waits for
 * the end of the pipe whose only writer is this process (and its forked tests). */
static void start_janitor(struct live_server *server)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setsid(); /* Check kills the group of a test that takes too long */
        close(ends[1]);
        char byte;
        while (read(ends[0], &byte, 1) < 0)
            continue;
        remove_traces(server);
        _exit(0);
    }
    close(ends[0]);
    server->janitor = pid;
    server->janitor_pipe = ends[1];
}

/* Waits until the queue is there and served. */
static void await_readiness(struct live_server *server)
{
    for (;;) {
        mqd_t lane;
        if (wire_queue_open(server->queue, true, &lane, NULL, NULL) == KV_OK) {
            bool served = wire_lane_server(lane) > 0;
            mq_close(lane);
            if (served)
                return;
        }
        int status;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            ck_abort_msg("serverk did not start: %s.log", server->dir);
        }
        clock_sleep_ms(2);
    }
}

void live_server_restart(struct live_server *server, const char *option1, const char *option2)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        become_server(server, option1, option2);
    server->pid = pid;
}

void live_server_start(struct live_server *server, const char *option1, const char *option2)
{
    static atomic_uint started;
    const char *queue = getenv("MQKV_TEST_QUEUE");
    *server = (struct live_server){.pid = 0};
    store_dir_make(server->dir);
    snprintf(server->queue, sizeof server->queue, "%.32s.%d.%u", queue ? queue : "/tck",
             (int)getpid(), atomic_fetch_add(&started, 1));
    start_janitor(server);
    live_server_restart(server, option1, option2);
    await_readiness(server);
}

int live_server_signal(struct live_server *server, int signal_number)
{
    ck_assert_int_gt(server->pid, 0);
    ck_assert_int_eq(kill(server->pid, signal_number), 0);
    int status;
    if (signal_number == SIGSTOP)
        ck_assert_int_eq(waitpid(server->pid, &status, WUNTRACED), server->pid);
    if (signal_number != SIGTERM && signal_number != SIGKILL)
        return 0;
    ck_assert_int_eq(waitpid(server->pid, &status, 0), server->pid);
    server->pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void live_server_remove(struct live_server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGCONT);
        live_server_signal(server, SIGKILL);
    }
    close(server->janitor_pipe);
    waitpid(server->janitor, NULL, 0);
}

void live_server_fill_lanes(const struct live_server *server)
{
    static const enum wire_queue_role roles[] = {WIRE_LANE, WIRE_BULK_LANE};
    for (unsigned role = 0; role < 2; role++) {
        for (unsigned number = 0; number < MAX_LANES; number++) {
            char name[WIRE_QUEUE_NAME_BYTES];
            wire_queue_name(name, server->queue, roles[role], 0, number);
            mqd_t lane;
            if (wire_queue_open(name, true, &lane, NULL, NULL) != KV_OK)
                continue;
            while (mq_send(lane, "?", 1, 0) == 0)
                continue;
            mq_close(lane);
        }
    }
}
