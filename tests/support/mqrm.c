/*
 * mqrm NAME...: removes POSIX message queues, for the shell, which has no command for it. A queue
 * that is not there is no error. Exits 1 if one could not be removed, 2 on wrong usage.
 */
#include <errno.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: mqrm /NAME...\n");
        return 2;
    }
    int exit_status = 0;
    for (int i = 1; i < argc; i++) {
        if (mq_unlink(argv[i]) != 0 && errno != ENOENT) {
            fprintf(stderr, "mqrm: %s: %s\n", argv[i], strerror(errno));
            exit_status = 1;
        }
    }
    return exit_status;
}
