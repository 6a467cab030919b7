#!/bin/bash
# Four workers each for two routes, under load, and through outages: every message is accounted for.
# "scripts/test all" runs it with the thread sanitizer, whose reports are failures.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

COUNT=4000

# A report ends the process, so that it cannot be overlooked.
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy far "$RABBITMQ_NODE_PORT"
fault_proxy store "$RIG_REDIS_PORT"
{
  FAULT_BROKER=${FAULT_PORTS[far]} FAULT_STORE=${FAULT_PORTS[store]} fault_head
  fault_route left "queue: left.work" "workers: 4"
  fault_route right "queue: right.work" "workers: 4"
} >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay left.in
rig_relay_ready relay right.in
rig_load --queue left.in --count $COUNT --rate 1500 --duplicates 30 --prefix left- >/dev/null &
left=$!
rig_load --queue right.in --count $COUNT --rate 1500 --duplicates 30 --prefix right- >/dev/null &
right=$!
rig_wait_depth left.work 500 60
fault_tell far cut
rig_relay_signal relay HUP
rig_wait_depth left.work 1500 60
fault_tell store cut
wait $left $right || rig_fail "the load was taken"
rig_check "eight workers: one route's messages arrive" fault_arrived left $COUNT 90
rig_check "the other's, too" fault_arrived right $COUNT 90
rig_check "one route: none is missing, none twice and unmarked" rig_account --idle 300 --work left.work \
  --in left.in --park left.in.parked --count $COUNT --prefix left- --max-parked 0
rig_check "the other, and the end" fault_in_order relay right $COUNT right-
rig_check "nothing was reported" [ "$(fault_said relay 'ThreadSanitizer')" = 0 ]
