#!/usr/bin/env bash
# cluster_login: serverk proves who it is to a NATS server, by password, NKey and credentials file,
# over TLS, also when it connects again; what is wrong is refused at the start, and named
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2
if ! command -v openssl >/dev/null; then
    skip "serverk logs in at a NATS server: openssl, which makes the keys, is not there"
    exit 0
fi

keys() {
    python3 "$library_dir/../nats/nats_keys.py" "$@"
}

# refused TEXT PATTERN OPTION...: serverk does not start with these.
refused() {
    local text=$1 pattern=$2
    shift 2
    check_status 4 "$text is refused" timeout 30 "$server_program" -m "$server_queue" \
        --engine nats --nats "$(nats_urls)" --bucket "$bucket" "$@"
    check_match "$pattern" "$errors" "and named"
}

# serves TEXT OPTION...: with these it serves, also after the NATS server has been killed.
serves() {
    local text=$1
    shift
    start_server "$@"
    check_status 0 "$text: put" client put name Ada
    signal_nats KILL 0
    rm n0.log
    start_nats 0
    check_status 0 "and after another start of the NATS server" client --timeout 20000 put name Bob
    check_equal Bob "$(client get name)" "get"
    stop_server
    signal_nats KILL 0
    rm -rf n0 n0.log
}

# A password ---------------------------------------------------------------------------------------

write_nats_configs 1 'authorization { user: serverk, password: "right" }'
start_nats 0
echo right >password
echo wrong >password.wrong
refused "nobody" "Authorization" --shards 1
refused "a wrong password" "Authorization" --nats-user serverk --nats-password-file password.wrong
serves "user and password" --nats-user serverk --nats-password-file "$PWD/password"

# An NKey ------------------------------------------------------------------------------------------

public=$(keys nkey seed)
other=$(keys nkey seed.other)
write_nats_configs 1 "authorization { users: [ { nkey: $public } ] }"
start_nats 0
refused "another NKey" "Authorization" --nats-nkey "$other:$PWD/seed.other"
serves "an NKey" --nats-nkey "$public:$PWD/seed"

# Credentials --------------------------------------------------------------------------------------

keys jwt . >operator.conf
mapfile -t operator_lines <operator.conf
write_nats_configs 1 "${operator_lines[@]}"
start_nats 0
refused "nobody" "Authorization" --shards 1
serves "a credentials file" --nats-creds "$PWD/user.creds"

# TLS ----------------------------------------------------------------------------------------------

# certificate NAME SUBJECT_ALTERNATIVE: by the authority in ca.pem.
certificate() {
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out "$1.pem" \
        -extfile <(echo "subjectAltName=$2") 2>/dev/null
}
for authority in ca stranger; do
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$authority" \
        -keyout "$authority.key" -out "$authority.pem" 2>/dev/null
done
certificate server IP:127.0.0.1
certificate elsewhere DNS:elsewhere.example
certificate client DNS:client.example

write_nats_configs 1 "tls { cert_file: \"$PWD/server.pem\", key_file: \"$PWD/server.key\"," \
    "  ca_file: \"$PWD/ca.pem\", verify: true }"
start_nats 0
refused "an authority that did not sign" "TLS|SSL|certificate" --nats-ca stranger.pem \
    --nats-cert client.pem --nats-key client.key
refused "no certificate of its own" "TLS|SSL|certificate|closed|server" --nats-ca ca.pem
serves "TLS with certificates of both sides" --nats-ca "$PWD/ca.pem" \
    --nats-cert "$PWD/client.pem" --nats-key "$PWD/client.key"

write_nats_configs 1 "tls { cert_file: \"$PWD/elsewhere.pem\", key_file: \"$PWD/elsewhere.key\" }"
start_nats 0
refused "the certificate of another host" "TLS|SSL|certificate" --nats-ca ca.pem
signal_nats KILL 0 || true
