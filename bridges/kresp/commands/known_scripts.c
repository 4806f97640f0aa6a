#include "bridges/kresp/commands/known_scripts.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#define MAX_LOADED 64u
#define MAX_TEXT   512u

struct remembered_script {
    char hex[SHA1_HEX_BYTES];
    enum known_script script;
};

/* The scripts of redis-py, which has the same bytes in its versions 5 to 8. */
static const struct remembered_script built_in[] = {
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", SCRIPT_RELEASE},
    {"a4e8783852e6b949f9ef3a97212805108459a890", SCRIPT_EXTEND},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", SCRIPT_EXPIRE_MS},
};

/* The scripts as texts without blanks, with double quotes. */
static const struct {
    const char *text;
    enum known_script script;
} texts[] = {
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"del\",KEYS[1])elsereturn0end",
     SCRIPT_RELEASE},
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"pexpire\",KEYS[1],ARGV[2])"
     "elsereturn0end",
     SCRIPT_EXPIRE_MS},
    {"ifredis.call(\"get\",KEYS[1])==ARGV[1]thenreturnredis.call(\"expire\",KEYS[1],ARGV[2])"
     "elsereturn0end",
     SCRIPT_EXPIRE_SECONDS},
    {"returnredis.call(\"incrby\",KEYS[1],ARGV[1])", SCRIPT_ADD},
    {"localexists=redis.call(\"exists\",KEYS[1])if(exists==1)"
     "thenreturnredis.call(\"incrby\",KEYS[1],ARGV[1])elsereturnfalseend",
     SCRIPT_ADD_PRESENT},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct remembered_script loaded[MAX_LOADED];
static size_t loaded_count;

/* Writes the text without blanks and with one kind of quotes; false: it is longer than any known
 * script. */
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

/* Compares as Lua does, by case, but for names of commands inside of quotes, where nothing else is
 * ever written. */
static enum known_script recognise(struct kv_slice text)
{
    char normal[MAX_TEXT];
    if (!normalize(text, normal))
        return SCRIPT_UNKNOWN;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcasecmp(normal, texts[i].text) == 0)
            return texts[i].script;
    return SCRIPT_UNKNOWN;
}

static enum known_script find_remembered_script(const struct remembered_script *scripts,
                                                size_t count, const char *hex)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(scripts[i].hex, hex) == 0)
            return scripts[i].script;
    return SCRIPT_UNKNOWN;
}

enum known_script known_script_find(struct kv_slice hex)
{
    char copy[SHA1_HEX_BYTES] = "";
    if (hex.size != SHA1_HEX_BYTES - 1)
        return SCRIPT_UNKNOWN;
    memcpy(copy, hex.data, hex.size);
    enum known_script script =
        find_remembered_script(built_in, sizeof built_in / sizeof built_in[0], copy);
    if (script != SCRIPT_UNKNOWN)
        return script;
    pthread_mutex_lock(&lock);
    script = find_remembered_script(loaded, loaded_count, copy);
    pthread_mutex_unlock(&lock);
    return script;
}

enum known_script known_script_load(struct kv_slice text, char hex[SHA1_HEX_BYTES])
{
    sha1_hex(text, hex);
    enum known_script script = known_script_find(kv_slice(hex, SHA1_HEX_BYTES - 1));
    if (script != SCRIPT_UNKNOWN)
        return script;
    script = recognise(text);
    pthread_mutex_lock(&lock);
    if (script != SCRIPT_UNKNOWN && loaded_count < MAX_LOADED) {
        memcpy(loaded[loaded_count].hex, hex, SHA1_HEX_BYTES);
        loaded[loaded_count++].script = script;
    }
    pthread_mutex_unlock(&lock);
    return script;
}

void known_script_flush(void)
{
    pthread_mutex_lock(&lock);
    loaded_count = 0;
    pthread_mutex_unlock(&lock);
}
