/* apart UID COMMAND...: runs the command as root in IPC and mount namespaces of its own, where
 * /dev/shm is its own, too, and, unless UID is 0, in a user namespace that the user UID has
 * made: its message queues are counted for it alone (the kernel counts them for the user who
 * made the namespace, too, whose limit is that of any user). All users are mapped to themselves,
 * so that files are as outside. Where that cannot be had, exit status 125 and a line that says
 * why; else that of the command. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUES "/dev/mqueue"

enum { CANNOT = 125, MQUEUE_MAGIC = 0x19800202 };

static _Noreturn void cannot(const char *what)
{
    fprintf(stderr, "apart: %s: %s\n", what, strerror(errno));
    exit(CANNOT);
}

/* Maps every user or group of the process to itself. */
static void map_all(pid_t process, const char *map)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, map);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    static const char all[] = "0 0 4294967295\n";
    if (file < 0 || write(file, all, sizeof all - 1) != (ssize_t)sizeof all - 1)
        cannot(path);
    close(file);
}

/* A child that is still root outside: when `unshared` ends it maps the users of its parent. */
static pid_t start_mapper(int unshared[2])
{
    if (pipe2(unshared, O_CLOEXEC) != 0)
        cannot("pipe2");
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        cannot("fork");
    if (child > 0)
        return child;
    char byte;
    close(unshared[1]);
    if (read(unshared[0], &byte, 1) != 1)
        exit(CANNOT); /* the parent has said why */
    map_all(parent, "uid_map");
    map_all(parent, "gid_map");
    exit(0);
}

/* A user namespace of which `owner` is the user who made it. */
static void enter_user_namespace(uid_t owner)
{
    int unshared[2], status;
    pid_t mapper = start_mapper(unshared);
    if (setgroups(0, NULL) != 0 || setresgid(owner, owner, owner) != 0 ||
        setresuid(owner, owner, owner) != 0)
        cannot("become another user");
    if (unshare(CLONE_NEWUSER) != 0)
        cannot("unshare users");
    if (write(unshared[1], "", 1) != 1 || waitpid(mapper, &status, 0) != mapper || status != 0)
        cannot("map the users");
    if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0)
        cannot("become root again");
}

/* Where the queues outside can be listed, those inside are listed in their place: who looks there
 * for queues (tests/leftovers, clientk doctor) would else see those of other tests. */
static void list_own_queues(void)
{
    struct statfs listing;
    if (statfs(QUEUES, &listing) == 0 && listing.f_type == MQUEUE_MAGIC &&
        mount("none", QUEUES, "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        cannot("mount " QUEUES);
}

static void enter_namespaces(void)
{
    if (unshare(CLONE_NEWIPC | CLONE_NEWNS) != 0)
        cannot("unshare queues and mounts");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0)
        cannot("mount /dev/shm");
    list_own_queues();
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: apart UID COMMAND...\n", stderr);
        return 2;
    }
    uid_t owner = (uid_t)strtoul(argv[1], NULL, 10);
    if (owner != 0)
        enter_user_namespace(owner);
    enter_namespaces();
    execvp(argv[2], argv + 2);
    cannot(argv[2]);
}
