/*
 * ring_hindrance: why the replies of a session come through a queue, not through shared memory.
 */
#ifndef MQKV_CLIENTK_SESSION_RING_HINDRANCE_H
#define MQKV_CLIENTK_SESSION_RING_HINDRANCE_H

enum ring_hindrance {
    RING_POSSIBLE,
    RING_NOT_WANTED,   /* replies is "queue" */
    RING_OTHER_USER,   /* the server has another uid */
    RING_NOT_OFFERED,  /* by the server */
    RING_OTHER_MEMORY, /* the server sees another /dev/shm */
    RING_NO_MEMORY,    /* it could not be created */
    RING_WATCHED       /* an event loop needs a descriptor that becomes readable */
};

/* A clause. NULL: there is no hindrance. */
const char *ring_hindrance_explain(enum ring_hindrance hindrance);

#endif
