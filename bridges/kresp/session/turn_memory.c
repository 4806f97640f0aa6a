#include "bridges/kresp/session/turn_memory.h"

#include <stdlib.h>
#include <string.h>

/* Values that are larger give their memory back after the turn. */
#define LARGE_VALUE_BYTES ((size_t)16 * 1024)

#define PIECE_BYTES ((size_t)64 * 1024)

struct turn_piece {
    struct turn_piece *next;
    size_t bytes;
    _Alignas(16) char data[];
};

static void free_pieces(struct turn_memory *memory)
{
    while (memory->pieces) {
        struct turn_piece *piece = memory->pieces;
        memory->pieces = piece->next;
        free(piece);
    }
}

void turn_memory_free(struct turn_memory *memory)
{
    for (size_t i = 0; i < memory->result_capacity; i++)
        clientk_value_free(&memory->results[i].value);
    free(memory->results);
    free(memory->operations);
    free_pieces(memory);
}

bool turn_memory_grow(struct turn_memory *memory)
{
    size_t capacity =
        memory->operation_capacity > 0 ? memory->operation_capacity * 2 : TURN_OPERATIONS;
    void *operations = realloc(memory->operations, capacity * sizeof *memory->operations);
    if (!operations)
        return false;
    memory->operations = operations;
    memory->operation_capacity = capacity;
    return true;
}

bool turn_memory_make_results(struct turn_memory *memory)
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

void *turn_memory_allocate(struct turn_memory *memory, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!memory->pieces || memory->pieces->bytes - memory->piece_used < bytes) {
        size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
        struct turn_piece *piece = malloc(sizeof *piece + size);
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

/* Keeps one piece of the usual size. */
static void forget_pieces(struct turn_memory *memory)
{
    memory->piece_used = 0;
    if (memory->pieces && (memory->pieces->next || memory->pieces->bytes > PIECE_BYTES))
        free_pieces(memory);
}

void turn_memory_limit_session(struct turn_memory *memory, size_t value_bytes)
{
    size_t count = value_bytes > 0 ? TURN_SESSION_BYTES / value_bytes : TURN_OPERATIONS;
    memory->session_limit = count < 1 ? 1 : count > TURN_OPERATIONS ? TURN_OPERATIONS : count;
}

static void trim_results(struct turn_memory *memory)
{
    for (size_t i = 0; i < memory->operation_count; i++) {
        struct clientk_value *value = &memory->results[i].value;
        value->size = 0;
        if (value->capacity > LARGE_VALUE_BYTES)
            clientk_value_free(value);
    }
}

void turn_memory_end(struct turn_memory *memory)
{
    trim_results(memory);
    memory->operation_count = 0;
    memory->expected_bytes = 0;
    forget_pieces(memory);
}
