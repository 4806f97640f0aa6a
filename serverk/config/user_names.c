#include "serverk/config/user_names.h"

#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "wire/own_user.h"

#define NO_ID UINT32_MAX

static bool by_files;

void user_names_use_files(void)
{
    by_files = true;
}

/* Returns the id that the name is as a number; NO_ID: it is none. */
static uint32_t parse_user_id(const char *name)
{
    uint64_t number;
    return parse_u64(name, 0, NO_ID - 1, &number) ? (uint32_t)number : NO_ID;
}

/* Finds the user of that name in /etc/passwd. */
static bool find_in_file(const char *name, uid_t *uid)
{
    FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;
    while (file && (user = fgetpwent(file)) != NULL && strcmp(user->pw_name, name) != 0)
        ;
    if (user)
        *uid = user->pw_uid;
    if (file)
        fclose(file);
    return user != NULL;
}

static bool find_by_name(const char *name, uid_t *uid)
{
    if (by_files)
        return find_in_file(name, uid);
    const struct passwd *user = getpwnam(name);
    if (user)
        *uid = user->pw_uid;
    return user != NULL;
}

bool user_names_find(const char *name, uid_t *uid)
{
    if (!find_by_name(name, uid))
        *uid = parse_user_id(name);
    return *uid != NO_ID;
}

/* Users that are found one by one. */
struct members {
    uid_t *uids;
    size_t count;
    bool failed;
};

static void add_member(struct members *members, uid_t uid)
{
    uid_t *uids = realloc(members->uids, (members->count + 1) * sizeof *uids);
    members->failed |= !uids;
    if (!uids)
        return;
    members->uids = uids;
    members->uids[members->count++] = uid;
}

static void add_listed(struct members *members, const struct group *group)
{
    uid_t uid;
    for (char **member = group->gr_mem; *member; member++)
        if (find_by_name(*member, &uid) && !wire_uid_is_shared(uid))
            add_member(members, uid);
}

static void add_of_first_group(struct members *members, gid_t gid)
{
    FILE *file = by_files ? fopen("/etc/passwd", "re") : NULL;
    const struct passwd *user;
    if (by_files && !file)
        return;
    if (!by_files)
        setpwent();
    while ((user = file ? fgetpwent(file) : getpwent()) != NULL)
        if (user->pw_gid == gid && !wire_uid_is_shared(user->pw_uid))
            add_member(members, user->pw_uid);
    if (by_files)
        fclose(file);
    else
        endpwent();
}

/* Finds the group in /etc/group, and adds the members that it lists. */
static bool add_group_in_file(struct members *members, const char *name, gid_t *gid)
{
    FILE *file = fopen("/etc/group", "re");
    uint32_t number = parse_user_id(name);
    const struct group *group = NULL;
    while (file && (group = fgetgrent(file)) != NULL && strcmp(group->gr_name, name) != 0 &&
           group->gr_gid != number)
        ;
    if (group) {
        *gid = group->gr_gid;
        add_listed(members, group);
    }
    if (file)
        fclose(file);
    return group != NULL;
}

static bool add_group(struct members *members, const char *name, gid_t *gid)
{
    if (by_files)
        return add_group_in_file(members, name, gid);
    const struct group *group = getgrnam(name);
    if (!group && parse_user_id(name) != NO_ID)
        group = getgrgid(parse_user_id(name));
    if (!group)
        return false;
    *gid = group->gr_gid;
    add_listed(members, group);
    return true;
}

bool user_names_members(const char *group, uid_t **uids, size_t *count)
{
    struct members members = {.uids = NULL};
    gid_t gid = (gid_t)-1;
    bool found = add_group(&members, group, &gid);
    if (found)
        add_of_first_group(&members, gid);
    if (!found || members.failed) {
        free(members.uids);
        return false;
    }
    *uids = members.uids;
    *count = members.count;
    return true;
}
