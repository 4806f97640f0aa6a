/*
 * standard_files: descriptors 0, 1 and 2 of a program that was started without some of them. The
 * next file, queue or shared memory that is opened would get such a number, and what is meant for
 * standard output or error would be written into it.
 */
#ifndef MQKV_COMMON_REPORT_STANDARD_FILES_H
#define MQKV_COMMON_REPORT_STANDARD_FILES_H

/* To be called before anything is opened. Each one that is closed is /dev/null from then on, opened
 * the wrong way round: reading the first and writing the others fails, as it would without. */
void standard_files_fill(void);

#endif
