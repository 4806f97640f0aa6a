#include "kresp/commands/lock_scripts.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#define MAX_LOADED 64u
#define MAX_TEXT   512u

struct known_script {
    char hex[SHA1_HEX_BYTES];
    enum lock_script script;
};

/* redis-py, the same bytes in its versions 5 to 8. */
static const struct known_script built_in[] = {
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", LOCK_RELEASE},
    {"a4e8783852e6b949f9ef3a97212805108459a890", LOCK_EXTEND},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", LOCK_EXPIRE_MS},
};

/* Texts without blanks, with double quotes. */
static const struct {
    const char *text;
    enum lock_script script;
} texts[] = {
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"del\",KEYS[1])elsereturn0end",
     LOCK_RELEASE},
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"pexpire\",KEYS[1],ARGV[2])"
     "elsereturn0end",
     LOCK_EXPIRE_MS},
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"expire\",KEYS[1],ARGV[2])"
     "elsereturn0end",
     LOCK_EXPIRE_SECONDS},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known_script loaded[MAX_LOADED];
static size_t loaded_count;

/* The text without blanks and with one kind of quotes; false: it is too long to be one of ours. */
static bool normalize(struct kv_slice text, char out[MAX_TEXT])
{
    const char *at = text.data;
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (isspace((unsigned char)at[i]) || at[i] == ';')
            continue;
        if (size + 1 == MAX_TEXT || at[i] == '\0')
            return false;
        out[size++] = (char)(at[i] == '\'' ? '"' : at[i]);
    }
    out[size] = '\0';
    return true;
}

/* Case matters in Lua, but for the names of commands inside of quotes, where nobody writes anything
 * else. */
static enum lock_script recognise(struct kv_slice text)
{
    char normal[MAX_TEXT];
    if (!normalize(text, normal))
        return LOCK_UNKNOWN;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcasecmp(normal, texts[i].text) == 0)
            return texts[i].script;
    return LOCK_UNKNOWN;
}

static enum lock_script find(const struct known_script *scripts, size_t count, const char *hex)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(scripts[i].hex, hex) == 0)
            return scripts[i].script;
    return LOCK_UNKNOWN;
}

enum lock_script lock_script_find(struct kv_slice hex)
{
    char copy[SHA1_HEX_BYTES] = "";
    if (hex.size != SHA1_HEX_BYTES - 1)
        return LOCK_UNKNOWN;
    memcpy(copy, hex.data, hex.size);
    enum lock_script script = find(built_in, sizeof built_in / sizeof built_in[0], copy);
    if (script != LOCK_UNKNOWN)
        return script;
    pthread_mutex_lock(&lock);
    script = find(loaded, loaded_count, copy);
    pthread_mutex_unlock(&lock);
    return script;
}

enum lock_script lock_script_load(struct kv_slice text, char hex[SHA1_HEX_BYTES])
{
    sha1_hex(text, hex);
    enum lock_script script = lock_script_find(kv_slice(hex, SHA1_HEX_BYTES - 1));
    if (script != LOCK_UNKNOWN)
        return script;
    script = recognise(text);
    pthread_mutex_lock(&lock);
    if (script != LOCK_UNKNOWN && loaded_count < MAX_LOADED) {
        memcpy(loaded[loaded_count].hex, hex, SHA1_HEX_BYTES);
        loaded[loaded_count++].script = script;
    }
    pthread_mutex_unlock(&lock);
    return script;
}

void lock_script_flush(void)
{
    pthread_mutex_lock(&lock);
    loaded_count = 0;
    pthread_mutex_unlock(&lock);
}
