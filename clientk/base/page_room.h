/*
 * page_room: how many bytes of an answer a handle sets aside for a page of entries. A message holds
 * few; a page that was full is followed by one with four times the room, up to PAGE_ROOM_MAX_BYTES,
 * in the value segment. Pages that need less let it fade.
 *
 * Threads: any; it is a guess, which threads of one handle may take from one another.
 */
#ifndef MQKV_CLIENTK_BASE_PAGE_ROOM_H
#define MQKV_CLIENTK_BASE_PAGE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/base/large_values.h"

#define PAGE_ROOM_MAX_BYTES ((size_t)256 * 1024)

/* Start from {0}. */
struct page_room {
    _Atomic size_t bytes; /* up to VALUE_INLINE_MAX_BYTES: what a message has is enough */
};

/* Returns the room for the next page; 0: what a message has. */
static inline size_t page_room_next(const struct page_room *room)
{
    size_t bytes = atomic_load_explicit(&room->bytes, memory_order_relaxed);
    return bytes > VALUE_INLINE_MAX_BYTES ? bytes : 0;
}

/* Notes that a page had so many bytes in the room that page_room_next gave, and whether there is
 * more behind it. */
static inline void page_room_note(struct page_room *room, size_t room_bytes, size_t page_bytes,
                                  bool more)
{
    size_t had = room_bytes > 0 ? room_bytes : VALUE_INLINE_MAX_BYTES;
    size_t faded = had - had / 8;
    bool was_full = more && page_bytes >= had - had / 4;
    size_t next = was_full ? 4 * had : page_bytes > faded ? page_bytes : faded;
    atomic_store_explicit(&room->bytes, next < PAGE_ROOM_MAX_BYTES ? next : PAGE_ROOM_MAX_BYTES,
                          memory_order_relaxed);
}

#endif
