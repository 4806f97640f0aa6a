#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/program/cli/serverk_program.h"
#include "tools/ops/diagnosis.h"

#define CHECK_SECONDS 10u
#define UNIT_CONFIG   "/etc/mqkv/serverk.conf"

/* Starting ------------------------------------------------------------------------------------- */

static bool has_unit(const struct diagnosis *diagnosis)
{
    return strcmp(diagnosis->context->global.queue, "/serverk") == 0 &&
           access("/run/systemd/system", F_OK) == 0 &&
           (access("/lib/systemd/system/serverk.service", F_OK) == 0 ||
            access("/usr/local/lib/systemd/system/serverk.service", F_OK) == 0);
}

void doctor_fix_by_start(struct diagnosis *diagnosis)
{
    if (has_unit(diagnosis))
        fix(diagnosis, "systemctl start serverk.service");
    else
        fix(diagnosis, "serverk -m %s -f \"${DIRECTORY:?of the store}\" --daemon",
            diagnosis->context->global.queue);
}

void doctor_fix_by_restart(struct diagnosis *diagnosis)
{
    if (has_unit(diagnosis))
        fix(diagnosis, "systemctl restart serverk.service");
    else if (diagnosis->server > 0)
        fix(diagnosis, "kill %ld   # and start it again", (long)diagnosis->server);
}

/* Whose it is ---------------------------------------------------------------------------------- */

/* serverk --check does with this user's rights what the file says, up to a connection with the
 * password of a file that it names. So it must not read a file that another user may have written,
 * or chosen by the arguments of a process. */
static bool is_trusted_file(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

/* Returns true if only this user or root chose the arguments of the process. The real and the saved
 * uid count, too: a program that runs with the rights of root may have been started by anybody.
 * (The owner of /proc/PID says less: it is root for each process that allows no core file.) */
static bool is_trusted_process(pid_t pid)
{
    char path[64], line[256];
    unsigned uids[4] = {0};
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *status = fopen(path, "re");
    while (status && !found && fgets(line, sizeof line, status))
        found = sscanf(line, "Uid: %u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) == 4;
    if (status)
        fclose(status);
    for (unsigned i = 0; found && i < 4; i++)
        found = is_trusted_file(uids[i]);
    return found;
}

/* The file ------------------------------------------------------------------------------------- */

/* Finds the file that the process was started with (-c, --config); false: with none, or its
 * arguments cannot be read. */
static bool find_config(pid_t server, char path[PATH_MAX])
{
    char name[64], words[8192];
    snprintf(name, sizeof name, "/proc/%ld/cmdline", (long)server);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, words, sizeof words - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return false;
    words[size] = '\0';
    const char *found = NULL;
    for (const char *word = words, *before = ""; word < words + size; word += strlen(word) + 1) {
        if (strcmp(before, "-c") == 0 || strcmp(before, "--config") == 0)
            found = word;
        else if (strncmp(word, "--config=", 9) == 0)
            found = word + 9;
        before = word;
    }
    if (!found || found[0] != '/' || strlen(found) >= PATH_MAX)
        return false;
    strcpy(path, found);
    return true;
}

/* Reads the first line that `serverk -c FILE --check` prints about a mistake. False: there is no
 * mistake. */
static bool find_mistake(const char *serverk, const char *file, char line[512])
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        alarm(CHECK_SECONDS);
        execl(serverk, "serverk", "-c", file, "--check", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; child > 0 && used < 511; used += (size_t)got)
        if ((got = read(ends[0], line + used, 511 - used)) <= 0)
            break;
    close(ends[0]);
    line[used] = '\0';
    line[strcspn(line, "\n")] = '\0';
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 2;
}

static void diagnose_file(struct diagnosis *diagnosis, const char *file, const struct stat *is)
{
    char serverk[PATH_MAX], line[512], user[64], word[DIAGNOSIS_WORD_BYTES];
    if (is->st_mode & S_IWOTH) {
        finding(diagnosis, "BAD", "anybody may change %s (%s, mode %04o): not checked", file,
                user_name(is->st_uid, user), (unsigned)(is->st_mode & 07777));
        fix(diagnosis, "chmod o-w %s", shell_word(file, word));
    } else if (!is_trusted_file(is->st_uid)) {
        finding(diagnosis, "-", "%s belongs to %s: not checked", file, user_name(is->st_uid, user));
    } else if (access(file, R_OK) != 0) {
        finding(diagnosis, "-", "%s may not be read by this user: not checked", file);
    } else if (!serverk_program_find(serverk)) {
        finding(diagnosis, "-", "%s: not checked, there is no serverk beside this program", file);
    } else if (find_mistake(serverk, file, line)) {
        finding(diagnosis, "BAD", "%s", line);
        fix_by_hand(diagnosis);
    } else {
        finding(diagnosis, "ok", "%s has no mistake", file);
    }
}

void doctor_check_config(struct diagnosis *diagnosis, pid_t server)
{
    char file[PATH_MAX] = UNIT_CONFIG;
    struct stat is;
    bool named = server > 0 && find_config(server, file);
    if (!named && (server > 0 || !has_unit(diagnosis)))
        return;
    heading(diagnosis, "Configuration");
    if (named && strcmp(file, UNIT_CONFIG) != 0 && !is_trusted_process(server)) {
        finding(diagnosis, "-", "%s: not checked, a process of another user names it", file);
    } else if (stat(file, &is) == 0 && !S_ISREG(is.st_mode)) {
        finding(diagnosis, "-", "%s is no regular file: not checked", file);
    } else if (stat(file, &is) == 0) {
        diagnose_file(diagnosis, file, &is);
    } else if (errno == EACCES) {
        finding(diagnosis, "-", "%s may not be read by this user: not checked", file);
    } else {
        finding(diagnosis, "BAD", "%s: %s: the server does not start again", file, strerror(errno));
        fix_by_hand(diagnosis);
    }
}
