/*
 * interrupt: Ctrl-C ends the running command, not the program, and lets it print its summary;
 * SIGTERM also ends the program. What waits for the server checks interrupt_pending
 * (clientk_options.interrupted).
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_INTERRUPT_H
#define MQKV_CLIENTK_PROGRAM_CLI_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT and SIGTERM only set a mark, and system calls that wait fail with EINTR. In
 * the thread that receives the signals of the process, calls that begin after the signal fail, too:
 * while a signal is pending, SIGALRM comes every 100 ms. May be called again. */
void interrupt_catch(void);

/* Sleeps until a read of the descriptor would not block. False: a signal came first, perhaps before
 * the call. In a thread other than the first, interrupt_join must be waiting for it. */
bool interrupt_wait_readable(int fd);

/* Joins the threads. The kernel delivers a signal to one thread, mostly the first, which waits
 * here, while another may sleep in write(2) on a pipe that nobody reads. After a signal this call
 * therefore sends it to the other threads, too, again and again until they have ended. */
void interrupt_join(const pthread_t *threads, size_t count);

/* True from a signal until interrupt_clear; SIGTERM is never cleared. */
bool interrupt_pending(void);
bool interrupt_terminated(void);
void interrupt_clear(void);

/* If a signal is pending, ends the process by that signal, so that the calling shell sees it. */
void interrupt_obey(void);

#endif
