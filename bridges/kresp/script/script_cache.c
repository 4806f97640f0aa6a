#include "bridges/kresp/script/script_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096u

struct script_text {
    struct script_text *next_in_slot, *newer;
    _Atomic unsigned references; /* the cache's among them */
    char hex[SHA1_HEX_BYTES];
    size_t size;
    char bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct script_text *slots[SLOTS], *oldest, *newest;
static size_t count, total_bytes;
static _Atomic uint64_t flushes;

static struct script_text **script_slot(const char *hex)
{
    char start[4];
    memcpy(start, hex, 3);
    start[3] = '\0';
    return &slots[strtoul(start, NULL, 16) % SLOTS];
}

static struct script_text *find_text(const char *hex)
{
    struct script_text *text = *script_slot(hex);
    while (text && memcmp(text->hex, hex, SHA1_HEX_BYTES - 1) != 0)
        text = text->next_in_slot;
    return text;
}

static void forget_oldest(void)
{
    struct script_text *text = oldest, **link = script_slot(text->hex);
    while (*link != text)
        link = &(*link)->next_in_slot;
    *link = text->next_in_slot;
    oldest = text->newer;
    if (!oldest)
        newest = NULL;
    count--;
    total_bytes -= text->size;
    script_text_release(text);
}

void script_cache_add(const char hex[SHA1_HEX_BYTES], struct kv_slice bytes)
{
    if (bytes.size > SCRIPTS_MAX_BYTES / 4)
        return;
    pthread_mutex_lock(&lock);
    struct script_text *text = find_text(hex) ? NULL : malloc(sizeof *text + bytes.size);
    if (text) {
        struct script_text **slot = script_slot(hex);
        *text = (struct script_text){.next_in_slot = *slot, .references = 1, .size = bytes.size};
        memcpy(text->hex, hex, SHA1_HEX_BYTES);
        if (bytes.size > 0)
            memcpy(text->bytes, bytes.data, bytes.size);
        *slot = text;
        if (newest)
            newest->newer = text;
        else
            oldest = text;
        newest = text;
        count++;
        total_bytes += text->size;
    }
    while (count > SCRIPTS_MAX || total_bytes > SCRIPTS_MAX_BYTES)
        forget_oldest();
    pthread_mutex_unlock(&lock);
}

struct script_text *script_cache_find(const char hex[SHA1_HEX_BYTES])
{
    pthread_mutex_lock(&lock);
    struct script_text *text = find_text(hex);
    if (text)
        atomic_fetch_add(&text->references, 1);
    pthread_mutex_unlock(&lock);
    return text;
}

struct kv_slice script_text_slice(const struct script_text *text)
{
    return kv_slice(text->bytes, text->size);
}

void script_text_release(struct script_text *text)
{
    if (text && atomic_fetch_sub(&text->references, 1) == 1)
        free(text);
}

void script_cache_flush(void)
{
    pthread_mutex_lock(&lock);
    while (oldest)
        forget_oldest();
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&flushes, 1);
}

uint64_t script_cache_flushes(void)
{
    return atomic_load(&flushes);
}
