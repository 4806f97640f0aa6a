#!/usr/bin/env bash
# kresp_auth: with a password nobody does anything without it.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp --requirepass secret
check_equal '-NOAUTH Authentication required.
-NOAUTH Authentication required.
-WRONGPASS invalid username-password pair or user is disabled.
-WRONGPASS invalid username-password pair or user is disabled.
-WRONGPASS invalid username-password pair or user is disabled.
-NOAUTH Authentication required.
+OK
+OK' "$(ask 'get a' 'foo' 'auth wrong' 'auth default secre' 'auth other secret' 'ping' \
    'auth secret' 'set a 1' |
    sed 's/^-ERR unknown command.*/-NOAUTH Authentication required./')" \
    "commands need the password first"
hello_refused='-NOAUTH HELLO must be called with the client already authenticated, '
hello_refused+='otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate '
hello_refused+='the client and select the RESP protocol version at the same time'
check_equal "$hello_refused" \
    "$(ask 'hello 3')" "so does HELLO"
check_match '^%7 ' "$(ask 'hello 3 auth default secret setname me')" "which may bring it along"
check_equal '-NOAUTH Authentication required.' "$(ask 'auth secret' 'reset' 'get a' | tail -n 1)" \
    "RESET forgets it"
check_match 'Protocol error: unauthenticated multibulk length' \
    "$(ask 'mget a b c d e f g h i j k')" "strangers get less memory"
check_status 0 "kresp ends" stop_kresp
printf 'from a file\n' >"$MQKV_TEST_DIR/password"
start_kresp --requirepass-file "$MQKV_TEST_DIR/password"
check_equal '+OK
$1 1' "$(ask 'auth "from a file"' 'get a')" "the password may be in a file"
check_equal '-NOAUTH Authentication required.' "$(ask 'get a')" "and is asked for"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
