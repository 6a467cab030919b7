#!/bin/bash
# Connections to the broker that end, fall silent, or lose what they stood on (faults 8, 17, 22).
# A restart of the broker, and an inbound queue that is made again: tests/integration/outages.sh.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

COUNT=6000
HEARTBEAT=2

consumers_are() {
  rig_wait_until "[ \"\$(rig_queue_consumers $1.in)\" = $2 ]" "$3" && return 0
  echo "$1.in has $(rig_queue_consumers "$1.in") consumers"
  return 1
}

broker_never_said() {
  ! grep -iE "$1" "$RIG_DIR/rabbit.log"
}

# So many outages of a link of a route, said at both edges.
said_both() {
  [ "$(fault_said relay "connection lost.*route=$1 link=$2")" = "$3" ] &&
    [ "$(fault_said relay "connected route=$1 link=$2.*after=")" = "$3" ] && return 0
  grep "route=$1 link=$2" "$RIG_DIR/relay.log"
  return 1
}

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy far "$RABBITMQ_NODE_PORT"
{
  rig_queues declare gone.in && rig_queues declare gone.in.parked &&
    rig_queues exchange out.out topic && rig_queues declare out.work &&
    rig_queues bind out.work out.out "#"
} || rig_die "the queues are made"
{
  FAULT_BROKER=${FAULT_PORTS[far]} FAULT_HEARTBEAT=${HEARTBEAT}s fault_head
  fault_route cut "queue: cut.work"
  FAULT_QUEUES=classic
  fault_route gone "queue: gone.work" | sed 's/gone.in,/& declare: false,/'
  fault_route out "exchange: out.out"
} >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in cut gone out; do
  rig_relay_ready relay $name.in
done

# ---- 8, 17: connections are cut under load ----

rig_load --queue cut.in --count $COUNT --rate 1500 --duplicates 30 --prefix cut- >/dev/null &
loader=$!
for round in 1 2 3 4 5; do
  rig_wait_depth cut.work $((COUNT * round / 8)) 30
  fault_tell far cut
done
wait $loader || rig_fail "the load was taken"
rig_check "cut five times under load: all arrives" fault_arrived cut $COUNT
rig_load --queue cut.in --count 1000 --first $COUNT --prefix cut- >/dev/null &
loader=$!
rig_wait_depth cut.work $((COUNT + 200)) 30
rig_rabbitctl -q close_all_connections "a test" || rig_fail "the broker closes all connections"
wait $loader
rig_check "closed by the broker under load: all arrives" fault_arrived cut $((COUNT + 1000))
rig_check "none is missing, none twice and unmarked" rig_account --idle 300 --work cut.work --in cut.in \
  --park cut.in.parked --count $((COUNT + 1000)) --prefix cut- --max-parked 0 --max-marked 3000
rig_check "nothing was acknowledged by a number of another channel" \
  broker_never_said 'precondition_failed|unknown delivery tag'

# ---- 22: silence ----

consumers_are cut 1 60
fault_forget relay
fault_tell far mute
# For how long it says itself, whatever the machine does.
rig_check "a silent broker is given up after two heartbeats" \
  fault_is_said relay "connection lost.*route=cut link=sink.*nothing heard from the broker for [$((2 * HEARTBEAT))-$((2 * HEARTBEAT + 3))] s"
rig_check "on the consuming side, too" \
  fault_is_said relay "connection lost.*route=cut link=source.*nothing heard from the broker for [$((2 * HEARTBEAT))-$((2 * HEARTBEAT + 3))] s"
rig_load --queue cut.in --count 100 --prefix silent- >/dev/null
# The next reason of a link is said, too, once: that nobody answers.
rig_check "waiting is cheap, and quiet" fault_is_calm relay 4 4
fault_tell far cut
fault_tell far pass
rig_check "it speaks again: all arrives" fault_arrived cut 100
rig_check "each outage is said once at its start and once at its end" said_both cut sink 1
rig_check "of the source, too" said_both cut source 1
rig_check "each once" rig_account --idle 300 --work cut.work --in cut.in --park cut.in.parked --count 100 \
  --prefix silent- --max-parked 0

# ---- 22: what they stood on is gone ----

# A relay that has not lost one connection after the other: it would wait longer for each.
rig_check "SIGTERM ends it" rig_relay_stop relay
rig_relay_start relay "$CONFIG"
for name in cut gone out; do
  rig_relay_ready relay $name.in
done
rig_post --queue gone.in --message-id first
rig_takes gone.work 1 true >/dev/null
fault_forget relay
rig_queues delete gone.in
rig_check "the inbound queue is deleted: said" fault_is_said relay "connection lost.*route=gone link=source"
rig_check "waiting is cheap, and quiet" fault_is_calm relay 2 1
rig_queues declare gone.in
rig_check "it is there again: consumed from within seconds" consumers_are gone 1 30
rig_post --queue gone.in --message-id second
rig_check "a message passes" rig_takes gone.work 1 '.[0].message_id == "second"'
rig_check "the outage is said once at its start and once at its end" said_both gone source 1

consumers_are out 1 60
rig_queues exchange-delete out.out
rig_post --queue out.in --message-id lost --count 2
rig_check "the destination's exchange is deleted, and the channel closed: said" \
  fault_is_said relay "connection lost.*route=out link=sink"
rig_check "waiting is cheap, and quiet" fault_is_calm relay 2 1
rig_queues exchange out.out topic && rig_queues bind out.work out.out "#"
rig_check "it is there again: the message arrives" rig_takes out.work 1 '.[0].message_id == "lost"'
rig_post --queue out.in --message-id fence
rig_check "once" rig_takes out.work 1 '.[0].message_id == "fence"'
rig_check "the outage is said once at its start and once at its end" said_both out sink 1
rig_check "SIGTERM ends it" rig_relay_stop relay
