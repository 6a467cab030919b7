#!/bin/bash
# Copies that the broker does not take, in bulk: returned, nacked, by one of several queues; and
# headers that would hide it (faults 4, 5 and 6). Single messages: tests/integration/refused.sh.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

load() {
  rig_load --queue "$1.in" --count "$2" --duplicates 30 --prefix "$1-" >/dev/null
}

said_times() {
  [ "$(fault_said relay "$1")" = "$2" ] || {
    fault_said relay "$1"
    return 1
  }
}

has_none() {
  [ -z "$(rig_onlyonce list -c "$CONFIG" "$1" --state "$2")" ]
}

has_some() {
  ! has_none "$1" "$2"
}

# Takes what is there, again and again, until COUNT messages were taken: the queue is never long.
drain_slowly() {
  local queue=$1 count=$2 taken=0 got
  local deadline=$((SECONDS + 120))
  while [ $taken -lt "$count" ] && [ $SECONDS -lt $deadline ]; do
    got=$(rig_take "$queue" | tee -a "$RIG_DIR/$queue.taken" | wc -l)
    taken=$((taken + got))
    sleep 0.1
  done
  rig_take "$queue" --count 1 --wait 1500 >>"$RIG_DIR/$queue.taken" 2>/dev/null
  echo "$taken of $count"
  [ $taken = "$count" ]
}

# taken_are QUEUE FILTER : the filter, given all that drain_slowly took, is true.
taken_are() {
  jq -es "$2" "$RIG_DIR/$1.taken" || {
    jq -cs 'group_by(.message_id) | map(select(length > 1)) | .[:3]' "$RIG_DIR/$1.taken"
    return 1
  }
}

rig_redis_start --appendonly no
fault_rabbit_start
{
  rig_queues declare full.work x-max-length=100 x-overflow=reject-publish &&
    rig_queues exchange fan.out fanout && rig_queues declare fan.work &&
    rig_queues declare fan.full x-max-length=20 x-overflow=reject-publish &&
    rig_queues bind fan.work fan.out x && rig_queues bind fan.full fan.out x &&
    rig_queues exchange part.out direct && rig_queues declare part.work &&
    rig_queues bind part.work part.out good && rig_queues declare part.in &&
    rig_queues exchange part direct && rig_queues bind part.in part good &&
    rig_queues bind part.in part bad && rig_queues declare other
} || rig_die "the queues are made"
{
  fault_head
  FAULT_QUEUES=classic
  fault_route gone "queue: gone.work"
  fault_route full "queue: full.work, declare: false, queue_type: quorum" # so that a nack is certain
  fault_route fan "exchange: fan.out"
  fault_route part "exchange: part.out"
  fault_route carbon "queue: carbon.work"
} >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in gone full fan part carbon; do
  rig_relay_ready relay $name.in
done

# ---- 4: unroutable ----

rig_queues delete gone.work
load gone 300
rig_check "the work queue is gone: said" fault_is_said relay "copies are refused.*route=gone.*unroutable"
rig_check "its messages wait, at little cost" fault_is_calm relay 3 1
rig_check "none is forwarded" has_none gone forwarded
rig_queues declare gone.work
rig_check "it is there again: all 300 arrive" fault_arrived gone 300 60
rig_check "it was said once" said_times "copies are refused.*route=gone" 1

# Half of what is in flight comes back; the other half must not be taken for it.
rig_load --exchange part --routing-key good --count 200 --prefix good- >/dev/null &
loader=$!
rig_load --exchange part --routing-key bad --count 200 --prefix bad- >/dev/null
wait $loader
rig_check "of messages in flight, those that can be routed arrive" rig_wait_depth part.work 200 60
rig_check "and the others are parked" rig_wait_depth part.in.parked 200 60
rig_check "each once" rig_account --idle 300 --work part.work --count 200 --prefix good- --max-marked 0
rig_check "and none of them was taken for another" rig_account --idle 300 --work part.in.parked --count 200 \
  --prefix bad- --max-marked 0

# ---- 5: CC and BCC ----

rig_queues delete carbon.work
rig_post --queue carbon.in --message-id c1 --list CC=other \
  --list BCC=other
rig_check "a copy whose work queue is gone, and that has CC: refused all the same" \
  fault_is_said relay "copies are refused.*route=carbon.*unroutable"
rig_queues declare carbon.work
rig_check "it arrives when the work queue is there" rig_takes carbon.work 1 \
  '.[0].message_id == "c1" and (.[0].headers | has("CC") or has("BCC") | not)'
# The producer's own message went there by its CC.
rig_check "and nowhere else" [ "$(rig_queue_depth other)" = 1 ]

# ---- 6: nacked ----

load full 300
rig_check "the work queue is full: said" fault_is_said relay "copies are refused.*route=full.*nacked"
rig_check "all 300 arrive as room is made" drain_slowly full.work 300
rig_check "each once, and none in doubt" taken_are full.work \
  '(map(.message_id) | unique | length == 300) and length == 300 and
   all(.headers | has("x-onlyonce-in-doubt") | not)'
rig_check "it was said once" said_times "copies are refused.*route=full" 1
rig_check "nothing of it is pending" fault_none_pending full

load fan 100
rig_check "one of two queues is full" fault_is_said relay "copies are refused.*route=fan.*nacked"
rig_check "what was nacked is pending" has_some fan pending
rig_queues delete fan.full
rig_check "that one is gone: all is forwarded" rig_wait_until "fault_is_done fan" 60

# ---- all together ----

rig_check "SIGTERM ends it" rig_relay_stop relay
rig_check "to the deleted queue: each once, none in doubt" rig_account --idle 300 --work gone.work --in gone.in \
  --park gone.in.parked --count 300 --prefix gone- --max-parked 0 --max-marked 0
rig_check "to two queues: the other one has what it has twice marked" rig_account --idle 300 --work fan.work \
  --in fan.in --park fan.in.parked --count 100 --prefix fan- --max-parked 0
