#include "serverk/daemon/private_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"

static enum kv_status make_private(int dir_fd, const char *dir, const char *name,
                                   struct kv_error *error)
{
    struct stat facts;
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return KV_OK; /* whoever opens the store tells of it */
    enum kv_status status = KV_OK;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && (facts.st_mode & 0077) != 0) {
        if (fchmod(fd, facts.st_mode & 0700) != 0)
            status = kv_error_set_errno(error,
                                        "%s/%s: others may read it, whatever the sections about "
                                        "users say, and its mode cannot be changed",
                                        dir, name);
        else
            log_info("%s/%s: only its owner may read it now", dir, name);
    }
    close(fd);
    return status;
}

enum kv_status private_files_make(const char *dir, struct kv_error *error)
{
    DIR *entries = opendir(dir);
    enum kv_status status = KV_OK;
    if (!entries)
        return KV_OK;
    for (const struct dirent *entry; status == KV_OK && (entry = readdir(entries)) != NULL;)
        if (strncmp(entry->d_name, "data.", 5) == 0 || strcmp(entry->d_name, "commit.log") == 0)
            status = make_private(dirfd(entries), dir, entry->d_name, error);
    closedir(entries);
    return status;
}

void private_files_warn(const char *dir)
{
    struct stat facts;
    if (stat(dir, &facts) != 0)
        return; /* whoever opens the store tells of it */
    if (facts.st_uid != geteuid() && facts.st_uid != 0)
        log_warn("%s belongs to uid %u, who may exchange the data files: chown it to uid %u", dir,
                 (unsigned)facts.st_uid, (unsigned)geteuid());
    else if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0)
        log_warn("%s has mode %04o: anybody may exchange the data files: chmod o-w", dir,
                 (unsigned)facts.st_mode & 07777);
}
