/*
 * descriptors: which process of a schedule opened which descriptor, so that those of a killed one
 * are closed, and their locks end.
 */
#ifndef MQKV_TESTS_EXPLORE_DESCRIPTORS_H
#define MQKV_TESTS_EXPLORE_DESCRIPTORS_H

/* A schedule begins, or has ended. */
void descriptors_reset(void);

/* The process ends. */
void descriptors_close(unsigned process);

#endif
