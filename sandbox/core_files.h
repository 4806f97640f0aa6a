/*
 * core_files: whether a crash of this process may leave a core file, which would hold values.
 */
#ifndef MQKV_SANDBOX_CORE_FILES_H
#define MQKV_SANDBOX_CORE_FILES_H

/* For good: the limit cannot be raised again. */
void core_files_forbid(void);

/* As large as the hard limit (ulimit -Hc) allows. */
void core_files_allow(void);

#endif
