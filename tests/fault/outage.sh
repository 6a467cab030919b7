#!/bin/bash
# Outages that last: what they cost the messages of a quorum queue in deliveries (fault 12), an
# alarm of the broker (fault 27), and what is held for longer than hold_limit.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

COUNT=100
ALARM=6
if fault_long; then
  ALARM=60
fi

# load ROUTE PREFIX
load() {
  rig_load --queue "$1.in" --count $COUNT --prefix "$2" >/dev/null
}

consumers_are() {
  rig_wait_until "[ \"\$(rig_queue_consumers $1.in)\" = $2 ]" "${3:-40}" && return 0
  echo "$1.in has $(rig_queue_consumers "$1.in") consumers"
  return 1
}

in_total() {
  rig_wait_until "[ \"\$(rig_queue_total $1.in)\" = $2 ]" 40 && return 0
  echo "$1.in has $(rig_queue_total "$1.in")"
  return 1
}

# How often the messages of an inbound queue were delivered in vain is in all cases one of these.
# They are put back, which counts, too.
deliveries_are() {
  rig_wait_depth "$1.in" $COUNT 20 && rig_take "$1.in" --count $COUNT --settle requeue \
    >"$RIG_DIR/taken.json" || return 1
  jq -rs "map(.headers[\"x-delivery-count\"] // 0) | group_by(.) |
    map(\"\(length) times \(.[0])\") | .[]" "$RIG_DIR/taken.json"
  jq -es "length == $COUNT and all((.headers[\"x-delivery-count\"] // 0) | $2)" "$RIG_DIR/taken.json"
}

alarm() {
  rig_rabbitctl -q set_vm_memory_high_watermark 0.00001
}

no_alarm() {
  rig_rabbitctl -q set_vm_memory_high_watermark 0.4
}

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy far "$RABBITMQ_NODE_PORT"
fault_proxy store "$RIG_REDIS_PORT"
rig_queues declare full.work x-max-length=1 x-overflow=reject-publish || rig_die "full.work is made"
{
  FAULT_BROKER=${FAULT_PORTS[far]} FAULT_STORE=${FAULT_PORTS[store]} fault_head
  fault_route burn "queue: burn.work"
  fault_route full "queue: full.work, declare: false"
  fault_route limit "queue: limit.work" "hold_limit: 3s"
  fault_route alarm "queue: alarm.work, unconfirmed: 10"
} >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in burn full limit alarm; do
  rig_relay_ready relay $name.in
done

# ---- 12: a delivery limit is not used up ----

fault_tell store mute
load burn store-
load limit store-
rig_check "the store is silent: held for longer than hold_limit, all is given back" \
  fault_is_said relay "held for longer than hold_limit.*route=limit"
rig_check "that route waits without a consumer" consumers_are limit 0
sleep 4
rig_check "it is given back once" [ "$(fault_said relay 'held for longer.*route=limit')" = 1 ]
rig_check "and has still no consumer" consumers_are limit 0
rig_check "its messages came once" deliveries_are limit "(. == 1)"
fault_forget relay
rig_relay_kill relay
rig_check "others stay with the relay: they are back once, when it is killed" \
  deliveries_are burn "(. == 1)"

rig_relay_start relay "$CONFIG"
for name in burn full limit alarm; do
  fault_is_said relay "cannot connect yet.*route=$name"
done
sleep 1
rig_check "started while the store is away: it waits, cheaply and quietly" fault_is_calm relay 4 0
rig_check "has no consumer" consumers_are burn 0
rig_check "and its messages are not delivered" deliveries_are burn "(. == 2)"
fault_tell store cut
fault_tell store pass
rig_check "the store is there: all arrives" fault_arrived burn $COUNT
rig_check "what was given back, too" fault_arrived limit $COUNT
for name in burn limit; do
  rig_check "$name: each once, none in doubt" rig_account --idle 300 --work $name.work --in $name.in \
    --park $name.in.parked --count $COUNT --prefix store- --max-parked 0 --max-marked 0 --idle 300
done

# A broker that comes and goes while the store is away: nothing is taken in between.
load full full-
fault_forget relay
fault_tell store mute
load burn goes-
rig_check "the store is silent again: said" fault_is_said relay "connection lost.*route=burn link=store"
for _ in 1 2 3; do
  fault_tell far refuse
  sleep 1
  fault_tell far pass
  sleep 1
done
rig_check "the broker goes thrice while the store is away: its messages came once" \
  deliveries_are burn "(. <= 1)"
fault_tell store cut
fault_tell store pass
rig_check "both are there: all arrives" fault_arrived burn $COUNT
rig_check "each once, none in doubt" rig_account --idle 300 --work burn.work --in burn.in \
  --park burn.in.parked --count $COUNT --prefix goes- --max-parked 0 --max-marked 0 --idle 300

# The work queue is full all the time.
consumers_are full 1 60
rig_take full.work >"$RIG_DIR/full.json"
sleep 5
rig_check "the work queue is full: waiting is cheap, and quiet" fault_is_calm relay 4 1
rig_relay_stop relay
rig_take full.in --count "$(rig_queue_depth full.in)" --settle requeue >"$RIG_DIR/taken.json"
rig_check "its messages came as often as they had to: for each connection" jq -es \
  'all((.headers["x-delivery-count"] // 0) <= 5)' "$RIG_DIR/taken.json"

# ---- 27: an alarm ----

rig_relay_start relay "$CONFIG"
rig_relay_ready relay alarm.in
rig_load --queue alarm.in --count 50 --prefix known- >/dev/null
rig_check "what is known before the alarm" fault_arrived alarm 50
fault_forget relay
# What comes while it stands still is delivered to it, and then there is an alarm.
rig_relay_signal relay STOP
load alarm new-
rig_load --queue alarm.in --count 50 --prefix known- >/dev/null
alarm
rig_relay_signal relay CONT
began=$SECONDS
rig_check "an alarm: said" fault_is_said relay "the broker blocks publishing.*route=alarm"
rig_check "duplicates go on being acknowledged" in_total alarm $COUNT
rig_check "waiting is cheap, and quiet" fault_is_calm relay 4 0
sleep $((began + ALARM > SECONDS ? began + ALARM - SECONDS : 0))
rig_check "after $ALARM s, new messages still wait" in_total alarm $COUNT
rig_check "no connection was given up" [ "$(fault_said relay 'connection lost')" = 0 ]
no_alarm
rig_check "it is over: all arrives" fault_arrived alarm $((COUNT + 50))
rig_check "said once" [ "$(fault_said relay 'takes messages again.*route=alarm')" = 1 ]
rig_check "nothing is left" in_total alarm 0
rig_take alarm.work >"$RIG_DIR/taken.json"
rig_check "nothing was published again" jq -es 'length == 150 and
  (map(.message_id) | unique | length) == 150 and all(.headers | has("x-onlyonce-in-doubt") | not)' \
  "$RIG_DIR/taken.json"
rig_check "SIGTERM ends it" rig_relay_stop relay
