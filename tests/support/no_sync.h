/*
 * no_sync: a disk that says at once that all is on it, for tests that open a store a thousand times
 * and ask nothing about syncs. Everything else of the file layer is the operating system's.
 */
#ifndef MQKV_TESTS_SUPPORT_NO_SYNC_H
#define MQKV_TESTS_SUPPORT_NO_SYNC_H

void no_sync_install(void);
void no_sync_clear(void);

#endif
