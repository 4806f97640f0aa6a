/*
 * die_by_signal: ends the process as a signal by itself does, so that the parent's wait tells the
 * truth.
 */
#ifndef MQKV_COMMON_REPORT_DIE_BY_SIGNAL_H
#define MQKV_COMMON_REPORT_DIE_BY_SIGNAL_H

/* Ends the process by `signal_number`. The first process of a container, which the kernel spares
 * its own signals, exits with 128 and the signal's number. Calls only what signal-safety(7) allows,
 * so that a signal's handler may call it, even the handler of the signal itself. */
_Noreturn void die_by_signal(int signal_number);

#endif
