#include "serverk/daemon/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"

/* Of an argument. */
#define MAX_ARGUMENT_BYTES 4096u

/* A command under way. */
struct admin_command {
    struct admin *admin;
    struct session *session;
    char argument[MAX_ARGUMENT_BYTES + 1];
    FILE *out; /* the answer */
};

typedef enum kv_status (*admin_function)(struct admin_command *command, struct kv_error *error);

/* Commands ------------------------------------------------------------------------------------- */

/* The argument is a name, or empty for all. */
static enum kv_status config_get(struct admin_command *command, struct kv_error *error)
{
    const char *name = command->argument[0] ? command->argument : NULL;
    return reload_print(command->admin->reload, name, command->out, error);
}

/* "NAME VALUE". */
static enum kv_status config_set(struct admin_command *command, struct kv_error *error)
{
    char *value = strchr(command->argument, ' ');
    if (!value)
        return kv_error_set(error, KV_USAGE, "config set needs a name and a value");
    *value++ = '\0';
    return reload_set(command->admin->reload, command->argument, value, error);
}

static const struct {
    const char *name;
    admin_function run;
} admin_commands[] = {
    {"config-get", config_get},
    {"config-set", config_set},
};

/* Running them --------------------------------------------------------------------------------- */

static admin_function find(struct kv_slice name)
{
    for (size_t i = 0; i < sizeof admin_commands / sizeof admin_commands[0]; i++)
        if (kv_slice_equal(name, kv_slice_from_string(admin_commands[i].name)))
            return admin_commands[i].run;
    return NULL;
}

static bool take_argument(struct admin_command *command, struct kv_slice argument)
{
    if (argument.size > MAX_ARGUMENT_BYTES || memchr(argument.data, '\0', argument.size))
        return false;
    memcpy(command->argument, argument.data, argument.size);
    return strlen(command->argument) == argument.size; /* a segment changes under our hands */
}

static enum kv_status run(struct admin *admin, const struct admin_call *call, FILE *out,
                          struct kv_error *error)
{
    struct admin_command command = {.admin = admin, .session = call->session, .out = out};
    uid_t uid = call->session->uid;
    admin_function function = find(call->command);
    if (uid != geteuid() && uid != 0)
        return kv_error_set(error, KV_DENIED,
                            "that is for the server's own user (uid %lu) and root, not for uid %lu",
                            (unsigned long)geteuid(), (unsigned long)uid);
    if (!function)
        return kv_error_set(error, KV_NOT_FOUND, "the server knows no such command");
    if (!take_argument(&command, call->argument))
        return kv_error_set(error, KV_USAGE, "the argument has a NUL, or more than %u bytes",
                            MAX_ARGUMENT_BYTES);
    return function(&command, error);
}

/* The sentence in the place of the answer. */
static void tell_failure(struct admin_call *call, const struct kv_error *error)
{
    free(call->text);
    call->text = strdup(error->text);
    call->size = call->text ? strlen(call->text) : 0;
}

enum kv_status admin_run(void *admin, struct admin_call *call)
{
    struct kv_error error = {0};
    FILE *out = open_memstream(&call->text, &call->size);
    if (!out)
        return KV_NO_MEMORY;
    enum kv_status status = run(admin, call, out, &error);
    if (fclose(out) != 0)
        status = kv_error_set(&error, KV_NO_MEMORY, "the server has no memory for the answer");
    if (status != KV_OK)
        tell_failure(call, &error);
    return status;
}
