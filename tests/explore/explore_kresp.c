/* kresp under its clients, who send pipelines in pieces, read late or in part, leave in the middle
 * of an answer, and die: each has keys of its own, whose answers it knows, and two numbers and a
 * channel that all share. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bridges/kresp/bridge/bridge.h"
#include "bridges/kresp/bridge/bridge_sandbox.h"
#include "bridges/kresp/bridge/listen_socket.h"
#include "bridges/kresp/session/redis_command.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_redis_store.h"

#define KRESP         1u /* its process; those of the clients follow */
#define CLIENTS       3u
#define KRESP_THREADS 2u
#define SOCKET_PATH   "/explored/kresp.sock"
#define BUDGET_BYTES  ((size_t)8 * 1024 * 1024)
#define OWN_KEYS      2u
#define LOG           OWN_KEYS /* the key that the client appends numbers to */
#define MODEL_BYTES   400u
#define REQUESTS_MAX  12u
#define CHANGES       3u /* of a watched number, one after the other */
#define ATOMS_MAX     160u
#define OUTPUT_BYTES  16384u
#define NUMBERS_MAX   256u
#define BIG_BYTES     ((size_t)40000)
#define READ_BYTES    ((size_t)32768) /* of a client, at once */

/* Whether kresp was built with Lua. */
#ifndef SCRIPTS
#define SCRIPTS 0
#endif

/* As redis_connection.c has it: a client that has not read this gets no more. */
#define UNREAD_BYTES ((size_t)256 * 1024)

/* How a client's connection goes. */
enum style {
    READS,       /* what it has asked for, then the next */
    READS_LATE,  /* when the others have ended */
    HALF_CLOSES, /* says that no more comes, and reads all */
    QUITS,       /* the same by QUIT */
    LEAVES,      /* at some moment */
    SUBSCRIBES,  /* to the channel, and asks for nothing else */
    STYLES
};

/* A part of a reply that is expected. */
enum atom_kind {
    LITERAL,  /* the line `text` */
    STORE_OK, /* "+OK" of a command that asks the store and changes nothing */
    AN_ERROR,
    A_SET,
    A_GET,
    AN_APPEND,
    A_DELETE,
    A_GETDEL,
    AN_INCR,
    A_PUBLISH,
    A_BIG,         /* `number` not 0: which was not read again */
    A_WATCHED_GET, /* before EXEC */
    AN_ARRAY,      /* of MGET, or of a transaction: `number` replies follow, or an error alone */
    AN_EXEC,       /* of a transaction with a watched key, and `number` commands */
    A_WATCHED_SET, /* `number` */
    A_GET_BEHIND
};

struct atom {
    enum atom_kind kind;
    unsigned key;
    int64_t number;
    char text[24];
};

/* What the client knows of one of its keys. */
struct known_key {
    bool is_unknown, is_there;
    char text[MODEL_BYTES];
};

static struct kresp_client {
    unsigned number;
    enum style style;
    int fd;
    bool is_done;    /* it is none of those that others wait for */
    bool may_be_cut; /* its connection may end before all is answered */
    struct known_key models[OWN_KEYS + 1];
    struct atom atoms[ATOMS_MAX];
    unsigned atom_count, next_atom;
    char out[OUTPUT_BYTES];
    size_t out_size;
    char *in;
    size_t in_start, in_end;
    int64_t last_logged, last_incr, last_published, watched;
    int64_t heard[CLIENTS]; /* the last number that each has published, in this connection */
    bool has_watched;
    unsigned incrs_sent, incrs_done, sets_sent, sets_done;
    size_t big_read, big_got; /* bytes of large values that kresp read for it, and that it got */
    unsigned big_batch;       /* the last that read some */
} clients[CLIENTS];

static struct {
    struct redis_service service;
    bool may_fail;  /* the store */
    bool is_to_end; /* kresp may end under its clients */
    bool given[NUMBERS_MAX], won[NUMBERS_MAX];
    size_t socket_bytes;
    unsigned accepted;
} bridged;

/* What stands for the rest of kresp -----------------------------------------------------------*/

enum kv_status __wrap_listen_socket_open_unix(struct listen_socket *listener, const char *path,
                                              mode_t mode, struct kv_error *error);
enum kv_status __wrap_listen_socket_open_unix(struct listen_socket *listener, const char *path,
                                              mode_t mode, struct kv_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)mode, (void)error;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    *listener = (struct listen_socket){
        .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    EXPLORE_CHECK(bind(listener->fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                      listen(listener->fd, 16) == 0,
                  "kresp cannot listen");
    return KV_OK;
}

enum kv_status __wrap_bridge_sandbox_enter(const char *socket_path, struct kv_error *error);
enum kv_status __wrap_bridge_sandbox_enter(const char *socket_path, struct kv_error *error)
{
    (void)socket_path, (void)error;
    return KV_OK;
}

static void run_kresp(void *unused)
{
    const struct bridge_settings settings = {
        .socket_path = SOCKET_PATH, .socket_mode = 0666, .threads = KRESP_THREADS};
    struct kv_error error = {.text = ""};
    sigset_t signals;
    (void)unused;
    sigemptyset(&signals);
    EXPLORE_CHECK(bridge_run(&bridged.service, &settings, &signals, &error) == KV_OK, "%s",
                  error.text);
}

/* What a client has not read lies in its socket or with kresp, who then begins no batch for it. A
 * part of a value may be with the client. */
static void note_read(unsigned batch, struct kv_slice key, size_t bytes)
{
    const char *name = key.data;
    if (name[0] != 'B')
        return;
    struct kresp_client *client = &clients[name[1] - '0'];
    size_t unread = client->big_read - client->big_got;
    EXPLORE_CHECK(batch == client->big_batch || client->may_be_cut ||
                      unread <= UNREAD_BYTES + bridged.socket_bytes + BIG_BYTES + READ_BYTES,
                  "client %u has %zu bytes unread, and kresp reads more for it", client->number,
                  unread);
    client->big_batch = batch;
    client->big_read += bytes;
}

/* Requests ------------------------------------------------------------------------------------ */

static void expect(struct kresp_client *client, struct atom atom)
{
    EXPLORE_CHECK(client->atom_count < ATOMS_MAX, "too many replies are expected");
    client->atoms[client->atom_count++] = atom;
}

static void expect_line(struct kresp_client *client, const char *text)
{
    struct atom atom = {.kind = LITERAL};
    snprintf(atom.text, sizeof atom.text, "%s", text);
    expect(client, atom);
}

/* Puts a request of so many words into what is to be sent. */
static void ask(struct kresp_client *client, const char *const *words, unsigned count)
{
    char *out = client->out;
    size_t at = client->out_size;
    at += (size_t)sprintf(out + at, "*%u\r\n", count);
    for (unsigned i = 0; i < count; i++)
        at += (size_t)sprintf(out + at, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    EXPLORE_CHECK(at < OUTPUT_BYTES - 512, "requests take too much");
    client->out_size = at;
}

static void ask_for(struct kresp_client *client, const char *a, const char *b, const char *c)
{
    const char *const words[] = {a, b, c};
    ask(client, words, 1u + (b != NULL) + (c != NULL));
}

static const char *own_key(const struct kresp_client *client, unsigned key)
{
    static char names[4][8];
    static unsigned next;
    char *name = names[next++ % 4];
    sprintf(name, "%c%u", (char)('a' + key), client->number);
    return name;
}

static const char *const incr_by_script[] = {
    "EVAL",
    ("local n = tonumber(redis.call('get', KEYS[1]) or 0) + 1 "
     "redis.call('set', KEYS[1], n) return n"),
    "1", "n"};

/* A command that may stand in a transaction, too: its request, and the reply. */
static struct atom ask_something(struct kresp_client *client)
{
    unsigned key = explore_random(OWN_KEYS);
    struct atom atom = {.key = key};
    switch (explore_random(8)) {
    case 7:
        atom.kind = A_PUBLISH;
        sprintf(atom.text, "%u %" PRId64, client->number, ++client->last_published);
        ask_for(client, "PUBLISH", "channel", atom.text);
        return atom;
    case 0:
        atom.kind = A_SET;
        sprintf(atom.text, "v%u", explore_random(1000));
        ask_for(client, "SET", own_key(client, key), atom.text);
        return atom;
    case 1:
        atom.kind = A_GET;
        atom.key = explore_random(OWN_KEYS + 1);
        ask_for(client, "GET", own_key(client, atom.key), NULL);
        return atom;
    case 2:
        atom.kind = A_DELETE;
        ask_for(client, "DEL", own_key(client, key), NULL);
        return atom;
    case 3:
        atom.kind = A_GETDEL;
        ask_for(client, "GETDEL", own_key(client, key), NULL);
        return atom;
    case 4:
        atom.kind = AN_INCR;
        client->incrs_sent++;
        if (SCRIPTS && explore_random(2) == 0)
            ask(client, incr_by_script, 4);
        else
            ask_for(client, "INCR", "n", NULL);
        return atom;
    default:
        atom.kind = AN_APPEND;
        atom.key = LOG;
        sprintf(atom.text, "%" PRId64 ",", ++client->last_logged);
        ask_for(client, "APPEND", own_key(client, LOG), atom.text);
        return atom;
    }
}

static void ask_mget(struct kresp_client *client)
{
    const char *words[5] = {"MGET"};
    unsigned keys[4], count = 1 + explore_random(4);
    for (unsigned i = 0; i < count; i++) {
        keys[i] = explore_random(OWN_KEYS + 1);
        words[i + 1] = own_key(client, keys[i]);
    }
    ask(client, words, count + 1);
    expect(client, (struct atom){.kind = AN_ARRAY, .number = count});
    for (unsigned i = 0; i < count; i++)
        expect(client, (struct atom){.kind = A_GET, .key = keys[i]});
}

static void ask_transaction(struct kresp_client *client)
{
    struct atom atoms[4];
    unsigned count = explore_random(4);
    ask_for(client, "MULTI", NULL, NULL);
    expect_line(client, "+OK");
    if (explore_random(4) == 0) {
        ask_for(client, "WATCH", "w", NULL);
        expect(client, (struct atom){.kind = AN_ERROR});
    }
    for (unsigned i = 0; i < count; i++) {
        atoms[i] = ask_something(client);
        expect_line(client, "+QUEUED");
    }
    ask_for(client, "EXEC", NULL, NULL);
    expect(client, (struct atom){.kind = AN_ARRAY, .number = count});
    for (unsigned i = 0; i < count; i++)
        expect(client, atoms[i]);
}

static void ask_big(struct kresp_client *client)
{
    char key[] = {'B', (char)('0' + client->number), '\0'};
    if (bridged.socket_bytes < 4096)
        return;
    ask_for(client, "GET", key, NULL);
    expect(client, (struct atom){.kind = A_BIG});
}

/* A large reply, of one value that is read once. */
static void ask_big_mget(struct kresp_client *client)
{
    char key[] = {'B', (char)('0' + client->number), '\0'};
    const char *const words[] = {"MGET", key, key, key, key, key, key, key, key};
    if (bridged.socket_bytes < 4096)
        return;
    ask(client, words, 9);
    expect(client, (struct atom){.kind = AN_ARRAY, .number = 8});
    for (unsigned i = 0; i < 8; i++)
        expect(client, (struct atom){.kind = A_BIG, .number = i});
}

static void ask_request(struct kresp_client *client)
{
    switch (explore_random(10)) {
    case 0:
        ask_for(client, "PING", NULL, NULL);
        expect_line(client, "+PONG");
        break;
    case 1:
        ask_for(client, "NOPE", NULL, NULL);
        expect(client, (struct atom){.kind = AN_ERROR});
        break;
    case 2:
        ask_mget(client);
        break;
    case 3:
        ask_transaction(client);
        break;
    case 4:
        if (client->style == READS_LATE && explore_random(2) == 0)
            ask_big_mget(client);
        for (unsigned i = 0; client->style == READS_LATE && i < 4; i++)
            ask_big(client);
        break;
    default:
        expect(client, ask_something(client));
        break;
    }
}

/* Replies -------------------------------------------------------------------------------------- */

/* The line that begins the next reply, without its end; NULL: it has not come yet. */
static const char *next_line(struct kresp_client *client, size_t *size)
{
    const char *line = client->in + client->in_start;
    const char *end = memmem(line, client->in_end - client->in_start, "\r\n", 2);
    *size = end ? (size_t)(end - line) : 0;
    return end ? line : NULL;
}

/* The bytes of a bulk reply whose line has come; NULL: not all have come yet. */
static const char *next_bulk(const struct kresp_client *client, const char *line, size_t line_size,
                             size_t *size)
{
    *size = strtoul(line + 1, NULL, 10);
    const char *bytes = line + line_size + 2;
    return bytes + *size + 2 <= client->in + client->in_end ? bytes : NULL;
}

static bool changes_key(enum atom_kind kind)
{
    return kind == A_SET || kind == AN_APPEND || kind == A_DELETE || kind == A_GETDEL;
}

/* Time may jump over all that a script or a transaction has, or a stop. */
static bool is_late(const char *line, size_t size)
{
    static const char *const late[] = {"-BUSY kresp: the script takes longer",
                                       "-BUSY kresp: the transaction takes longer",
                                       "-ERR kresp: it is stopping; nothing was executed"};
    bool found = false;
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++)
        found |= size >= strlen(late[i]) && memcmp(line, late[i], strlen(late[i])) == 0;
    return found && !explore_keeps_time();
}

/* Kresp may end while a script or a transaction waits for its next turn. */
static bool is_stopped(const char *line, size_t size)
{
    static const char text[] = "-ERR kresp: it is stopping";
    return bridged.is_to_end && size >= sizeof text - 1 && memcmp(line, text, sizeof text - 1) == 0;
}

/* The store has failed: what the command has done is not known. */
static void take_error(struct kresp_client *client, const struct atom *atom, const char *line,
                       size_t size)
{
    EXPLORE_CHECK(atom->kind == AN_ERROR || (bridged.may_fail && atom->kind != LITERAL) ||
                      is_late(line, size) || is_stopped(line, size),
                  "client %u is told %.*s", client->number, (int)size, line);
    if (changes_key(atom->kind))
        client->models[atom->key].is_unknown = true;
    if (atom->kind == A_WATCHED_GET || atom->kind == STORE_OK)
        client->has_watched = false;
    if (atom->kind != AN_EXEC && atom->kind != AN_ARRAY)
        return;
    for (int64_t i = 0; i < atom->number; i++) {
        const struct atom *part = &client->atoms[++client->next_atom];
        if (changes_key(part->kind))
            client->models[part->key].is_unknown = true;
    }
}

static void check_line(const struct kresp_client *client, const char *line, size_t size,
                       const char *expected)
{
    EXPLORE_CHECK(size == strlen(expected) && memcmp(line, expected, size) == 0,
                  "client %u is told %.*s, and expects %s (reply %u)", client->number, (int)size,
                  line, expected, client->next_atom);
}

/* A bulk reply, or none: false: not all of it has come. *size: with the line. */
static bool take_value(struct kresp_client *client, const struct atom *atom, const char *line,
                       size_t *size)
{
    struct known_key *model = &client->models[atom->key];
    char text[MODEL_BYTES] = "";
    EXPLORE_CHECK(line[0] == '$', "client %u is told %.*s instead of a value", client->number,
                  (int)*size, line);
    bool is_there = line[1] != '-';
    if (is_there) {
        size_t bulk_size;
        const char *bulk = next_bulk(client, line, *size, &bulk_size);
        if (!bulk)
            return false;
        snprintf(text, sizeof text, "%.*s", (int)bulk_size, bulk);
        *size += 2 + bulk_size;
    }
    if (atom->kind == A_WATCHED_GET || atom->kind == A_GET_BEHIND) {
        int64_t number = strtoll(text, NULL, 10);
        EXPLORE_CHECK(atom->kind == A_WATCHED_GET || number >= atom->number,
                      "client %u reads %s behind its write of %" PRId64, client->number, text,
                      atom->number);
        client->watched = number;
        return true;
    }
    EXPLORE_CHECK(model->is_unknown || (model->is_there == is_there &&
                                        (!is_there || strcmp(model->text, text) == 0)),
                  "client %u reads %s of key %s, which is %s (reply %u)", client->number,
                  is_there ? text : "nothing", own_key(client, atom->key),
                  model->is_there ? model->text : "absent", client->next_atom);
    model->is_unknown = false;
    model->is_there = is_there && atom->kind == A_GET;
    strcpy(model->text, text);
    return true;
}

static bool take_big(struct kresp_client *client, const struct atom *atom, const char *line,
                     size_t *size)
{
    size_t bulk_size;
    const char *bulk = next_bulk(client, line, *size, &bulk_size);
    if (!bulk)
        return false;
    EXPLORE_CHECK(line[0] == '$' && bulk_size == BIG_BYTES && bulk[0] == 'B' &&
                      memcmp(bulk, bulk + 1, BIG_BYTES - 1) == 0,
                  "client %u gets another large value", client->number);
    client->big_got += atom->number == 0 ? bulk_size : 0;
    *size += 2 + bulk_size;
    return true;
}

/* A number of those that are given once. */
static void take_number(struct kresp_client *client, const char *line, size_t size)
{
    int64_t number = line[0] == ':' ? strtoll(line + 1, NULL, 10) : 0;
    EXPLORE_CHECK(number > client->last_incr && number < (int64_t)NUMBERS_MAX &&
                      !bridged.given[number],
                  "client %u is given the number %.*s after %" PRId64, client->number, (int)size,
                  line, client->last_incr);
    bridged.given[number] = true;
    client->last_incr = number;
    client->incrs_done++;
}

static void take_change(struct kresp_client *client, const struct atom *atom, const char *line,
                        size_t size)
{
    struct known_key *model = &client->models[atom->key];
    char expected[24];
    if (atom->kind == A_SET) {
        check_line(client, line, size, "+OK");
        *model = (struct known_key){.is_there = true};
        strcpy(model->text, atom->text);
    } else if (atom->kind == A_DELETE) {
        sprintf(expected, ":%d", model->is_there);
        if (!model->is_unknown)
            check_line(client, line, size, expected);
        *model = (struct known_key){.is_there = false};
    } else if (!model->is_unknown) {
        memmove(model->text + strlen(model->text), atom->text, strlen(atom->text) + 1);
        model->is_there = true;
        sprintf(expected, ":%zu", strlen(model->text));
        check_line(client, line, size, expected);
    }
}

/* The end of a transaction with a watched key. */
static void take_exec(struct kresp_client *client, const struct atom *atom, const char *line,
                      size_t size)
{
    if (size == 3 && memcmp(line, "*-1", 3) == 0)
        client->next_atom += (unsigned)atom->number; /* the key was changed */
    else
        check_line(client, line, size, "*2");
}

static void check_array(const struct kresp_client *client, const struct atom *atom,
                        const char *line, size_t size)
{
    char text[16];
    sprintf(text, "*%" PRId64, atom->number);
    check_line(client, line, size, text);
}

static void take_watched_set(struct kresp_client *client, const struct atom *atom, const char *line,
                             size_t size)
{
    check_line(client, line, size, "+OK");
    EXPLORE_CHECK(!bridged.won[atom->number], "two clients have made %" PRId64 " of the number",
                  atom->number);
    bridged.won[atom->number] = true;
    client->sets_done++;
}

/* Compares the next part of a reply. False: it has not come yet. */
static bool take_atom(struct kresp_client *client)
{
    const struct atom *atom = &client->atoms[client->next_atom];
    size_t size;
    const char *line = next_line(client, &size);
    if (!line)
        return false;
    if (line[0] == '-') {
        take_error(client, atom, line, size);
    } else {
        switch (atom->kind) {
        case LITERAL:
            check_line(client, line, size, atom->text);
            break;
        case STORE_OK:
            check_line(client, line, size, "+OK");
            break;
        case AN_ERROR:
            check_line(client, line, size, "-ERR");
            break;
        case A_GET:
        case A_GETDEL:
        case A_WATCHED_GET:
        case A_GET_BEHIND:
            if (!take_value(client, atom, line, &size))
                return false;
            break;
        case A_BIG:
            if (!take_big(client, atom, line, &size))
                return false;
            break;
        case AN_INCR:
            take_number(client, line, size);
            break;
        case A_PUBLISH:
            EXPLORE_CHECK(line[0] == ':' && strtoul(line + 1, NULL, 10) <= 2 * CLIENTS,
                          "client %u is told of %.*s receivers", client->number, (int)size, line);
            break;
        case AN_ARRAY:
            check_array(client, atom, line, size);
            break;
        case AN_EXEC:
            take_exec(client, atom, line, size);
            break;
        case A_WATCHED_SET:
            take_watched_set(client, atom, line, size);
            break;
        case A_SET:
        case AN_APPEND:
        case A_DELETE:
            take_change(client, atom, line, size);
            break;
        }
    }
    client->in_start += size + 2;
    client->next_atom++;
    return true;
}

static void take_replies(struct kresp_client *client)
{
    while (client->next_atom < client->atom_count && take_atom(client))
        continue;
    EXPLORE_CHECK(client->next_atom < client->atom_count || client->in_start == client->in_end ||
                      client->style == SUBSCRIBES,
                  "client %u is told more than it has asked for: %.*s", client->number,
                  (int)(client->in_end - client->in_start), client->in + client->in_start);
}

/* The connection ------------------------------------------------------------------------------- */

/* Reads some of what has come, or waits for it. False: the connection has ended. */
static bool read_some(struct kresp_client *client)
{
    size_t most = explore_random(4) == 0 ? 1 + explore_random(100) : READ_BYTES;
    memmove(client->in, client->in + client->in_start, client->in_end - client->in_start);
    client->in_end -= client->in_start;
    client->in_start = 0;
    char *grown = realloc(client->in, client->in_end + most);
    EXPLORE_CHECK(grown, "no memory for replies");
    client->in = grown;
    explore_quietly(false);
    ssize_t got = read(client->fd, client->in + client->in_end, most);
    explore_quietly(true);
    if (got <= 0) {
        EXPLORE_CHECK(client->may_be_cut || client->next_atom == client->atom_count,
                      "the connection of client %u ends, which expects %u replies more",
                      client->number, client->atom_count - client->next_atom);
        return false;
    }
    client->in_end += (size_t)got;
    take_replies(client);
    return true;
}

/* Sends what was asked, in pieces, and may read meanwhile. False: the connection has ended. */
static bool send_all(struct kresp_client *client, bool reads)
{
    size_t sent = 0;
    while (sent < client->out_size) {
        size_t left = client->out_size - sent;
        size_t piece = explore_random(3) == 0 ? left : 1 + explore_random((uint32_t)left);
        struct pollfd readable = {client->fd, POLLIN, 0};
        explore_quietly(false);
        ssize_t given = send(client->fd, client->out + sent, piece, MSG_NOSIGNAL);
        bool may_read = reads && poll(&readable, 1, 0) > 0;
        explore_quietly(true);
        if (given < 0) {
            EXPLORE_CHECK(client->may_be_cut, "client %u cannot send: error %d", client->number,
                          errno);
            return false;
        }
        sent += (size_t)given;
        if (may_read && explore_random(2) == 0 && !read_some(client))
            return false;
        if (client->style == LEAVES && explore_random(8) == 0)
            return false;
    }
    client->out_size = 0;
    return true;
}

static bool read_all(struct kresp_client *client)
{
    while (client->next_atom < client->atom_count) {
        if (client->style == LEAVES && explore_random(3) == 0)
            return false;
        if (!read_some(client))
            return false;
    }
    client->next_atom = client->atom_count = 0;
    return true;
}

/* Others wait for nobody who reads late. */
static bool have_others_ended(const void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!clients[i].is_done && !explore_is_gone(KRESP + 1 + i))
            return false;
    return true;
}

/* Adds one to a number that others may change meanwhile. */
static bool change_watched(struct kresp_client *client)
{
    char text[24];
    client->has_watched = true;
    ask_for(client, "WATCH", "w", NULL);
    expect(client, (struct atom){.kind = STORE_OK});
    ask_for(client, "GET", "w", NULL);
    expect(client, (struct atom){.kind = A_WATCHED_GET});
    if (!send_all(client, true) || !read_all(client))
        return false;
    if (!client->has_watched) {
        ask_for(client, "UNWATCH", NULL, NULL);
        expect_line(client, "+OK");
        return send_all(client, true) && read_all(client);
    }
    int64_t next = client->watched + 1;
    sprintf(text, "%" PRId64, next);
    ask_for(client, "MULTI", NULL, NULL);
    expect_line(client, "+OK");
    ask_for(client, "SET", "w", text);
    ask_for(client, "GET", "w", NULL);
    expect_line(client, "+QUEUED");
    expect_line(client, "+QUEUED");
    ask_for(client, "EXEC", NULL, NULL);
    expect(client, (struct atom){.kind = AN_EXEC, .number = 2});
    expect(client, (struct atom){.kind = A_WATCHED_SET, .number = next});
    expect(client, (struct atom){.kind = A_GET_BEHIND, .number = bridged.may_fail ? 0 : next});
    client->sets_sent++;
    ask_request(client);
    return send_all(client, true) && read_all(client);
}

static bool has_connected(struct kresp_client *client)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
    client->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &bridged.socket_bytes, sizeof(unsigned));
    explore_quietly(false);
    bool connected = connect(client->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    explore_quietly(true);
    EXPLORE_CHECK(connected || bridged.is_to_end, "client %u cannot connect: error %d",
                  client->number, errno);
    bridged.accepted += connected;
    return connected;
}

/* One connection, whose requests are answered to the end unless it leaves. False: it has ended
 * early. */
static bool use_connection(struct kresp_client *client)
{
    for (unsigned i = 0; client->style == READS && i < CHANGES; i++)
        if (!change_watched(client))
            return false;
    /* How large its values are, kresp learns from the first. */
    ask_big(client);
    if (client->style == READS_LATE && !(send_all(client, true) && read_all(client)))
        return false;
    unsigned count = 1 + explore_random(REQUESTS_MAX);
    for (unsigned i = 0; i < count; i++)
        ask_request(client);
    if (client->style == QUITS) {
        ask_for(client, "QUIT", NULL, NULL);
        expect_line(client, "+OK");
    }
    if (!send_all(client, client->style != READS_LATE))
        return false;
    if (client->style == READS_LATE) {
        client->is_done = true;
        explore_quietly(false);
        explore_wait_until(have_others_ended, NULL);
        explore_quietly(true);
    }
    if (client->style == HALF_CLOSES)
        shutdown(client->fd, SHUT_WR);
    if (!read_all(client))
        return false;
    return (client->style != HALF_CLOSES && client->style != QUITS) || !read_some(client);
}

/* What a subscriber is told ---------------------------------------------------------------------*/

/* A number that another client has published: it has heard all since the first, unless the store
 * failed under a transaction. */
static void hear(struct kresp_client *client, const char *text)
{
    char *end;
    unsigned number = (unsigned)strtoul(text, &end, 10);
    int64_t published = strtoll(end, NULL, 10);
    EXPLORE_CHECK(number < CLIENTS && published <= clients[number].last_published,
                  "client %u hears %s", client->number, text);
    int64_t *heard = &client->heard[number];
    EXPLORE_CHECK(*heard == 0 || published == *heard + 1 ||
                      (bridged.may_fail && published > *heard),
                  "client %u hears %s behind %" PRId64, client->number, text, *heard);
    *heard = published;
}

/* Takes one array of what a subscriber is told, and its first words. False: it has not come yet. */
static bool take_told(struct kresp_client *client, char words[3][24])
{
    size_t size, start = client->in_start;
    const char *line = next_line(client, &size);
    unsigned count = line ? (unsigned)strtoul(line + 1, NULL, 10) : 0;
    bool is_whole = line != NULL;
    EXPLORE_CHECK(!line || (line[0] == '*' && count >= 2 && count <= 3),
                  "a subscriber is told %.*s", (int)size, line);
    client->in_start += size + 2;
    for (unsigned i = 0; i < count && is_whole; i++) {
        size_t bytes = 0;
        const char *text = next_line(client, &size);
        if (text)
            client->in_start += size + 2;
        if (text && text[0] == '$') {
            text = next_bulk(client, text, size, &bytes);
            client->in_start += bytes + 2;
        }
        is_whole = text != NULL;
        snprintf(words[i], 24, "%.*s", (int)bytes, text ? text : "");
    }
    if (!is_whole)
        client->in_start = start;
    return is_whole;
}

/* Reads until it is told so. False: the connection has ended. */
static bool hear_until(struct kresp_client *client, const char *end)
{
    for (;;) {
        char words[3][24] = {"", "", ""};
        while (!take_told(client, words))
            if (!read_some(client)) {
                EXPLORE_CHECK(client->may_be_cut, "the connection of a subscriber ends");
                return false;
            }
        if (strcmp(words[0], end) == 0)
            return true;
        EXPLORE_CHECK(strcmp(words[0], "message") == 0 && strcmp(words[1], "channel") == 0,
                      "client %u is told %s, and expects %s", client->number, words[0], end);
        hear(client, words[2]);
    }
}

static bool use_subscription(struct kresp_client *client)
{
    static const char *const questions[][2] = {{"PING", "pong"}, {"SUBSCRIBE", "subscribe"}};
    const char *question = "SUBSCRIBE", *answer = "subscribe";
    memset(client->heard, 0, sizeof client->heard);
    client->is_done = true; /* others wait for nobody who waits for them */
    for (unsigned i = explore_random(6);; i--) {
        bool names = strcmp(question, "PING") != 0;
        ask_for(client, question, names ? "channel" : NULL, NULL);
        if (!send_all(client, false) || !hear_until(client, answer))
            return false;
        if (i == 0)
            break;
        explore_sleep_ms(explore_random(5));
        const char *const *next = questions[explore_random(2)];
        question = i == 1 ? "UNSUBSCRIBE" : next[0];
        answer = i == 1 ? "unsubscribe" : next[1];
    }
    return true;
}

static void forget_connection(struct kresp_client *client)
{
    close(client->fd);
    client->out_size = client->in_start = client->in_end = 0;
    client->next_atom = client->atom_count = 0;
}

static void be_a_client(void *argument)
{
    struct kresp_client *client = &clients[(uintptr_t)argument];
    unsigned connections = 1 + explore_random(2);
    bool goes_on = true;
    explore_quietly(true);
    for (unsigned i = 0; i < connections && goes_on; i++) {
        client->style = explore_random(3) == 0 ? READS : (enum style)explore_random(STYLES);
        client->may_be_cut = bridged.is_to_end || client->style == LEAVES;
        client->is_done = client->style == READS_LATE;
        goes_on = has_connected(client) &&
                  (client->style == SUBSCRIBES ? use_subscription(client) : use_connection(client));
        forget_connection(client);
    }
    client->is_done = true;
    free(client->in);
    client->in = NULL;
    explore_quietly(false);
    explore_exit();
}

/* What is left --------------------------------------------------------------------------------*/

/* The numbers that a client appended are there in order, each once, and those that it was told of
 * are. */
static void judge_log(const struct kresp_client *client)
{
    struct kv_slice value = explored_redis_store_value(own_key(client, LOG));
    const struct known_key *model = &client->models[LOG];
    const char *at = value.data;
    int64_t last = 0;
    while (at < (const char *)value.data + value.size) {
        char *end;
        int64_t number = strtoll(at, &end, 10);
        EXPLORE_CHECK(number > last && number <= client->last_logged && *end == ',',
                      "client %u has appended %.*s", client->number, (int)value.size,
                      (const char *)value.data);
        EXPLORE_CHECK(number == last + 1 || bridged.may_fail,
                      "what client %u has appended before %" PRId64 " is lost", client->number,
                      number);
        last = number;
        at = end + 1;
    }
    EXPLORE_CHECK(model->is_unknown || (value.size >= strlen(model->text) &&
                                        memcmp(value.data, model->text, strlen(model->text)) == 0),
                  "client %u was told that it has %s, and there is %.*s", client->number,
                  model->text, (int)value.size, (const char *)value.data);
}

static void judge_sum(const char *key, unsigned done, unsigned sent)
{
    struct kv_slice value = explored_redis_store_value(key);
    unsigned sum = value.size > 0 ? (unsigned)strtoul(value.data, NULL, 10) : 0;
    EXPLORE_CHECK(sum >= done && sum <= sent,
                  "%s is %u, of %u that were asked for and %u that were answered", key, sum, sent,
                  done);
}

static void judge(void)
{
    unsigned incrs_done = 0, incrs_sent = 0, sets_done = 0, sets_sent = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        judge_log(&clients[i]);
        incrs_done += clients[i].incrs_done;
        incrs_sent += clients[i].incrs_sent;
        sets_done += clients[i].sets_done;
        sets_sent += clients[i].sets_sent;
    }
    judge_sum("n", incrs_done, incrs_sent);
    judge_sum("w", sets_done, sets_sent);
}

/* All connections of clients that have gone are forgotten, and what they had. */
static bool is_nothing_left(const void *unused)
{
    (void)unused;
    return bridged.service.users.connections == 0 && byte_buffer_total() == 0;
}

static void begin(void)
{
    char *big = malloc(BIG_BYTES);
    EXPLORE_CHECK(big, "no memory for a value");
    memset(big, 'B', BIG_BYTES);
    explore_forget_statics();
    explore_simulate_processes();
    memset(clients, 0, sizeof clients);
    memset(&bridged, 0, sizeof bridged);
    bridged.may_fail = explore_random(4) == 0;
    bridged.socket_bytes = explore_random(3) == 0 ? 200 : explore_random(2) == 0 ? 8192 : 65536;
    bridged.service.socket_path = SOCKET_PATH;
    bridged.service.max_request_bytes = (uint64_t)1 << 20;
    bridged.service.max_pipeline = explore_random(2) == 0 ? 1 + explore_random(4) : 1000;
    bridged.service.threads = KRESP_THREADS;
    pthread_mutex_init(&bridged.service.users.lock, NULL);
    pthread_mutex_init(&bridged.service.scans.lock, NULL);
    bridged.service.users.max_connections = 100;
    bridged.service.users.shared = true;
    byte_buffer_set_budget(BUDGET_BYTES, true);
    redis_command_init();
    explored_redis_store_begin(explore_random(2) * 20, bridged.may_fail);
    explored_redis_store_note_read = note_read;
    for (unsigned i = 0; i < CLIENTS; i++) {
        char key[4] = {'B', (char)('0' + i), '\0'};
        explored_redis_store_put(key, big, BIG_BYTES);
        clients[i].number = i;
        explore_set_uid(KRESP + 1 + i, 1000 + i % 2);
    }
    free(big);
    explore_other_thread(KRESP, run_kresp, NULL);
    explore_sleep_ms(1); /* until it listens */
    for (unsigned i = 0; i < CLIENTS; i++) {
        explore_thread(KRESP + 1 + i, be_a_client, (void *)(uintptr_t)i);
        explore_may_kill(KRESP + 1 + i);
    }
}

static void end(void)
{
    explore_quietly(true);
    EXPLORE_CHECK(byte_buffer_total() == 0 && redis_users_connections(&bridged.service.users) == 0,
                  "kresp has ended, and has left %zu bytes", byte_buffer_total());
    EXPLORE_CHECK(explore_open_sockets() == 0, "%u sockets are open", explore_open_sockets());
    judge();
    for (unsigned i = 0; i < CLIENTS; i++)
        free(clients[i].in);
    explored_redis_store_end();
}

static void run(void)
{
    explore_quietly(true);
    begin();
    explore_quietly(false);
    explore_wait_for_threads();
    explore_wait_until(is_nothing_left, NULL);
    explore_ask_to_end();
    explore_wait_for_all();
    end();
}

/* The signal comes while clients are there: what they were told holds all the same. */
static void run_stop(void)
{
    explore_quietly(true);
    begin();
    bridged.is_to_end = true;
    explore_quietly(false);
    explore_sleep_ms(explore_random(3));
    explore_ask_to_end();
    explore_wait_for_all();
    end();
}

EXPLORE_HARNESS(explore_kresp) = {
    .name = "kresp",
    .invariant = "kresp answers each request once and in order, and keeps nothing of who has gone",
    .run = run,
    .most_still_ms = 100,
};

EXPLORE_HARNESS(explore_kresp_stop) = {
    .name = "kresp-stop",
    .invariant = "the same as far as it has answered when it stops while clients come and go",
    .run = run_stop,
    .most_still_ms = 100,
};
