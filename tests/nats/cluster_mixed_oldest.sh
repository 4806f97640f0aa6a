#!/usr/bin/env bash
# cluster_mixed_oldest: puts, deletes, expiry and kills on the oldest server lose nothing
nats_version=2.12.2
NATS_SERVER=${NATS_SERVER_OLDEST:-}
. "$(dirname "$0")/mixed.sh"
