/*
 * standard_files: opens the descriptors 0, 1 and 2 of a program that was started without some of
 * them. Otherwise the next file, queue or shared memory that the program opens would get such a
 * number, and text for standard output or error would be written into it.
 */
#ifndef MQKV_COMMON_REPORT_STANDARD_FILES_H
#define MQKV_COMMON_REPORT_STANDARD_FILES_H

/* Called before the program opens anything. Each of the descriptors that is closed is /dev/null
 * from then on, opened the wrong way round: reading from 0 and writing to 1 and 2 fail, as they
 * would without. */
void standard_files_fill(void);

#endif
