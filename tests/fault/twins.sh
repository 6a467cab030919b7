#!/bin/bash
# Copies of a key while the first one is unconfirmed: on the same worker, on another, on another
# relay; and relays that stand still for longer than their session (faults 7 and 20).

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

STILL_SESSION=9

configure() {
  FAULT_BROKER=${FAULT_PORTS[$1]} fault_head
  fault_route one "queue: one.work"
  fault_route many "queue: many.work" "workers: 4"
}

# One route and its session: long enough to be held up within a call to the store.
configure_still() {
  FAULT_SESSION=${STILL_SESSION}s FAULT_TIMEOUT=2900ms FAULT_BROKER=${FAULT_PORTS[near]} fault_head
  fault_route one "queue: one.work"
}

load() {
  rig_load --queue "$1.in" --count "$2" --duplicates 50 --pattern burst --prefix "$3" >/dev/null
}

in_total() {
  rig_wait_until "[ \"\$(rig_queue_total one.in)\" = $1 ]" 40 && return 0
  echo "one.in has $(rig_queue_total one.in)"
  return 1
}

# So many relays consume.
consumers_are() {
  rig_wait_until "[ \"\$(rig_queue_consumers one.in)\" = $1 ]" 60
}

command_waits() {
  rig_redis_cli client list | grep "name=onlyonce" | grep -q "flags=[a-zA-Z]*b"
}

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy far "$RABBITMQ_NODE_PORT"
fault_proxy near "$RABBITMQ_NODE_PORT"
configure far >"$CONFIG"
FAULT_HEARTBEAT=60s configure near >"$RIG_DIR/near.yaml" # which is cut off for longer than usual ones take
configure_still >"$RIG_DIR/still.yaml"
FAULT_HEARTBEAT=1s configure near >"$RIG_DIR/short.yaml"

# ---- 7: the same worker, and another one, 300 ms away from the broker ----

rig_relay_start far "$CONFIG"
rig_relay_ready far one.in
rig_relay_ready far many.in
fault_tell far "delay 300"
load one 300 same-
load many 300 other-
rig_check "a worker gets copies while the first is unconfirmed: all arrives" fault_arrived one 300
rig_check "four workers do: all arrives" fault_arrived many 300
fault_tell far pass
rig_check "four workers: each once, none in doubt" rig_account --idle 300 --work many.work \
  --in many.in --park many.in.parked --count 300 --prefix other- --max-parked 0 --max-marked 0
rig_check "one worker: each once, none in doubt" fault_in_order far one 300 same- --max-marked 0

# ---- 7: another relay ----

# near_claims ID : the near relay has claimed the message, and its copy, which takes 3 s, is on its way for ever.
near_claims() {
  rig_relay_start near "$RIG_DIR/near.yaml"
  rig_relay_ready near one.in
  fault_tell near "delay 3000"
  rig_post --queue one.in --message-id "$1"
  rig_wait_until "fault_record_is one $1 P" 30
  fault_tell near mute
  rig_relay_start far "$CONFIG"
  consumers_are 2
  rig_post --queue one.in --message-id "$1" --count 4
}

near_claims wait
rig_check "another relay meets a claim: it waits, at little cost" fault_is_calm far 5 1
rig_check "and forwards nothing" [ "$(rig_queue_depth one.work)" = 0 ]
rig_check "and acknowledges nothing" in_total 5
fault_tell near pass
rig_check "the first is confirmed: the others are dropped" in_total 0
rig_check "it arrived once" rig_takes one.work 1 '.[0].message_id == "wait"'
rig_check "and in no doubt" [ "$(rig_queue_depth one.work)" = 0 ]
rig_relay_stop near
rig_relay_stop far

near_claims fail
rig_relay_kill near
rig_check "the first relay dies: another copy goes" rig_wait_depth one.work 1 40
fault_tell near cut
fault_tell near pass
rig_check "the others are dropped" in_total 0
rig_take one.work >"$RIG_DIR/taken.json"
rig_check "all but one of its copies are marked" jq -es \
  'map(select(.headers["x-onlyonce-in-doubt"] != true)) | length <= 1' "$RIG_DIR/taken.json"
rig_check "no more than two" [ "$(wc -l <"$RIG_DIR/taken.json")" -le 2 ]
rig_relay_stop far

# ---- 20: a relay that stands still for longer than its session ----

# Claimed, and not yet published: the relay stands still inside its call to the store.
stands_still_after_claim() {
  rig_relay_start near "$RIG_DIR/still.yaml"
  rig_relay_ready near one.in
  fault_freeze_renewed near $STILL_SESSION
  rig_post --queue one.in --message-id "$1"
  rig_redis_cli client pause 30000 write >/dev/null
  rig_relay_signal near CONT
  rig_wait_until command_waits 10
  rig_relay_signal near STOP
  rig_redis_cli client unpause >/dev/null
  rig_wait_until "fault_record_is one $1 P" 5 && [ "$(rig_queue_depth one.work)" = 0 ]
}

for try in 1 2 3 4 5; do
  stands_still_after_claim "still-$try" && break
  rig_relay_signal near CONT
  rig_takes one.work 1 true >/dev/null
  rig_relay_stop near
  [ $try -lt 5 ] || rig_die "a relay stands still after its claim"
done
rig_relay_start far "$CONFIG"
consumers_are 2
rig_relay_signal near STOP
# One to each relay.
rig_post --queue one.in --message-id "still-$try" --count 2
rig_check "a relay stands still after its claim: another one takes over" rig_wait_depth one.work 1 40
rig_relay_signal near CONT
rig_check "it comes back: all is settled" in_total 0
rig_check "it does not publish what it had claimed" rig_takes one.work 1 \
  '.[0].headers["x-onlyonce-in-doubt"] == true'
rig_check "not even later" [ "$(rig_queue_depth one.work)" = 0 ]
rig_check "no claim is left" fault_none_pending one

rig_relay_stop near
rig_relay_start near "$RIG_DIR/near.yaml"
consumers_are 2
rig_load --queue one.in --count 4000 --rate 800 --duplicates 30 --prefix both- >/dev/null &
loader=$!
for name in near far; do
  sleep 0.5
  rig_relay_signal $name STOP
  sleep 4
  rig_relay_signal $name CONT
done
wait $loader
rig_check "two relays stand still in turn, under load: all arrives" fault_arrived one 4000 60
rig_check "and is acknowledged" in_total 0
rig_check "one of the two ends" rig_relay_stop near
rig_check "none is missing, and none twice and unmarked" fault_in_order far one 4000 both-

# With a heartbeat of a second, the broker gives up both of its connections meanwhile.
rig_relay_start short "$RIG_DIR/short.yaml"
rig_relay_ready short one.in
rig_relay_start far "$CONFIG"
consumers_are 2
rig_load --queue one.in --count 3000 --rate 800 --duplicates 30 --prefix short- >/dev/null &
loader=$!
sleep 0.5
rig_relay_signal short STOP
sleep 5
rig_relay_signal short CONT
wait $loader
rig_check "a relay stands still until the broker gives it up, too: all arrives" \
  fault_arrived one 3000 60
rig_check "and is acknowledged" in_total 0
rig_check "it ends" rig_relay_stop short
rig_check "none is missing, and none twice and unmarked" fault_in_order far one 3000 short-
