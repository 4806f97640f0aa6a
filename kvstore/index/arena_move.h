/*
 * arena_move: moves the contents of an arena's object to another object, under the same addresses,
 * when nobody finds the old object any more, since its name was removed.
 *
 * The pages of the new object take the place of the old ones in this process at once, with the same
 * bytes: threads that read meanwhile see no difference. Other processes keep the pages that they
 * have mapped, which nobody changes any more.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_MOVE_H
#define MQKV_KVSTORE_INDEX_ARENA_MOVE_H

#include <stdbool.h>

struct arena;

/* Returns another descriptor of the arena's object; -1, errno. */
int arena_object(const struct arena *arena);

/* Allocates the bytes that a move takes in the empty object `fd`, while the arena stays in use.
 * False, errno: there is no room. Any thread. */
bool arena_prepare_move(struct arena *arena, int fd);

/* Moves all to the object `fd`, and closes fd; struct shared_store there is
 * SHARED_STORE_BEING_MADE. Nobody may change pieces of the arena meanwhile; an atomic operation on
 * a word that comes between is lost in the old object. False, errno: nothing has changed, and fd
 * stays the caller's. */
bool arena_move(struct arena *arena, int fd);

/* Asks for the large pages that there were before a move. Any thread. */
void arena_restore_large_pages(struct arena *arena);

#endif
