#include "bridges/kresp/session/batch_memory.h"

#include <stdlib.h>
#include <string.h>

/* A result with a larger value gives its memory back after the batch. */
#define LARGE_VALUE_BYTES ((size_t)16 * 1024)

#define PIECE_BYTES ((size_t)64 * 1024)

struct batch_piece {
    struct batch_piece *next;
    size_t bytes;
    _Alignas(16) char data[];
};

static void free_pieces(struct batch_memory *memory)
{
    while (memory->pieces) {
        struct batch_piece *piece = memory->pieces;
        memory->pieces = piece->next;
        free(piece);
    }
}

void batch_memory_free(struct batch_memory *memory)
{
    for (size_t i = 0; i < memory->result_capacity; i++)
        clientk_value_free(&memory->results[i].value);
    free(memory->results);
    free(memory->operations);
    free_pieces(memory);
}

bool batch_memory_grow(struct batch_memory *memory)
{
    size_t capacity =
        memory->operation_capacity > 0 ? memory->operation_capacity * 2 : BATCH_OPERATIONS;
    void *operations = realloc(memory->operations, capacity * sizeof *memory->operations);
    if (!operations)
        return false;
    memory->operations = operations;
    memory->operation_capacity = capacity;
    return true;
}

bool batch_memory_make_results(struct batch_memory *memory)
{
    if (memory->operation_count <= memory->result_capacity)
        return true;
    void *results = realloc(memory->results, memory->operation_capacity * sizeof *memory->results);
    if (!results)
        return false;
    memory->results = results;
    memset(memory->results + memory->result_capacity, 0,
           (memory->operation_capacity - memory->result_capacity) * sizeof *memory->results);
    memory->result_capacity = memory->operation_capacity;
    return true;
}

void *batch_memory_allocate(struct batch_memory *memory, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!memory->pieces || memory->pieces->bytes - memory->piece_used < bytes) {
        size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
        struct batch_piece *piece = malloc(sizeof *piece + size);
        if (!piece)
            return NULL;
        piece->next = memory->pieces;
        piece->bytes = size;
        memory->pieces = piece;
        memory->piece_used = 0;
    }
    void *given = memory->pieces->data + memory->piece_used;
    memory->piece_used += bytes;
    return given;
}

void batch_memory_limit_session(struct batch_memory *memory, size_t value_bytes)
{
    size_t count = value_bytes > 0 ? BATCH_SESSION_BYTES / value_bytes : BATCH_OPERATIONS;
    memory->session_limit = count < 1 ? 1 : count > BATCH_OPERATIONS ? BATCH_OPERATIONS : count;
}

void batch_memory_end(struct batch_memory *memory)
{
    for (size_t i = 0; i < memory->operation_count; i++) {
        struct clientk_value *value = &memory->results[i].value;
        value->size = 0;
        if (value->capacity > LARGE_VALUE_BYTES)
            clientk_value_free(value);
    }
    memory->operation_count = 0;
    memory->expected_bytes = 0;
    /* One piece of the usual size is kept. */
    memory->piece_used = 0;
    if (memory->pieces && (memory->pieces->next || memory->pieces->bytes > PIECE_BYTES))
        free_pieces(memory);
}
