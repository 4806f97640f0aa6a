/*
 * pieces: what microbench measures: one piece of work of each layer, as a function that does it a
 * number of times on prepared input. Keys have 16 bytes, values 64 unless said otherwise.
 */
#ifndef MQKV_TESTS_BENCH_PIECES_H
#define MQKV_TESTS_BENCH_PIECES_H

#include <stdint.h>

struct piece {
    const char *layer;
    const char *name;              /* unique */
    uint64_t keys;                 /* that set_up puts in; 0: none */
    uint64_t max_calls;            /* after one set_up; 0: no limit */
    void (*set_up)(uint64_t keys); /* NULL: nothing to do. Ends the program if it fails */
    void (*run)(uint64_t calls);
    void (*tear_down)(void); /* NULL: nothing to do */
};

/* Tables that end with a piece without a name. */
extern const struct piece wire_pieces[];
extern const struct piece store_pieces[];
extern const struct piece ends_pieces[];   /* messages of client and server */
extern const struct piece client_pieces[]; /* whole calls */

/* A key, in a buffer that the next three calls leave alone. Ten instructions. */
#define PIECE_KEY_BYTES   16u
#define PIECE_VALUE_BYTES 64u
const void *piece_key(uint64_t number);

/* Results that nobody needs go here, so that the compiler does not drop the work. */
extern uint64_t piece_sink;

#endif
