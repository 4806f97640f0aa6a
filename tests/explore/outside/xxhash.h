/* The library's checksums, not compiled into the code that calls them: their steps are of no
 * interest, and there are many. */
#undef XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include_next <xxhash.h>
