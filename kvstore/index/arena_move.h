/*
 * arena_move: what an arena has in its object is moved to another object, under the same addresses:
 * for one that nobody finds any more, since its name was removed.
 *
 * The pages of the new object take the place of the old ones in this process at once, with the same
 * bytes: who reads meanwhile sees no difference. Other processes keep what they have mapped, which
 * nobody changes any more.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_MOVE_H
#define MQKV_KVSTORE_INDEX_ARENA_MOVE_H

#include <stdbool.h>

struct arena;

/* Another descriptor of the arena's object; -1, errno. */
int arena_object(const struct arena *arena);

/* Allocates in the object `fd`, which is empty, what a move takes, while all goes on. False, errno:
 * there is no room. Any thread. */
bool arena_prepare_move(struct arena *arena, int fd);

/* Moves all to the object, and closes fd; struct shared_store is made as one that is
 * SHARED_STORE_BEING_MADE. Nobody may change what was taken of the arena meanwhile; words that only
 * atomic operations change are lost where one comes between: they are in the old object. False,
 * errno: nothing has changed, and fd is the caller's still. */
bool arena_move(struct arena *arena, int fd);

/* Asks for the large pages that there were before a move. Any thread. */
void arena_restore_large_pages(struct arena *arena);

#endif
