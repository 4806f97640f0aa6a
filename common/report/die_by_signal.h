/*
 * die_by_signal: ends the process as a signal does by itself, so that whoever waits for it is told
 * the truth.
 */
#ifndef MQKV_COMMON_REPORT_DIE_BY_SIGNAL_H
#define MQKV_COMMON_REPORT_DIE_BY_SIGNAL_H

/* The first process of a container, which the kernel spares its own signals, exits with 128 and the
 * signal's number. Calls only what signal-safety(7) allows, so a handler may call it, also that of
 * the signal itself. */
_Noreturn void die_by_signal(int signal_number);

#endif
