#include "clientk/direct/direct_reason.h"

static const char *const sentences[DIRECT_REASON_COUNT] = {
    [DIRECT_NOT_CONNECTED] = "there is no connection yet",
    [DIRECT_IN_USE] = "the index and the data files are read in place",
    [DIRECT_SWITCHED_OFF] = "switched off here (direct, --direct, MQKV_DIRECT)",
    [DIRECT_NOT_OFFERED] =
        "the server does not offer it (serverk --direct off, an older version, or a limit)",
    [DIRECT_OFFERED_TO_OTHERS] =
        "the server offers it to others, but not to this user (serverk --direct owner|group)",
    [DIRECT_OF_ANOTHER_USER] = "the server is another user's, and open to no group of this one",
    [DIRECT_NO_OBJECT] =
        ("the server's index is not to be found in /dev/shm: it was removed there (the server "
         "makes it anew, or its log says what is in the way), or the server has another /dev/shm"),
    [DIRECT_OBJECT_DENIED] = "this user may not read the shared memory of the server's index",
    [DIRECT_OBJECT_FOREIGN] = "the shared memory of the index does not belong to the server's user",
    [DIRECT_OTHER_LAYOUT] = "the server's index has a layout of another version of mqkv",
    [DIRECT_DAMAGED] = "the shared memory of the server's index makes no sense",
    [DIRECT_NO_DIRECTORY] =
        "the data directory is not to be found here: the server has other mounts",
    [DIRECT_DIRECTORY_DENIED] = "this user may not enter the data directory",
    [DIRECT_FILE_DENIED] = "the data files cannot be opened or mapped here",
    [DIRECT_NO_MEMORY] = "a limit on memory or descriptors does not allow it",
    [DIRECT_SERVER_ENDED] = "the server has ended",
};

const char *direct_reason_sentence(enum direct_reason reason)
{
    return sentences[reason < DIRECT_REASON_COUNT ? reason : DIRECT_NOT_CONNECTED];
}
