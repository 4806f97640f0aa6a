/*
 * listen_socket: the sockets that clients connect to.
 */
#ifndef MQKV_KRESP_BRIDGE_LISTEN_SOCKET_H
#define MQKV_KRESP_BRIDGE_LISTEN_SOCKET_H

#include <stdint.h>
#include <sys/stat.h>

#include "mqkv/error.h"

/* A socket that listens, without blocking. fd -1: none. */
struct listen_socket {
    int fd;
    const char *path; /* NULL: TCP */
    dev_t device;     /* of the path, to know it again */
    ino_t inode;
};

/* A Unix socket at the path, which stays the caller's, with these permissions from the first
 * moment. A socket that a dead process has left there is replaced; KV_BUSY: somebody listens
 * there. */
enum kv_status listen_socket_open_unix(struct listen_socket *listener, const char *path,
                                       mode_t mode, struct kv_error *error);

/* A TCP socket on 127.0.0.1. */
enum kv_status listen_socket_open_tcp(struct listen_socket *listener, uint16_t port,
                                      struct kv_error *error);

/* Closes it, and removes its path, unless another's socket is there by now. */
void listen_socket_close(struct listen_socket *listener);

#endif
