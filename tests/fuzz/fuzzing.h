/*
 * fuzzing: what fuzzers share.
 */
#ifndef MQKV_TESTS_FUZZ_FUZZING_H
#define MQKV_TESTS_FUZZ_FUZZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts, which libFuzzer takes for a finding, unless what must hold does. */
#define require(holds) ((holds) ? (void)0 : require_failed(#holds, __FILE__, __LINE__))

_Noreturn static inline void require_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* The bytes up to the first NUL as a text of its own size, to be freed. */
static inline char *text_of(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    require(text != NULL);
    return text;
}

#endif
