/* Included first of all by every file of the coverage build (VARIANT=coverage): a process that ends
 * by _exit writes its counters too. gcov writes them at exit alone, which would lose those of all
 * forked children. */
#ifndef TESTS_COVERAGE_COUNTERS_AT_EXIT_H
#define TESTS_COVERAGE_COUNTERS_AT_EXIT_H

#include <unistd.h>

void __gcov_dump(void);

#define _exit(code) (__gcov_dump(), _exit(code))

#endif
