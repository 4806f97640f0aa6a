#include "tools/transfer/migration.h"

#include <inttypes.h>
#include <stdio.h>

#include "clientk/program/cli/interrupt.h"
#include "common/text/escape.h"
#include "common/time/clock.h"

#define WAIT_MS 50u

void migration_stop(struct migration *migration, enum kv_status status, const char *why)
{
    if (migration->stopped != KV_OK)
        return;
    migration->stopped = status;
    snprintf(migration->why, sizeof migration->why, "%s", why);
}

bool migration_goes_on(const struct migration *migration)
{
    return migration->stopped == KV_OK && !interrupt_pending();
}

bool migration_sits_out(const struct migration *migration, enum kv_status status, unsigned *waits)
{
    if (status != KV_OVERLOADED || *waits == MIGRATION_WAITS)
        return false;
    for (unsigned left = 1u << (*waits)++; left > 0 && migration_goes_on(migration); left--)
        clock_sleep_ms(WAIT_MS);
    return migration_goes_on(migration);
}

/* Prints a line about a key; `told`: the number of the line among those of its kind. */
static void print_about_key(struct migration *migration, uint64_t told, struct kv_slice key,
                            const char *what)
{
    if (told > MIGRATION_TOLD)
        return;
    bool shown = migration->progress.shown;
    progress_end(&migration->progress);
    if (told == MIGRATION_TOLD) {
        fputs("clientk: migrate: more keys are not named\n", stderr);
    } else {
        fputs("clientk: migrate: ", stderr);
        escape_print_word(stderr, key);
        fprintf(stderr, ": %s\n", what);
    }
    migration->progress.shown = shown;
}

void migration_refuse(struct migration *migration, const struct clientk_entry *entry,
                      enum kv_status status, const char *sentence)
{
    char what[320];
    struct moved_key *moved = moved_keys_add(&migration->keys, entry->key);
    if (!moved) {
        migration_stop(migration, KV_NO_MEMORY, "no memory for the keys");
        return;
    }
    bool is_new = moved->state != MOVED_REFUSED;
    moved->state = MOVED_REFUSED;
    moved->source_version = entry->version;
    moved->pass = migration->pass;
    if (!is_new)
        return;
    snprintf(what, sizeof what, "not moved: %.240s",
             sentence && *sentence ? sentence : kv_status_text(status));
    print_about_key(migration, migration->refused++, entry->key, what);
}

void migration_tell_difference(struct migration *migration, struct kv_slice key, const char *how)
{
    print_about_key(migration, migration->differing++, key, how);
}

struct clientk_operation migration_put(const struct migration *migration,
                                       const struct clientk_entry *entry, uint64_t expected)
{
    struct clientk_operation put = {.opcode = CLIENTK_PUT,
                                    .key = entry->key,
                                    .value = entry->value,
                                    .write = {.expiry_ms = entry->expiry_ms}};
    if (expected != 0) {
        put.write.if_version = expected; /* set where no version is given */
        return put;
    }
    put.write.if_absent = true;
    if (migration->keeps_versions)
        put.write.give_version = entry->version;
    return put;
}

void migration_note_moved(struct migration *migration, const struct clientk_entry *entry,
                          uint64_t target_version)
{
    struct moved_key *moved = moved_keys_add(&migration->keys, entry->key);
    if (!moved) {
        migration_stop(migration, KV_NO_MEMORY, "no memory for the keys");
        return;
    }
    migration->refused_in_a_row = 0;
    moved->state = MOVED_HERE;
    moved->source_version = entry->version;
    moved->target_version = target_version;
    moved->pass = migration->pass;
}

void migration_note_written(struct migration *migration, const struct clientk_entry *entry,
                            uint64_t target_version)
{
    migration_note_moved(migration, entry, target_version);
    migration->written++;
    migration->changes++;
    migration->renumbered += target_version != entry->version;
}
