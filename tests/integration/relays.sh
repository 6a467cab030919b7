#!/bin/bash
# Two relays that share one queue; a restart; kill -9 with messages in flight; the end on SIGTERM;
# and the order of arrival.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

configure() {
  RIG_SESSION=3s rig_config_head
  cat <<'END'
    timeout: 900ms
routes:
  - name: shared
    from: {queue: shared.in, prefetch: 200}
    to: {queue: shared.work}
    key: [message_id]
    window: 24h
END
}

# in_place COUNT PREFIX OPTION... : all ids are in the work queue, and the inbound one is empty.
in_place() {
  local count=$1 prefix=$2
  shift 2
  rig_wait_depth shared.work "$count" 60 && rig_wait_empty shared.in 30 &&
    rig_account --work shared.work --in shared.in --park shared.in.parked --count "$count" \
      --prefix "$prefix" --max-parked 0 "$@"
}

# The number in account's last line.
accounted() {
  sed -n "s/^account .*\b$1=\([0-9]*\).*/\1/p" "$RIG_DIR/check.out"
}

none_pending() {
  rig_onlyonce list -c "$CONFIG" shared --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
}

no_session() {
  rig_redis_cli --scan --pattern "onlyonce:session:*" >"$RIG_DIR/sessions" && [ ! -s "$RIG_DIR/sessions" ]
}

# forwarded NAME : by all relays of that name that have ended.
forwarded() {
  sed -n 's/.*msg="route ends".* forwarded=\([0-9]*\) .*/\1/p' "$RIG_DIR/$1.log" | awk '{ n += $1 } END { print n + 0 }'
}

is_above() {
  [ "$1" -gt "$2" ]
}

stops_quickly() {
  local before
  before=$(date +%s%3N)
  rig_relay_stop "$1" && is_above 5000 $(($(date +%s%3N) - before)) # for confirms it would wait for 8 s
}

rig_redis_start --appendonly no
rig_rabbit_start
configure >"$CONFIG"

# ---- order ----

rig_relay_start one "$CONFIG"
rig_relay_ready one shared.in
rig_load --queue shared.in --count 5000 --prefix order- >/dev/null
rig_check "5000 messages arrive, each once" in_place 5000 order- --max-marked 0
rig_check "one worker keeps their order" [ "$(accounted reordered)" = 0 ]

# ---- SIGTERM when idle ----

rig_check "SIGTERM ends an idle relay at once, with 0" stops_quickly one
rig_check "and leaves no pending record" none_pending
rig_check "and no session" no_session

# ---- two relays, and a restart in between ----

rig_relay_start one "$CONFIG"
rig_relay_start two "$CONFIG"
rig_wait_until "[ \"\$(rig_queue_consumers shared.in)\" = 2 ]" 60 || rig_die "two relays consume"
earlier=$(forwarded one)
rig_load --queue shared.in --count 4000 --duplicates 33 --prefix two- >/dev/null &
loader=$!
rig_wait_depth shared.work 800 20
rig_check "one of two relays stops under load" rig_relay_stop one
rig_relay_start one "$CONFIG"
wait $loader || rig_fail "the load was taken"
rig_check "two relays, one of them restarted: each of 4000 arrives once" \
  in_place 4000 two- --max-marked 0
rig_check "the one relay ends" rig_relay_stop one
rig_check "the other relay ends" rig_relay_stop two
rig_check "the one had its share" is_above "$(forwarded one)" "$earlier"
rig_check "the other had its share" is_above "$(forwarded two)" 0
rig_check "nothing is pending" none_pending

# ---- a restart remembers ----

rig_relay_start one "$CONFIG"
rig_load --queue shared.in --count 4000 --prefix two- >/dev/null
rig_check "after a restart, 4000 known ids are all dropped" rig_wait_empty shared.in 60
rig_load --queue shared.in --count 1 --prefix fence- >/dev/null
rig_check "and a new one passes" in_place 1 fence- --max-marked 0

# ---- kill -9 with messages in flight ----

rig_load --queue shared.in --count 3000 --duplicates 33 --rate 1500 --prefix kill- >/dev/null &
loader=$!
rig_wait_depth shared.work 500 20
rig_relay_kill one
rig_check "killed, it leaves messages in the inbound queue" rig_wait_depth shared.in 1 10
rig_relay_start one "$CONFIG"
wait $loader || rig_fail "the load was taken"
rig_check "killed and started again: none of 3000 is lost, none comes twice unmarked" \
  in_place 3000 kill-
rig_check "and nothing is pending" rig_wait_until none_pending 30
