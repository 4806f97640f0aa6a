#include "tests/support/write_journal.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ATTEMPTS 4096u

struct attempt {
    unsigned key;
    enum write_kind kind;
    uint64_t token;
    uint64_t version; /* 0: not known yet, or never */
    bool failed;
    bool acknowledged;
    bool demanded; /* was acknowledged before the cut */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* covers all that follows */
static struct attempt attempts[MAX_ATTEMPTS];
static size_t count;
static size_t cut_count; /* of attempts: those that the cut may have caught */
static uint64_t last_versions[JOURNAL_KEYS];

void journal_clear(void)
{
    count = cut_count = 0;
    for (unsigned key = 0; key < JOURNAL_KEYS; key++)
        last_versions[key] = 0;
}

void journal_next_life(void)
{
    for (size_t i = 0; i < cut_count; i++) {
        uint64_t *last = &last_versions[attempts[i].key];
        if (attempts[i].version > *last)
            *last = attempts[i].version;
    }
    count = cut_count = 0;
}

size_t journal_attempt(unsigned key, enum write_kind kind, uint64_t token)
{
    pthread_mutex_lock(&mutex);
    if (count == MAX_ATTEMPTS) {
        fprintf(stderr, "write_journal: more than %u writes\n", MAX_ATTEMPTS);
        abort();
    }
    size_t number = count++;
    attempts[number] = (struct attempt){.key = key, .kind = kind, .token = token};
    pthread_mutex_unlock(&mutex);
    return number;
}

void journal_done(size_t attempt, uint64_t version)
{
    pthread_mutex_lock(&mutex);
    attempts[attempt].version = version;
    pthread_mutex_unlock(&mutex);
}

void journal_failed(size_t attempt)
{
    pthread_mutex_lock(&mutex);
    attempts[attempt].failed = true;
    pthread_mutex_unlock(&mutex);
}

void journal_acknowledge(size_t attempt)
{
    pthread_mutex_lock(&mutex);
    attempts[attempt].acknowledged = true;
    pthread_mutex_unlock(&mutex);
}

void journal_acknowledge_done(void)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++)
        attempts[i].acknowledged |= attempts[i].version != 0;
    pthread_mutex_unlock(&mutex);
}

void journal_begin_cut(void)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++)
        attempts[i].demanded = attempts[i].acknowledged;
    pthread_mutex_unlock(&mutex);
}

void journal_end_cut(void)
{
    pthread_mutex_lock(&mutex);
    cut_count = count;
    pthread_mutex_unlock(&mutex);
}

/* The newest write of the key that has to be found, unless a newer one is; or NULL. */
static const struct attempt *newest_demanded(unsigned key)
{
    const struct attempt *newest = NULL;
    for (size_t i = 0; i < cut_count; i++)
        if (attempts[i].key == key && attempts[i].demanded &&
            (!newest || attempts[i].version > newest->version))
            newest = &attempts[i];
    return newest;
}

__attribute__((format(printf, 1, 2))) static const char *verdict(const char *format, ...)
{
    static char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

static const char *judge_present(unsigned key, uint64_t token, uint64_t version)
{
    const struct attempt *found = NULL;
    for (size_t i = 0; i < cut_count && !found; i++)
        if (attempts[i].key == key && attempts[i].token == token && !attempts[i].failed &&
            attempts[i].kind != WRITE_DELETE)
            found = &attempts[i];
    if (!found)
        return verdict("value %#" PRIx64 " (version %" PRIu64 ") was not written in this life",
                       token, version);
    if (found->version != 0 && found->version != version)
        return verdict("version %" PRIu64 ", but its writer was told %" PRIu64, version,
                       found->version);
    const struct attempt *demanded = newest_demanded(key);
    if (demanded && version < demanded->version)
        return verdict("version %" PRIu64 ", but %" PRIu64 " was acknowledged", version,
                       demanded->version);
    return NULL;
}

static const char *judge_absent(unsigned key)
{
    const struct attempt *demanded = newest_demanded(key);
    if (!demanded || demanded->kind != WRITE_PUT)
        return NULL;
    for (size_t i = 0; i < cut_count; i++)
        if (attempts[i].key == key && attempts[i].kind != WRITE_PUT && !attempts[i].failed &&
            (attempts[i].version == 0 || attempts[i].version > demanded->version))
            return NULL;
    return verdict("absent, but value %#" PRIx64 " (version %" PRIu64 ") was acknowledged",
                   demanded->token, demanded->version);
}

const char *journal_judge_present(unsigned key, uint64_t token, uint64_t version)
{
    pthread_mutex_lock(&mutex);
    const char *wrong = judge_present(key, token, version);
    pthread_mutex_unlock(&mutex);
    return wrong;
}

const char *journal_judge_absent(unsigned key)
{
    pthread_mutex_lock(&mutex);
    const char *wrong = judge_absent(key);
    pthread_mutex_unlock(&mutex);
    return wrong;
}

uint64_t journal_last_version(unsigned key)
{
    return last_versions[key];
}
