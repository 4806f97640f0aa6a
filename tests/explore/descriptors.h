/*
 * descriptors: which process of a schedule opened which descriptor, so that those of a killed one
 * are closed, and their locks end.
 */
#ifndef MQKV_TESTS_EXPLORE_DESCRIPTORS_H
#define MQKV_TESTS_EXPLORE_DESCRIPTORS_H

void descriptors_reset(void);
void descriptors_close(unsigned process);

#endif
