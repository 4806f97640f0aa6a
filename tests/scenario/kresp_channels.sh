#!/usr/bin/env bash
# kresp_channels: messages reach all subscribers of a kresp, each publisher's in order, and who does
# not read, or subscribes without end, harms nobody else.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp --threads 3 --buffers 96M
"$redis_tests/channel_clients.py" "$kresp_socket" "$kresp_log" || failed_checks=1
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
