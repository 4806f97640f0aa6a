/*
 * interrupt: Ctrl-C ends the command under way, not the program, and lets it sum up; SIGTERM ends the
 * program, too. What waits for the server looks at interrupt_pending (clientk_options.interrupted).
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_INTERRUPT_H
#define MQKV_CLIENTK_PROGRAM_CLI_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT and SIGTERM are only noted; system calls that wait give EINTR, also those of the
 * thread that takes the process's signals which begin after it: while a signal is pending SIGALRM
 * comes every 100 ms. May be called again. */
void interrupt_catch(void);

/* Sleeps until a read of the descriptor would not; false if a signal came before that, also one that came
 * before the call. In another thread than the first: if interrupt_join waits for it. */
bool interrupt_wait_readable(int fd);

/* Joins the threads. A signal comes to one thread, mostly the first, which waits here, while another may
 * sleep in write(2) on a pipe that nobody reads: so after a signal those that have not ended are sent it,
 * too, and again until they have. */
void interrupt_join(const pthread_t *threads, size_t count);

/* True since a signal came, until it is cleared; a SIGTERM is never cleared. */
bool interrupt_pending(void);
bool interrupt_terminated(void);
void interrupt_clear(void);

/* If one is pending, ends the process by that very signal, so that a calling shell knows. */
void interrupt_obey(void);

#endif
