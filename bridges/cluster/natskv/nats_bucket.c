#include "bridges/cluster/natskv/nats_bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_ask.h"
#include "bridges/cluster/natskv/nats_json.h"

/* The servers may need a while for a leader: at start-up they are asked for this long. */
#define PATIENCE_MS 15000u
#define ASK_MS      3000u
#define AGAIN_MS    250u

#define STREAM_NOT_FOUND    10059u
#define NO_SUITABLE_PEERS   10005u
#define DUPLICATE_WINDOW_NS "120000000000"

void nats_bucket_stream(const struct nats_bucket *bucket, uint32_t shard,
                        char name[NATS_STREAM_NAME_BYTES])
{
    snprintf(name, NATS_STREAM_NAME_BYTES, "KV_%s_%" PRIu32, bucket->name, shard);
}

/* Asking --------------------------------------------------------------------------------------- */

/* Returns true if the answer will soon be another one: there is no leader yet, or the servers of a
 * cluster that has just been started do not know each other. */
static bool is_for_later(struct kv_slice answer)
{
    uint64_t code = 0;
    struct kv_slice failure = nats_json_member(answer, "error");
    return (nats_json_number(failure, "code", &code) && code == 503) ||
           (nats_json_number(failure, "err_code", &code) && code == NO_SUITABLE_PEERS);
}

/* Asks for up to PATIENCE_MS until the answer is not "come back later". *text is malloc'ed. */
static enum kv_status ask_jetstream(struct nats_link *link, const char *subject, const char *json,
                                    char **text, struct kv_slice *answer, struct kv_error *error)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    enum kv_status status;
    for (;;) {
        size_t size = 0;
        status = nats_ask(link, subject, json, ASK_MS, text, &size);
        *answer = kv_slice(*text, size);
        bool is_known = status == KV_OK && !is_for_later(*answer);
        if (is_known || (status != KV_OK && status != KV_NO_SERVER))
            break;
        if (status == KV_OK)
            free(*text);
        if (clock_monotonic_coarse_ms() >= until_ms)
            return kv_error_set(error, KV_NO_SERVER,
                                "JetStream does not answer, or has not enough servers (%s): is it "
                                "on, and are all servers of the cluster up?",
                                subject);
        clock_sleep_ms(AGAIN_MS);
    }
    return status == KV_OK ? KV_OK : kv_error_set(error, status, "out of memory");
}

/* Fails with the words of an error of JetStream. */
static enum kv_status fail_jetstream(struct kv_slice answer, const char *what,
                                     struct kv_error *error)
{
    struct kv_slice failure = nats_json_member(answer, "error"), words = {0};
    uint64_t code = 0;
    nats_json_number(failure, "err_code", &code);
    if (!nats_json_string(failure, "description", &words))
        words = kv_slice_from_string("an answer that makes no sense");
    return kv_error_set(error, KV_IO, "%s: %.*s (JetStream error %" PRIu64 ")", what,
                        (int)words.size, (const char *)words.data, code);
}

/* Servers -------------------------------------------------------------------------------------- */

/* Checks the level of the servers' API: an older server silently ignores what it does not know. */
static enum kv_status check_level(struct nats_link *link, struct kv_error *error)
{
    char *text = NULL;
    struct kv_slice answer;
    uint64_t level = 0;
    enum kv_status status = ask_jetstream(link, "$JS.API.INFO", "", &text, &answer, error);
    if (status != KV_OK)
        return status;
    struct kv_slice failure = nats_json_member(answer, "error");
    if (failure.size > 0)
        status = fail_jetstream(answer, "asking for JetStream", error);
    else if (!nats_json_number(nats_json_member(answer, "api"), "level", &level) ||
             level < NATSKV_MIN_API_LEVEL)
        status = kv_error_set(error, KV_UNSUPPORTED,
                              "the NATS servers are too old: their API has level %" PRIu64
                              ", at least %d is needed (nats-server 2.12)",
                              level, NATSKV_MIN_API_LEVEL);
    free(text);
    return status;
}

/* Streams -------------------------------------------------------------------------------------- */

/* Returns true for nats-server 2.12.0 and 2.12.1, which lock up a stream for good when a batch of
 * it is read while others write (nats-server pull request 7458). `version` is that of the server
 * that gave the answer. */
static bool locks_up(struct kv_slice version)
{
    return kv_slice_equal(version, kv_slice_from_string("2.12.0")) ||
           kv_slice_equal(version, kv_slice_from_string("2.12.1"));
}

/* Returns true for servers that may take a guard of another subject in a batch for one that they
 * have checked already, or keep its subject locked: all before 2.12.14, and 2.14 before 2.14.4
 * (nats-server pull request 8377). */
static bool mixes_up_guards(struct kv_slice version)
{
    unsigned major = 0, minor = 0, patch = 0;
    char text[32] = "";
    if (version.size < sizeof text)
        memcpy(text, version.data, version.size);
    if (sscanf(text, "%u.%u.%u", &major, &minor, &patch) != 3)
        return true;
    if (major != 2)
        return major < 2;
    return minor < 12 || (minor == 12 && patch < 14) || (minor < 15 && minor > 12 && patch < 4);
}

#define BY_TAG " by tag"

/* Writes what the streams' metadata say of the number of shards. A serverk that knows no tags takes
 * a bucket with them for one of another number, and refuses it. With one shard there is no
 * difference. */
static void print_shards(const struct nats_bucket *bucket, char text[24])
{
    snprintf(text, 24, "%" PRIu32 "%s", bucket->shards,
             bucket->by_tag && bucket->shards > 1 ? BY_TAG : "");
}

/* Checks that the server repeats what was asked for: a server that is too old leaves it out. */
static enum kv_status check_config(struct nats_bucket *bucket, const char *name,
                                   struct kv_slice answer, struct kv_error *error)
{
    struct kv_slice config = nats_json_member(answer, "config");
    struct kv_slice metadata = nats_json_member(config, "metadata"), text;
    uint64_t per_subject = 0, replicas = 0;
    char shards[24];
    if (!nats_json_flag(config, "allow_atomic"))
        return kv_error_set(error, KV_UNSUPPORTED,
                            "stream %s: the server does not know allow_atomic, or the stream was "
                            "made without it: nats-server 2.12 is needed",
                            name);
    bool says_version = nats_json_string(metadata, "_nats.ver", &text);
    bucket->guards_others &= says_version && !mixes_up_guards(text);
    if (says_version && locks_up(text))
        return kv_error_set(error, KV_UNSUPPORTED,
                            "stream %s is led by a nats-server %.*s, which locks up when entries "
                            "are scanned while others write: 2.12.2 or newer is needed",
                            name, (int)text.size, (const char *)text.data);
    nats_json_number(config, "max_msgs_per_subject", &per_subject);
    if (per_subject != 1 || !nats_json_flag(config, "allow_direct"))
        return kv_error_set(error, KV_MISMATCH,
                            "stream %s was not made by serverk: it needs max_msgs_per_subject 1 "
                            "and allow_direct",
                            name);
    print_shards(bucket, shards);
    if (!nats_json_string(metadata, "mqkv-shards", &text) ||
        !kv_slice_equal(text, kv_slice_from_string(shards)))
        return kv_error_set(error, KV_MISMATCH,
                            "bucket %s: stream %s is one of another number of shards (%.*s) than "
                            "the first (%s)",
                            bucket->name, name, (int)text.size, (const char *)text.data, shards);
    nats_json_number(config, "num_replicas", &replicas);
    if (replicas != bucket->replicas)
        return kv_error_set(error, KV_MISMATCH,
                            "bucket %s: stream %s has %" PRIu64 " replicas, not %" PRIu32
                            ": leave out --replicas, or change the stream (nats stream edit)",
                            bucket->name, name, replicas, bucket->replicas);
    return KV_OK;
}

static enum kv_status make_stream(struct nats_link *link, struct nats_bucket *bucket,
                                  const char *name, uint32_t shard, struct kv_error *error)
{
    char subject[128], json[1024], shards[24], *text = NULL;
    struct kv_slice answer;
    print_shards(bucket, shards);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.%s", name);
    snprintf(json, sizeof json,
             "{\"name\":\"%s\",\"subjects\":[\"$KV.%s_%" PRIu32 ".>\"],\"retention\":\"limits\","
             "\"max_msgs_per_subject\":1,\"discard\":\"new\",\"storage\":\"file\","
             "\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,"
             "\"max_msg_size\":-1,\"num_replicas\":%" PRIu32 ",\"allow_rollup_hdrs\":true,"
             "\"deny_delete\":true,\"allow_direct\":true,"
             "\"allow_atomic\":true,\"duplicate_window\":" DUPLICATE_WINDOW_NS ","
             "\"metadata\":{\"mqkv-format\":\"1\",\"mqkv-shards\":\"%s\","
             "\"mqkv-mirror\":\"%s\"}}",
             name, bucket->name, shard, bucket->replicas, shards, bucket->mirror_of);
    enum kv_status status = ask_jetstream(link, subject, json, &text, &answer, error);
    if (status != KV_OK)
        return status;
    if (nats_json_member(answer, "error").size > 0)
        status = fail_jetstream(answer, name, error);
    else
        status = check_config(bucket, name, answer, error);
    free(text);
    return status;
}

/* Reads what the server says of the stream; *found: there is one, and *text is malloc'ed. */
static enum kv_status stream_info(struct nats_link *link, const char *name, bool *found,
                                  char **text, struct kv_slice *answer, struct kv_error *error)
{
    char subject[128];
    uint64_t code = 0;
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", name);
    enum kv_status status = ask_jetstream(link, subject, "", text, answer, error);
    if (status != KV_OK)
        return status;
    struct kv_slice failure = nats_json_member(*answer, "error");
    *found = failure.size == 0;
    if (*found)
        return KV_OK;
    if (!nats_json_number(failure, "err_code", &code) || code != STREAM_NOT_FOUND)
        status = fail_jetstream(*answer, name, error);
    free(*text);
    return status;
}

static enum kv_status check_stream(struct nats_link *link, const struct natskv_options *options,
                                   struct nats_bucket *bucket, uint32_t shard,
                                   struct kv_error *error)
{
    char name[NATS_STREAM_NAME_BYTES], *text = NULL;
    struct kv_slice answer;
    bool found = false;
    nats_bucket_stream(bucket, shard, name);
    enum kv_status status = stream_info(link, name, &found, &text, &answer, error);
    if (status != KV_OK)
        return status;
    if (!found && options->check_only)
        return kv_error_set(error, KV_NOT_FOUND, "bucket %s has no stream %s", bucket->name, name);
    if (!found)
        return make_stream(link, bucket, name, shard, error);
    status = check_config(bucket, name, answer, error);
    free(text);
    return status;
}

/* Bucket --------------------------------------------------------------------------------------- */

/* Checks that nobody else writes to the bucket: a copy belongs to one store. */
static enum kv_status check_mirror(const struct natskv_options *options,
                                   const struct nats_bucket *bucket, struct kv_slice config,
                                   struct kv_error *error)
{
    struct kv_slice text = {0};
    nats_json_string(nats_json_member(config, "metadata"), "mqkv-mirror", &text);
    if (!options->mirror_of || (text.size == strlen(options->mirror_of) &&
                                memcmp(text.data, options->mirror_of, text.size) == 0))
        return KV_OK;
    return kv_error_set(error, KV_MISMATCH,
                        "bucket %s is %s: name a bucket that is not there yet, it will be made",
                        bucket->name,
                        text.size > 0 ? "the copy of another store"
                                      : "no copy of a store, and may hold the data of others");
}

/* Takes what the first stream says of the bucket; it must agree with what was asked for. */
static enum kv_status take_first(const struct natskv_options *options, struct nats_bucket *bucket,
                                 struct kv_slice answer, struct kv_error *error)
{
    struct kv_slice config = nats_json_member(answer, "config"), text;
    uint64_t shards = 0, replicas = 0;
    char said[24] = "", *behind = said;
    if (nats_json_string(nats_json_member(config, "metadata"), "mqkv-shards", &text) &&
        text.size < sizeof said)
        memcpy(said, text.data, text.size);
    shards = strtoull(said, &behind, 10);
    bucket->by_tag = strcmp(behind, BY_TAG) == 0;
    nats_json_number(config, "num_replicas", &replicas);
    if (shards < 1 || shards > NATSKV_MAX_SHARDS)
        return kv_error_set(error, KV_MISMATCH,
                            "bucket %s was not made by serverk: stream KV_%s_0 does not say how "
                            "many shards there are",
                            bucket->name, bucket->name);
    if (options->shards != 0 && options->shards != shards)
        return kv_error_set(error, KV_MISMATCH,
                            "bucket %s has %" PRIu64 " shards, not %" PRIu32 " (--shards)",
                            bucket->name, shards, options->shards);
    bucket->shards = (uint32_t)shards;
    if (options->replicas == 0)
        bucket->replicas = (uint32_t)replicas;
    return check_mirror(options, bucket, config, error);
}

static enum kv_status find_first(struct nats_link *link, const struct natskv_options *options,
                                 struct nats_bucket *bucket, struct kv_error *error)
{
    char name[NATS_STREAM_NAME_BYTES], *text = NULL;
    struct kv_slice answer;
    bool found = false;
    nats_bucket_stream(bucket, 0, name);
    enum kv_status status = stream_info(link, name, &found, &text, &answer, error);
    if (status != KV_OK || !found)
        return status;
    status = take_first(options, bucket, answer, error);
    free(text);
    return status;
}

/* Checks the name of the cluster; a server that is alone has none. */
static enum kv_status check_cluster(struct nats_link *link, const struct natskv_options *options,
                                    struct nats_bucket *bucket, struct kv_error *error)
{
    char name[NATS_STREAM_NAME_BYTES], *text = NULL;
    struct kv_slice answer, cluster;
    bool found = false;
    nats_bucket_stream(bucket, 0, name);
    enum kv_status status = stream_info(link, name, &found, &text, &answer, error);
    if (status != KV_OK || !found)
        return status;
    if (nats_json_string(nats_json_member(answer, "cluster"), "name", &cluster) &&
        cluster.size < sizeof bucket->cluster)
        memcpy(bucket->cluster, cluster.data, cluster.size);
    free(text);
    if (!options->cluster || strcmp(options->cluster, bucket->cluster) == 0)
        return KV_OK;
    return kv_error_set(error, KV_MISMATCH, "the cluster is named '%s', not '%s' (--nats-cluster)",
                        bucket->cluster, options->cluster);
}

/* Copies --------------------------------------------------------------------------------------- */

#define MARK_MEMBER "mqkv-copy"

/* Returns the member `config` of the answer with this mark, and otherwise unchanged. NULL: out of
 * memory. */
static char *config_with_mark(struct kv_slice config, const char *mark)
{
    struct kv_slice metadata = nats_json_member(config, "metadata");
    struct kv_slice before = nats_json_member(metadata, MARK_MEMBER);
    bool replaces = before.size > 0;
    if (!replaces) /* behind the brace */
        before.data = (const char *)metadata.data + 1;
    size_t head = (size_t)((const char *)before.data - (const char *)config.data);
    size_t tail = config.size - head - before.size;
    size_t size = config.size + sizeof "\"" MARK_MEMBER "\":\"\"," + strlen(mark);
    char *json = malloc(size);
    if (json)
        snprintf(json, size, replaces ? "%.*s\"%s\"%.*s" : "%.*s\"" MARK_MEMBER "\":\"%s\",%.*s",
                 (int)head, (const char *)config.data, mark, (int)tail,
                 (const char *)before.data + before.size);
    return json;
}

/* Reads the configuration of an existing stream. *text is malloc'ed if the result is KV_OK. */
static enum kv_status config_of(struct nats_link *link, const char *name, char **text,
                                struct kv_slice *config, struct kv_error *error)
{
    struct kv_slice answer;
    bool found = false;
    enum kv_status status = stream_info(link, name, &found, text, &answer, error);
    if (status != KV_OK)
        return status;
    if (!found)
        return kv_error_set(error, KV_NOT_FOUND, "stream %s is gone", name);
    *config = nats_json_member(answer, "config");
    if (nats_json_member(nats_json_member(*config, "metadata"), "mqkv-shards").size > 0)
        return KV_OK;
    free(*text);
    return kv_error_set(error, KV_MISMATCH, "stream %s was not made by serverk", name);
}

static enum kv_status mark_stream(struct nats_link *link, const char *name, const char *mark,
                                  struct kv_error *error)
{
    char subject[128], *text = NULL;
    struct kv_slice config = {0}, answer = {0};
    enum kv_status status = config_of(link, name, &text, &config, error);
    if (status != KV_OK)
        return status;
    char *json = config_with_mark(config, mark);
    free(text);
    if (!json)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    snprintf(subject, sizeof subject, "$JS.API.STREAM.UPDATE.%s", name);
    status = ask_jetstream(link, subject, json, &text, &answer, error);
    free(json);
    if (status != KV_OK)
        return status;
    if (nats_json_member(answer, "error").size > 0)
        status = fail_jetstream(answer, name, error);
    free(text);
    return status;
}

enum kv_status nats_bucket_set_mark(struct nats_link *link, const struct nats_bucket *bucket,
                                    const char *mark, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (uint32_t shard = 0; shard < bucket->shards && status == KV_OK; shard++) {
        char name[NATS_STREAM_NAME_BYTES];
        nats_bucket_stream(bucket, shard, name);
        status = mark_stream(link, name, mark, error);
    }
    return status;
}

/* Takes the mark of a stream; "" if the streams before have another one. */
static void take_mark(struct kv_slice config, bool first, struct natskv_copy *copy)
{
    struct kv_slice metadata = nats_json_member(config, "metadata"), text = {0}, of = {0};
    char mark[sizeof copy->mark] = "";
    nats_json_string(metadata, "mqkv-mirror", &of);
    copy->is_copy |= of.size > 0;
    if (nats_json_string(metadata, MARK_MEMBER, &text) && text.size < sizeof mark)
        memcpy(mark, text.data, text.size);
    if (first)
        memcpy(copy->mark, mark, sizeof mark);
    else if (strcmp(copy->mark, mark) != 0)
        copy->mark[0] = '\0';
}

enum kv_status nats_bucket_mark(struct nats_link *link, const struct nats_bucket *bucket,
                                struct natskv_copy *copy, struct kv_error *error)
{
    *copy = (struct natskv_copy){0};
    for (uint32_t shard = 0; shard < bucket->shards; shard++) {
        char name[NATS_STREAM_NAME_BYTES], *text = NULL;
        struct kv_slice config = {0};
        nats_bucket_stream(bucket, shard, name);
        enum kv_status status = config_of(link, name, &text, &config, error);
        if (status != KV_OK)
            return status;
        take_mark(config, shard == 0, copy);
        free(text);
    }
    return KV_OK;
}

/* Opening -------------------------------------------------------------------------------------- */

enum kv_status nats_bucket_open(struct nats_link *link, const struct natskv_options *options,
                                struct nats_bucket *bucket, struct kv_error *error)
{
    *bucket =
        (struct nats_bucket){.shards = options->shards ? options->shards : NATSKV_DEFAULT_SHARDS,
                             .replicas = options->replicas ? options->replicas : 1,
                             .by_tag = true,
                             .guards_others = true};
    snprintf(bucket->name, sizeof bucket->name, "%s", options->bucket);
    snprintf(bucket->mirror_of, sizeof bucket->mirror_of, "%s",
             options->mirror_of ? options->mirror_of : "");
    enum kv_status status = check_level(link, error);
    if (status == KV_OK)
        status = find_first(link, options, bucket, error);
    for (uint32_t shard = 0; shard < bucket->shards && status == KV_OK; shard++)
        status = check_stream(link, options, bucket, shard, error);
    return status == KV_OK ? check_cluster(link, options, bucket, error) : status;
}
