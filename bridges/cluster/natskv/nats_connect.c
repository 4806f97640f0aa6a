#include "bridges/cluster/natskv/nats_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"

#define MAX_SERVERS      64
#define CONNECT_MS       5000
#define RECONNECT_MS     200
#define PING_MS          1000 /* a server that has stopped is noticed after three of them */
#define PINGS_OUT        2
#define WRITE_MS         5000
#define PASSWORD_BYTES   256
#define PUBLIC_KEY_BYTES 64

/* Cuts up the comma-separated list in `text`, and returns the number of its parts. */
static int split(char *text, const char *urls[MAX_SERVERS])
{
    int count = 0;
    char *rest = NULL;
    for (char *url = strtok_r(text, ", ", &rest); url && count < MAX_SERVERS;
         url = strtok_r(NULL, ", ", &rest))
        urls[count++] = url;
    return count;
}

/* Returns the host of "nats://user:password@host:port", which it cuts out of `url`. */
static char *host_of(char *url)
{
    char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    char *at = strrchr(host, '@');
    host = at ? at + 1 : host;
    if (*host == '[') {
        host++;
        host[strcspn(host, "]")] = '\0';
    } else {
        host[strcspn(host, ":/")] = '\0';
    }
    return host;
}

const char *nats_urls_shown(const char *urls, char text[NATS_SHOWN_BYTES])
{
    size_t at = 0;
    while (*urls) {
        size_t size = strcspn(urls, ","), scheme = 0;
        const char *host = memrchr(urls, '@', size);
        const char *colon = memmem(urls, size, "://", 3);
        if (host && colon && colon < host)
            scheme = (size_t)(colon - urls) + 3;
        host = host ? host + 1 : urls;
        int written = snprintf(text + at, NATS_SHOWN_BYTES - at, "%s%.*s%.*s", at > 0 ? "," : "",
                               (int)scheme, urls, (int)(urls + size - host), host);
        at += (size_t)written;
        if (at >= NATS_SHOWN_BYTES)
            return text;
        urls += size + (urls[size] == ',');
    }
    text[at] = '\0';
    return text;
}

void nats_connect_prepare(const struct natskv_options *options)
{
    char *text = strdup(options->urls);
    char *rest = NULL;
    for (char *url = text ? strtok_r(text, ", ", &rest) : NULL; url;
         url = strtok_r(NULL, ", ", &rest)) {
        struct addrinfo *found = NULL;
        if (getaddrinfo(host_of(url), "4222", NULL, &found) == 0)
            freeaddrinfo(found);
    }
    free(text);
    natsOptions *tls = NULL; /* so that the library loads what TLS needs */
    if (natsOptions_Create(&tls) == NATS_OK)
        natsOptions_SetSecure(tls, true);
    natsOptions_Destroy(tls);
}

/* Options -------------------------------------------------------------------------------------- */

static enum kv_status read_nats_password(const char *file, char password[PASSWORD_BYTES],
                                         struct kv_error *error)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, password, PASSWORD_BYTES - 1) : -1;
    int problem = errno;
    if (fd >= 0)
        close(fd);
    errno = problem;
    if (size < 0)
        return kv_error_set_errno(error, "--nats-password-file %s", file);
    password[size] = '\0';
    password[strcspn(password, "\r\n")] = '\0';
    if (password[0] == '\0')
        return kv_error_set(error, KV_USAGE, "--nats-password-file %s: its first line is empty",
                            file);
    return KV_OK;
}

static enum kv_status fail_option(const char *option, const char *value, natsStatus status,
                                  struct kv_error *error)
{
    if (status == NATS_OK)
        return KV_OK;
    return kv_error_set(error, status == NATS_NO_MEMORY ? KV_NO_MEMORY : KV_USAGE, "%s %s: %s",
                        option, value, natsStatus_GetText(status));
}

static enum kv_status set_identity(natsOptions *nats, const struct natskv_options *options,
                                   struct kv_error *error)
{
    char password[PASSWORD_BYTES] = "", public_key[PUBLIC_KEY_BYTES];
    enum kv_status status = KV_OK;
    if (options->credentials)
        status = fail_option(
            "--nats-creds", options->credentials,
            natsOptions_SetUserCredentialsFromFiles(nats, options->credentials, NULL), error);
    if (status == KV_OK && options->nkey) {
        size_t size = strcspn(options->nkey, ":");
        if (size == 0 || size >= sizeof public_key || options->nkey[size] != ':')
            return kv_error_set(error, KV_USAGE, "--nats-nkey: '%s' is not PUBLICKEY:FILE",
                                options->nkey);
        memcpy(public_key, options->nkey, size);
        public_key[size] = '\0';
        status = fail_option(
            "--nats-nkey", options->nkey,
            natsOptions_SetNKeyFromSeed(nats, public_key, options->nkey + size + 1), error);
    }
    if (status == KV_OK && options->user) {
        if (options->password_file)
            status = read_nats_password(options->password_file, password, error);
        if (status == KV_OK)
            status = fail_option("--nats-user", options->user,
                                 natsOptions_SetUserInfo(nats, options->user, password), error);
        explicit_bzero(password, sizeof password);
    }
    return status;
}

static enum kv_status set_tls(natsOptions *nats, const struct natskv_options *options,
                              struct kv_error *error)
{
    enum kv_status status = KV_OK;
    if (!options->ca && !options->certificate && !strstr(options->urls, "tls://"))
        return KV_OK;
    status = fail_option("TLS", "", natsOptions_SetSecure(nats, true), error);
    if (status == KV_OK && options->ca)
        status = fail_option("--nats-ca", options->ca,
                             natsOptions_LoadCATrustedCertificates(nats, options->ca), error);
    if (status == KV_OK && options->certificate)
        status = fail_option(
            "--nats-cert", options->certificate,
            natsOptions_LoadCertificatesChain(nats, options->certificate, options->key), error);
    return status;
}

static natsStatus set_patience(natsOptions *nats)
{
    natsStatus status = natsOptions_SetTimeout(nats, CONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetMaxReconnect(nats, INT_MAX);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectWait(nats, RECONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectJitter(nats, RECONNECT_MS / 2, RECONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetPingInterval(nats, PING_MS);
    if (status == NATS_OK)
        status = natsOptions_SetMaxPingsOut(nats, PINGS_OUT);
    if (status == NATS_OK)
        status = natsOptions_SetWriteDeadline(nats, WRITE_MS);
    if (status == NATS_OK)
        status = natsOptions_SetSendAsap(nats, true);
    return status;
}

static enum kv_status set_all(natsOptions *nats, const struct natskv_options *options,
                              const struct nats_events *events, struct kv_error *error)
{
    const char *urls[MAX_SERVERS];
    char *text = strdup(options->urls);
    if (!text)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    int count = split(text, urls);
    natsStatus result = natsOptions_SetServers(nats, urls, count);
    free(text);
    if (count == 0)
        return kv_error_set(error, KV_USAGE, "--nats: '%s' names no server", options->urls);
    char shown[NATS_SHOWN_BYTES];
    enum kv_status status =
        fail_option("--nats", nats_urls_shown(options->urls, shown), result, error);
    if (status != KV_OK)
        return status;
    result = set_patience(nats);
    if (result == NATS_OK)
        result = natsOptions_SetName(nats, "serverk");
    if (result == NATS_OK)
        result = natsOptions_SetDisconnectedCB(nats, events->lost, events->context);
    if (result == NATS_OK)
        result = natsOptions_SetReconnectedCB(nats, events->found_again, events->context);
    if (result == NATS_OK)
        result = natsOptions_SetClosedCB(nats, events->closed, events->context);
    if (result != NATS_OK)
        return kv_error_set(error, KV_NO_MEMORY, "nats: %s", natsStatus_GetText(result));
    status = set_identity(nats, options, error);
    return status == KV_OK ? set_tls(nats, options, error) : status;
}

/* Connecting ----------------------------------------------------------------------------------- */

static enum kv_status explain_connect(const char *given, natsStatus result, struct kv_error *error)
{
    char urls[NATS_SHOWN_BYTES];
    nats_urls_shown(given, urls);
    const char *detail = nats_GetLastError(NULL);
    switch (result) {
    case NATS_OK:
        return KV_OK;
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED:
        return kv_error_set(error, KV_DENIED,
                            "the NATS servers %s refuse these credentials (--nats-creds, "
                            "--nats-nkey, --nats-user): %s",
                            urls, detail);
    case NATS_SSL_ERROR:
    case NATS_SECURE_CONNECTION_REQUIRED:
    case NATS_SECURE_CONNECTION_WANTED:
        return kv_error_set(error, KV_DENIED, "TLS with the NATS servers %s failed: %s", urls,
                            detail);
    case NATS_NO_MEMORY:
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    default:
        return kv_error_set(error, KV_NO_SERVER, "no NATS server answers at %s (%s)", urls,
                            detail && *detail ? detail : natsStatus_GetText(result));
    }
}

enum kv_status nats_connect(const struct natskv_options *options, const struct nats_events *events,
                            natsConnection **connection, struct kv_error *error)
{
    natsOptions *nats = NULL;
    if (natsOptions_Create(&nats) != NATS_OK)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    enum kv_status status = set_all(nats, options, events, error);
    if (status == KV_OK)
        status = explain_connect(options->urls, natsConnection_Connect(connection, nats), error);
    natsOptions_Destroy(nats);
    return status;
}
