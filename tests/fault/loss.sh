#!/bin/bash
# Killed at every step of a message's way, and a store whose answers are lost (faults 1 and 2).

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

SESSION=9
COUNT=30
HOLD=30000 # ms that the store holds writes back, unless it is told to go on: longer than the lever takes on a busy machine

# ---- levers ----

store_holds_writes() {
  rig_redis_cli client pause $HOLD write >/dev/null
}

store_goes_on() {
  rig_redis_cli client unpause >/dev/null
}

# A command of the relay's waits in the store.
command_waits() {
  rig_redis_cli client list | grep 'name=onlyonce' | grep -q 'flags=[a-zA-Z]*b'
}

start() {
  rig_relay_start "$1" "$CONFIG"
  rig_relay_ready "$1" loss.in
}

load() {
  rig_load --queue loss.in --count $COUNT --duplicates 20 --pattern at-once --prefix "$1" >/dev/null
}

# The relay stands still while its messages come, and then finds all of them at once, long before its session is to
# be renewed again.
load_at_once() {
  fault_freeze_renewed one $SESSION
  load "$1"
  "${@:2}"
  rig_relay_signal one CONT
}

# ---- frozen at a step; each with a prefix ----

# The claim stands, and its answer did not come: the relay stands still inside that call.
frozen_after_claim() {
  start one
  load_at_once "$1" store_holds_writes
  rig_wait_until command_waits 10
  rig_relay_signal one STOP
  store_goes_on
  rig_wait_until "fault_record_is loss ${1}0 P" 5 && [ "$(rig_queue_depth loss.work)" = 0 ]
}

# The broker reads no more from who publishes, the tools included: so the load comes first.
frozen_after_publish() {
  load "$1"
  rig_rabbitctl -q set_vm_memory_high_watermark 0.00001
  rig_relay_start one "$CONFIG"
  rig_wait_until "fault_record_is loss ${1}$((COUNT - 1)) P" 30 || return 1
  sleep 0.5
}

# Broker and relay are 600 ms apart: after the claim, there is time to stop the store's writing
# before the confirm can be there.
confirmed_but_not_recorded() {
  start one
  load_at_once "$1" fault_tell broker "delay 600"
  rig_wait_until "fault_record_is loss ${1}0 P" 10
  store_holds_writes
  rig_wait_until "[ \"\$(rig_queue_depth loss.work)\" -ge $COUNT ]" 10
  rig_wait_until command_waits 5 && fault_record_is loss "${1}0" P
}

frozen_after_confirm() {
  confirmed_but_not_recorded "$1"
}

frozen_after_record() {
  confirmed_but_not_recorded "$1" || return 1
  rig_relay_signal one STOP
  store_goes_on
  rig_wait_until "fault_record_is loss ${1}$((COUNT - 1)) F" 5
}

undo() {
  store_goes_on
  fault_tell broker pass
  rig_rabbitctl -q set_vm_memory_high_watermark 0.4
}

# killed STEP NAME MAX-MARKED : kills it there, and starts another relay.
killed() {
  local step=$1 name=$2 prefix try recovered ready_at
  shift 2
  # On a busy machine the lever may come too late; then once more.
  for try in 1 2 3 4 5; do
    prefix=$step-$try-
    "frozen_after_$step" "$prefix" && break
    rig_relay_signal one CONT
    undo
    fault_arrived loss $COUNT >/dev/null
    rig_relay_stop one
    rig_queues purge loss.work
    [ "$try" -lt 5 ] || rig_die "$name: the relay was frozen there"
  done
  rig_relay_kill one
  undo
  start two
  ready_at=$(date +%s%3N) # how long servers and tools take before does not count
  rig_check "$name: all arrives" fault_arrived loss $COUNT
  recovered=$(($(date +%s%3N) - ready_at))
  rig_check "$name: within session and 5 s (here ${recovered%???} s)" \
    [ $recovered -le $(((SESSION + 5) * 1000)) ]
  rig_check "$name: nothing is missing, and nothing twice and unmarked" \
    fault_in_order two loss $COUNT "$prefix" "$@"
  rig_check "$name: nothing is pending" fault_none_pending loss
}

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy broker "$RABBITMQ_NODE_PORT"
fault_proxy store "$RIG_REDIS_PORT"
{
  FAULT_SESSION=${SESSION}s FAULT_TIMEOUT=2900ms FAULT_BROKER=${FAULT_PORTS[broker]} fault_head
  fault_route loss "queue: loss.work"
} >"$CONFIG"

# ---- 1: SIGKILL ----

killed claim "killed after the claim" --max-marked 0
killed publish "killed after publishing"
killed confirm "killed after the confirm"
# One message: of several, the broker may confirm some later.
COUNT=1
killed record "killed after recording" --max-marked 0
COUNT=30

# ---- 2: claimed, and the answer lost ----

{
  FAULT_STORE=${FAULT_PORTS[store]} fault_head
  fault_route loss "queue: loss.work"
} >"$CONFIG"

start lost
store_holds_writes
load lost-
rig_check "claims that the store made late" fault_is_said lost "connection lost.*link=store"
store_goes_on
rig_check "its messages arrive, without a restart" fault_arrived loss $COUNT
rig_check "each once, and none in doubt" fault_in_order lost loss $COUNT lost- --max-marked 0

for round in 1 2; do
  start lost
  fault_tell store mute-replies
  load "muted-$round-"
  rig_wait_until "fault_record_is loss muted-$round-0 P" 2 ||
    echo "# round $round: the session was renewed just then"
  fault_tell store cut
  rig_check "claims whose answers were lost, $round: all arrive" fault_arrived loss $COUNT
  rig_check "claims whose answers were lost, $round: each once, none in doubt" \
    fault_in_order lost loss $COUNT "muted-$round-" --max-marked 0
done
rig_check "nothing is pending" fault_none_pending loss
