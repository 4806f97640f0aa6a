/*
 * direct_reason: why reads go without messages, or why not.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_REASON_H
#define MQKV_CLIENTK_DIRECT_DIRECT_REASON_H

enum direct_reason {
    DIRECT_NOT_CONNECTED, /* yet */
    DIRECT_IN_USE,
    DIRECT_SWITCHED_OFF,
    DIRECT_NOT_OFFERED,
    DIRECT_OFFERED_TO_OTHERS,
    DIRECT_OF_ANOTHER_USER,
    DIRECT_NO_OBJECT,
    DIRECT_OBJECT_DENIED,
    DIRECT_OBJECT_FOREIGN,
    DIRECT_OTHER_LAYOUT,
    DIRECT_DAMAGED,
    DIRECT_NO_DIRECTORY,
    DIRECT_DIRECTORY_DENIED,
    DIRECT_FILE_DENIED,
    DIRECT_NO_MEMORY,
    DIRECT_SERVER_ENDED,
    DIRECT_REASON_COUNT
};

/* Returns a sentence about `reason`, for a person; it lives as long as the program. */
const char *direct_reason_sentence(enum direct_reason reason);

#endif
