#include "kvstore/shared/segment.h"

static void sift_down(slot *heap, size_t count, size_t at)
{
    slot item = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= item)
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

/* Heapsort (J. W. J. Williams, 1964): qsort may allocate, and this runs under the file's lock. */
static void sort(slot *items, size_t count)
{
    for (size_t at = count / 2; at-- > 0;)
        sift_down(items, count, at);
    for (size_t last = count; last-- > 1;) {
        slot greatest = items[0];
        items[0] = items[last];
        items[last] = greatest;
        sift_down(items, last, 0);
    }
}

size_t segment_collect(const struct index_segment *segment, uint64_t from_hash,
                       slot items[INDEX_SEGMENT_SLOTS])
{
    size_t count = 0;
    for (uint32_t i = 0; i < INDEX_SEGMENT_SLOTS; i++) {
        slot item = load_slot(&segment->slots[i]);
        if (item != 0 && slot_hash(item) >= from_hash)
            items[count++] = item;
    }
    sort(items, count);
    return count;
}
