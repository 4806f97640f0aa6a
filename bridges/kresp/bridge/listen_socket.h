/*
 * listen_socket: the sockets that clients connect to.
 */
#ifndef MQKV_KRESP_BRIDGE_LISTEN_SOCKET_H
#define MQKV_KRESP_BRIDGE_LISTEN_SOCKET_H

#include <stdint.h>
#include <sys/stat.h>

#include "mqkv/error.h"

/* A socket that listens, and does not block. fd -1: none. */
struct listen_socket {
    int fd;
    const char *path; /* NULL: TCP */
    dev_t device;     /* device and inode of the path, by which it is known again */
    ino_t inode;
};

/* Opens a Unix socket at the path, which stays the caller's, with these permissions from the first
 * moment. It replaces a socket that a dead process has left there; KV_BUSY: somebody listens
 * there. */
enum kv_status listen_socket_open_unix(struct listen_socket *listener, const char *path,
                                       mode_t mode, struct kv_error *error);

/* Opens a TCP socket on 127.0.0.1. */
enum kv_status listen_socket_open_tcp(struct listen_socket *listener, uint16_t port,
                                      struct kv_error *error);

/* Closes the socket, and removes its path, unless the path is another socket by now. */
void listen_socket_close(struct listen_socket *listener);

#endif
