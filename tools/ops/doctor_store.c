#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tools/ops/diagnosis.h"
#include "clientk/program/cli/json_reader.h"
#include "common/text/parse.h"

#define FILES_NAMED 4u

/* A compaction is advised if at least this part of what lives is dead. */
#define DEAD_SHARE 8u

/* The longest directory in the command that salvages, which names it twice. */
#define SALVAGE_BYTES (DIAGNOSIS_FIX_BYTES - 112)

static uint64_t fact_number(const struct json_value *object, const char *name)
{
    const struct json_value *member = json_member(object, name);
    return member && member->kind == JSON_NUMBER && member->number > 0 ? (uint64_t)member->number
                                                                       : 0;
}

static bool is_true(const struct json_value *object, const char *name)
{
    const struct json_value *member = json_member(object, name);
    return member && member->kind == JSON_BOOL && strcmp(member->text, "true") == 0;
}

/* Names the listed files for which the member is true or above 0, as in "data.0001, data.0002 and 3
 * more". */
static const char *name_files(const struct json_value *files, const char *member, char names[128])
{
    unsigned found = 0;
    size_t used = 0;
    names[0] = '\0';
    const struct json_value *each = json_member(files, "each");
    for (const struct json_value *file = each ? each->first : NULL; file; file = file->next) {
        if (!is_true(file, member) && fact_number(file, member) == 0)
            continue;
        if (found++ < FILES_NAMED)
            used += (size_t)snprintf(names + used, 128 - used, "%sdata.%04" PRIu64,
                                     found > 1 ? ", " : "", fact_number(file, "file"));
    }
    if (found > FILES_NAMED)
        snprintf(names + used, 128 - used, " and %u more", found - FILES_NAMED);
    return *names ? names : "a data file";
}

/* Returns the data directory as the server names it; NULL: the server does not say. */
static const char *directory_of(const struct json_value *document)
{
    const struct json_value *dir = json_member(json_member(document, "server"), "dir");
    return dir && dir->kind == JSON_STRING ? dir->text : NULL;
}

/* Says where a damaged record is, as in "data.0003 at offset 4096". */
static const char *name_damage(const struct json_value *files, char text[64])
{
    const struct json_value *each = json_member(files, "each");
    strcpy(text, "a data file");
    for (const struct json_value *file = each ? each->first : NULL; file; file = file->next)
        if (fact_number(file, "damaged_records") > 0) {
            snprintf(text, 64, "data.%04" PRIu64 " at offset %" PRIu64, fact_number(file, "file"),
                     fact_number(file, "damaged_at"));
            break;
        }
    return text;
}

static void check_damage(struct diagnosis *diagnosis, const struct json_value *document,
                         const struct json_value *files)
{
    uint64_t records = fact_number(json_member(files, "sum"), "damaged_records");
    char names[128], place[64], count[32];
    if (records == 0)
        return;
    finding(diagnosis, "BAD",
            "%s met in %s (%s): a read of such a key fails until it is put or deleted; compactions "
            "keep the damage, and a backup has it, too",
            format_count(records, "damaged record", count),
            name_files(files, "damaged_records", names), name_damage(files, place));
    const char *dir = directory_of(document);
    char target[DIAGNOSIS_WORD_BYTES], quoted[DIAGNOSIS_WORD_BYTES], word[DIAGNOSIS_WORD_BYTES];
    bool fits =
        dir && dir[0] == '/' &&
        snprintf(target, sizeof target, "%s.salvaged", dir) < (int)sizeof target &&
        strlen(shell_word(target, quoted)) + strlen(shell_word(dir, word)) < SALVAGE_BYTES &&
        quoted[1] == '/'; /* it was not too long for a word */
    if (fits)
        fix(diagnosis,
            "kvcheck --salvage %s %s   # with the server stopped; or: clientk restore BACKUP "
            "--to DIRECTORY",
            quoted, word);
    else
        fix_by_hand(diagnosis);
}

/* Tells of data files that have no name any more, and of a directory that is elsewhere. */
static void check_names(struct diagnosis *diagnosis, const struct json_value *document,
                        const struct json_value *files)
{
    const struct json_value *sum = json_member(files, "sum");
    const char *dir = directory_of(document);
    char names[128], count[32], beside[DIAGNOSIS_WORD_BYTES], word[DIAGNOSIS_WORD_BYTES];
    if (fact_number(sum, "nameless_files") > 0) {
        finding(diagnosis, "BAD",
                "somebody removed %s (%s): what it has, and what is written from now on, is lost "
                "when the server stops; until then a backup saves it",
                format_count(fact_number(sum, "nameless_files"), "data file", count),
                name_files(files, "nameless", names));
        if (dir && snprintf(beside, sizeof beside, "%s.saved", dir) < (int)sizeof beside)
            fix(diagnosis, "clientk -m %s backup %s", diagnosis->context->global.queue,
                shell_word(beside, word));
        else
            fix_by_hand(diagnosis);
    } else if (fact_number(files, "directory_displaced") > 0) {
        finding(diagnosis, "BAD",
                "the data directory is not at %s any more, where the next start looks for it: "
                "somebody moved it; move it back",
                dir ? dir : "its place");
        fix_by_hand(diagnosis);
    }
}

static void diagnose_files(struct diagnosis *diagnosis, const struct json_value *files)
{
    const struct json_value *sum = json_member(files, "sum");
    /* An older server does not say what has succeeded since. */
    bool tells = json_member(sum, "compaction_failing_files") != NULL;
    char names[128], count[32];
    bool well = true;
    if (fact_number(sum, "read_only_files") > 0) {
        finding(diagnosis, "BAD",
                "%s of %s take%s no writes any more (%s): a sync or a write to disk failed; the "
                "server's log says why; restart the server when that is fixed",
                format_count(fact_number(sum, "read_only_files"), "file", count),
                format_count(fact_number(sum, "files"), "file", (char[32]){0}),
                fact_number(sum, "read_only_files") == 1 ? "s" : "",
                name_files(files, "read_only", names));
        doctor_fix_by_restart(diagnosis);
        well = false;
    }
    if (fact_number(sum, "sync_failures") > 0) {
        finding(diagnosis, "BAD", "syncs to disk failed %" PRIu64 " times since the start (%s)",
                fact_number(sum, "sync_failures"), name_files(files, "sync_failures", names));
        fix_by_hand(diagnosis);
        well = false;
    }
    if (fact_number(sum, tells ? "compaction_failing_files" : "compaction_failures") > 0) {
        finding(diagnosis, "BAD",
                "the last compaction failed (%s): the files grow; the server's log says why",
                name_files(files, tells ? "compaction_failing" : "compaction_failures", names));
        fix_by_hand(diagnosis);
        well = false;
    }
    if (fact_number(sum, "stale_files") > 0) {
        finding(
            diagnosis, "BAD",
            "the disk keeps %s waiting (%s): what is told of them here is older; either it does "
            "not answer, or the file system is frozen (fsfreeze -u ends that)",
            format_count(fact_number(sum, "stale_files"), "file", count),
            name_files(files, "stale_ms", names));
        fix_by_hand(diagnosis);
        well = false;
    }
    if (well)
        finding(diagnosis, "ok", "%s: no failed sync or compaction%s",
                format_count(fact_number(sum, "files"), "file", count),
                fact_number(sum, "compaction_failures") > 0 ? " that did not succeed later" : "");
}

/* Returns true if the file system itself is read-only, not only its mount in this mount namespace.
 * ext4 that found damage says emergency_ro from Linux 6.14 on. */
static bool is_read_only(dev_t device)
{
    char line[4096];
    bool read_only = false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && !read_only && fgets(line, sizeof line, mounts)) {
        unsigned major_number, minor_number;
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2 ||
            makedev(major_number, minor_number) != device)
            continue;
        const char *options = strrchr(rest, ' ');
        read_only =
            options && ((strncmp(options, " ro", 3) == 0 && !isalnum((unsigned char)options[3])) ||
                        strstr(options, "emergency_ro"));
    }
    if (mounts)
        fclose(mounts);
    return read_only;
}

/* Checks the directory itself, if this process sees it under the server's name. */
static void diagnose_directory(struct diagnosis *diagnosis, const char *path)
{
    struct statvfs system;
    struct stat is;
    char user[64], word[DIAGNOSIS_WORD_BYTES];
    if (path[0] != '/' || stat(path, &is) != 0 || statvfs(path, &system) != 0)
        return;
    if (is_read_only(is.st_dev)) {
        finding(diagnosis, "BAD", "the file system of %s is mounted read-only", path);
        fix(diagnosis, "mount -o remount,rw \"$(findmnt -n -o TARGET -T %s)\"",
            shell_word(path, word));
    }
    if (system.f_files > 0 && system.f_ffree == 0) {
        finding(diagnosis, "BAD",
                "the file system of %s has no inodes left: no data file can be compacted", path);
        fix_by_hand(diagnosis);
    }
    if (is.st_mode & S_IWOTH && !(is.st_mode & S_ISVTX)) {
        finding(diagnosis, "BAD", "anybody may remove the files of %s (%s, mode %04o)", path,
                user_name(is.st_uid, user), (unsigned)(is.st_mode & 07777));
        fix(diagnosis, "chmod o-w %s", shell_word(path, word));
    }
}

/* Says what makes room: a compaction, if some of the files is dead. */
static void fix_space(struct diagnosis *diagnosis, const struct json_value *sum)
{
    uint64_t dead_bytes = fact_number(sum, "dead_bytes"),
             live_bytes = fact_number(sum, "live_bytes");
    char word[DIAGNOSIS_WORD_BYTES];
    if (dead_bytes >= live_bytes / DEAD_SHARE && dead_bytes > 0)
        fix(diagnosis, "clientk -m %s compact   # if that fails, delete more first",
            shell_word(diagnosis->context->global.queue, word));
    else
        fix_by_hand(diagnosis);
}

static void check_space(struct diagnosis *diagnosis, const struct json_value *document,
                        const struct json_value *files)
{
    const struct json_value *sum = json_member(files, "sum");
    const struct json_value *operations = json_member(document, "operations");
    const char *dir = directory_of(document);
    const char *where = dir ? dir : "the data directory";
    uint64_t free_bytes = fact_number(files, "disk_free_bytes");
    uint64_t largest_bytes = fact_number(json_member(document, "server"), "max_value_bytes");
    uint64_t refused = fact_number(json_member(operations, "errors"), "no_space");
    bool told = json_member(files, "disk_free_bytes") != NULL;
    char size[32] = "?", names[128];
    if (told)
        format_size(free_bytes, size);
    if (fact_number(sum, "full_files") > 0)
        finding(
            diagnosis, "BAD",
            "no space: the last put to %s was refused (%" PRIu64
            " since the start); %s has %s free "
            "(else a quota, or the server's ulimit -f); reads and deletes go on: make room on the "
            "disk, or delete entries and run clientk compact",
            name_files(files, "full", names), refused, where, size);
    else if (told && free_bytes < largest_bytes)
        finding(diagnosis, "BAD", "no space for the largest value: %s has %s free", where, size);
    else if (told)
        finding(diagnosis, refused > 0 ? "low" : "ok", "%s has %s free%s", where, size,
                refused > 0 ? "; earlier puts were refused for lack of space" : "");
    if (fact_number(sum, "full_files") > 0 || (told && free_bytes < largest_bytes))
        fix_space(diagnosis, sum);
    if (dir)
        diagnose_directory(diagnosis, where);
}

/* Compares what live records may take with the room in the file system. */
static void diagnose_bound(struct diagnosis *diagnosis, const struct json_value *bound)
{
    uint64_t max_bytes = fact_number(bound, "max_bytes");
    uint64_t fitting_bytes = fact_number(bound, "fitting_bytes");
    const struct json_value *evict = json_member(bound, "evict");
    bool evicts = evict && evict->kind == JSON_STRING && strcmp(evict->text, "none") != 0;
    char most[32], fitting[32];
    if (!json_member(bound, "fitting_bytes") || max_bytes <= fitting_bytes)
        return;
    finding(diagnosis, "low",
            "max-bytes is %s, but the file system has room for %s of live records (with the dead "
            "ones between two compactions, and the copy that a compaction makes): %s",
            format_size(max_bytes, most), format_size(fitting_bytes, fitting),
            evicts ? "entries are evicted to stay below that"
                   : "writes may be refused for want of space before they reach it");
}

/* Tells of the order of the keys, where there is one. */
static void diagnose_order(struct diagnosis *diagnosis, const struct json_value *order,
                           const struct json_value *files)
{
    uint64_t keys = fact_number(order, "keys");
    char size[32];
    format_size(fact_number(order, "bytes"), size);
    if (is_true(order, "whole"))
        finding(diagnosis, "ok", "ordered: %" PRIu64 " keys, %s of memory", keys, size);
    else if (is_true(order, "ordered"))
        finding(diagnosis, "low",
                "the order of the keys is being built (%" PRIu64 " of %" PRIu64
                "): until then ranges are refused",
                keys, fact_number(json_member(files, "sum"), "keys"));
}

/* For this long no worker has come back to its queues. For a moment that happens whenever the
 * machine has no CPU for them. */
#define AWAY_TOO_LONG_MS 1000u

static void check_workers(struct diagnosis *diagnosis, const struct json_value *server)
{
    uint64_t away_ms = fact_number(server, "all_away_ms");
    if (away_ms < AWAY_TOO_LONG_MS)
        return;
    finding(diagnosis, "BAD",
            "all workers (%" PRIu64 ") have waited for %" PRIu64
            " s, for the disk or for one another, and %" PRIu64 " requests wait for them",
            fact_number(server, "workers"), away_ms / 1000, fact_number(server, "set_aside"));
    fix_by_hand(diagnosis);
}

/* Reports what a store on the servers of a cluster promises, which depends on how it was set up. */
static void diagnose_engine(struct diagnosis *diagnosis, const struct json_value *engine)
{
    const struct json_value *name = json_member(engine, "name");
    if (!name || name->kind != JSON_STRING || strcmp(name->text, "nats") != 0)
        return;
    uint64_t replicas = fact_number(engine, "replicas");
    bool connected = fact_number(engine, "connected") == 1;
    finding(diagnosis, connected ? "ok" : "BAD", "%s NATS server of the cluster",
            connected ? "connected to a" : "no connection to any");
    finding(diagnosis, "ok",
            "each key on %" PRIu64 " NATS server%s: kill -9 of them loses nothing that was "
            "acknowledged, the loss of %s; a scan may be behind, and is not atomic; the rest is in "
            "PROTOCOL.md, 10",
            replicas, replicas == 1 ? "" : "s",
            replicas == 1   ? "the disk everything"
            : replicas == 2 ? "one disk nothing, but while a server is down there are no writes"
                            : "one disk nothing");
}

/* Reports on the second copy in a cluster. */
static void diagnose_mirror(struct diagnosis *diagnosis, const struct json_value *mirror)
{
    const struct json_value *bucket = json_member(mirror, "bucket");
    if (!bucket || bucket->kind != JSON_STRING)
        return;
    uint64_t lag_ms = fact_number(mirror, "lag_ms"), refused = fact_number(mirror, "refused_total");
    bool connected = fact_number(mirror, "connected") == 1;
    bool filling = fact_number(mirror, "filling") == 1;
    finding(diagnosis, connected ? "ok" : "BAD",
            "the copy in bucket %s is %s: it is %" PRIu64 " writes and %" PRIu64 ".%" PRIu64
            " s behind%s",
            bucket->text, connected ? "kept" : "not updated, because the cluster takes no changes",
            fact_number(mirror, "lag_changes"), lag_ms / 1000, lag_ms / 100 % 10,
            filling ? ", and being filled" : "");
    if (refused > 0)
        finding(diagnosis, "BAD",
                "the cluster could not take %" PRIu64 " keys or values: the copy is without them; "
                "the server's log names the first",
                refused);
}

void doctor_check_store(struct diagnosis *diagnosis)
{
    struct clientk_value text = {0};
    heading(diagnosis, "Store");
    enum kv_status status = clientk_stats(diagnosis->context->client, NULL, &text);
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    clientk_value_free(&text);
    const struct json_value *files = json_member(document, "files");
    if (files) {
        check_workers(diagnosis, json_member(document, "server"));
        check_names(diagnosis, document, files);
        diagnose_files(diagnosis, files);
        check_damage(diagnosis, document, files);
        check_space(diagnosis, document, files);
        diagnose_bound(diagnosis, json_member(document, "bound"));
        diagnose_order(diagnosis, json_member(document, "order"), files);
        diagnose_engine(diagnosis, json_member(document, "engine"));
        diagnose_mirror(diagnosis, json_member(document, "mirror"));
        const struct json_value *sessions = json_member(document, "sessions");
        unsigned own = 0, all = 0;
        const struct json_value *each = json_member(sessions, "each");
        for (const struct json_value *session = each ? each->first : NULL; session;
             session = session->next) {
            all++;
            own += fact_number(session, "uid") == geteuid();
        }
        finding(diagnosis, "ok", "%u sessions, %u of them yours", all, own);
        doctor_check_users(diagnosis, json_member(document, "sessions"));
    } else {
        finding(diagnosis, "BAD", "no statistics from the server: %s",
                status == KV_OK ? "its statistics cannot be read" : cli_sentence(status));
    }
    json_free(document);
}
