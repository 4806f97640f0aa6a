#!/usr/bin/env bash
# cluster_mixed_newest: puts, deletes, expiry and kills on the newest server lose nothing
nats_version=2.15.2
NATS_SERVER=${NATS_SERVER_NEWEST:-}
. "$(dirname "$0")/mixed.sh"
