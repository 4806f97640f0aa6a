#include "bridges/kresp/session/keyspace_events.h"

#include <stdlib.h>

#include "common/memory/copy.h"

/* The letters in the order in which Redis writes them; an event is the bit of its letter's place.
 * "A" stands for the first ten. */
static const char all_letters[] = "g$lshzxetdnKEm";

#define EVENT_GENERIC  (1u << 0)
#define EVENT_STRING   (1u << 1)
#define EVENT_EXPIRED  (1u << 6)
#define EVENT_NEW      (1u << 10)
#define EVENT_KEYSPACE (1u << 11)
#define EVENT_KEYEVENT (1u << 12)
#define EVENTS_A       ((1u << 10) - 1)

bool keyspace_events_parse(struct kv_slice letters, unsigned *events)
{
    const char *at = letters.data;
    *events = 0;
    for (size_t i = 0; i < letters.size; i++) {
        const char *letter = memchr(all_letters, at[i], sizeof all_letters - 1);
        if (!letter && at[i] != 'A')
            return false;
        *events |= letter ? 1u << (letter - all_letters) : EVENTS_A;
    }
    return true;
}

void keyspace_events_write(unsigned events, char letters[KEYSPACE_EVENTS_BYTES])
{
    if ((events & EVENTS_A) == EVENTS_A) {
        *letters++ = 'A';
        events &= ~(EVENTS_A | EVENT_NEW);
    }
    for (unsigned i = 0; all_letters[i]; i++)
        if (events & 1u << i)
            *letters++ = all_letters[i];
    *letters = '\0';
}

bool keyspace_events_tell(unsigned events)
{
    return (events & (EVENT_KEYSPACE | EVENT_KEYEVENT)) &&
           (events & (EVENT_GENERIC | EVENT_STRING | EVENT_EXPIRED));
}

/* Publishes the message in the channel that is named by both parts. */
static void publish_event(struct redis_channels *channels, const char *prefix, struct kv_slice name,
                          struct kv_slice message)
{
    size_t size = strlen(prefix);
    char *channel = malloc(size + name.size);
    if (!channel)
        return;
    memcpy(channel, prefix, size);
    copy_bytes(channel + size, name.data, name.size);
    redis_channels_publish(channels, kv_slice(channel, size + name.size), message);
    free(channel);
}

void keyspace_events_publish(struct redis_channels *channels, unsigned events,
                             const struct clientk_change *change)
{
    static const struct {
        unsigned event;
        const char *name;
    } kinds[] = {[CLIENTK_CHANGE_PUT] = {EVENT_STRING, "set"},
                 [CLIENTK_CHANGE_DELETE] = {EVENT_GENERIC, "del"},
                 [CLIENTK_CHANGE_EXPIRE] = {EVENT_EXPIRED, "expired"}};
    if ((size_t)change->kind >= sizeof kinds / sizeof kinds[0] ||
        !(events & kinds[change->kind].event))
        return;
    struct kv_slice name = kv_slice_from_string(kinds[change->kind].name);
    if (events & EVENT_KEYSPACE)
        publish_event(channels, "__keyspace@0__:", change->key, name);
    if (events & EVENT_KEYEVENT)
        publish_event(channels, "__keyevent@0__:", name, change->key);
}
