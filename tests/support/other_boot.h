/*
 * other_boot: the file layer of a machine that has been started again since: what was written
 * before other_boot_install was written in an earlier boot. Everything else is as it was.
 */
#ifndef MQKV_TESTS_SUPPORT_OTHER_BOOT_H
#define MQKV_TESTS_SUPPORT_OTHER_BOOT_H

void other_boot_install(void);

/* The same of a system that does not tell which boot it is. */
void untold_boot_install(void);

/* Ends either. */
void other_boot_clear(void);

#endif
