#!/bin/bash
# A Redis whose master Sentinels name: it is killed, and stands still, under load (fault 36). The relay
# finds the next one, nothing is lost, and with wait_replicas no claim is forgotten.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"
# shellcheck source=tests/lib/sentinel.sh
. "$(dirname "$0")/../lib/sentinel.sh"

COUNT=4000
RATE=800

# configure WAIT
configure() {
  cat <<END
broker:
  urls: ["$RIG_AMQP_URL"]
stores:
  - name: redis
    url: $SENTINEL_URL
    sentinel: {username: relay, password: secret}
    timeout: 900ms
    session: 3s
    wait_replicas: $1
routes:
END
  fault_route led "queue: led.work"
}

# Second copies come anywhere behind the first: a record that was forgotten is noticed.
load() {
  rig_load --queue led.in --count $COUNT --rate $RATE --duplicates 50 --pattern late --prefix "$1"
}

start() {
  configure "$1" >"$CONFIG"
  rig_relay_start relay "$CONFIG"
  rig_relay_ready relay led.in
}

kill_master() {
  sentinel_kill "$1"
  sentinel_moves_from "$1"
}

# It stands still for longer than the Sentinels wait, and then still believes to be the master.
pause_master() {
  sentinel_signal "$1" STOP
  sentinel_moves_from "$1"
  sleep 1
  sentinel_signal "$1" CONT
}

# It dies after a while in which no replica could follow it: what it did then is forgotten. Where the relay waits for a
# replica it does nothing.
lag_master() {
  local arrived
  arrived=$(rig_queue_depth led.work)
  redis-cli -p "$1" acl setuser default -psync -sync
  redis-cli -p "$1" client kill type replica
  if [ "$wait" = 0 ]; then
    rig_wait_depth led.work $((arrived + 400)) 30
  else
    sleep 0.5
  fi
  kill_master "$1"
}

# Handed over while it is well: for a moment one replica is the master already, and the other one still
# follows the old master.
hand_master() {
  [ "$(redis-cli -p "${SENTINEL_PORTS[0]}" sentinel failover mymaster)" = OK ] && sentinel_moves_from "$1"
}

# As docs/stores.md says how: nobody writes meanwhile.
hush_master() {
  redis-cli -p "$1" client pause 6000 write
  sleep 0.5
  hand_master "$1"
}

account() {
  local code=0
  fault_in_order relay led $COUNT "$1" --max-unmarked "$2" >"$RIG_DIR/account.out" || code=$?
  cat "$RIG_DIR/account.out"
  return $code
}

nothing_is_held() {
  [ "$(rig_queue_total led.in)" = 0 ]
}

# arrives UNMARKED : all of them. Where claims may be forgotten so may recordings, whose keys then stay
# pending, as no message of theirs is left.
arrives() {
  if [ "$1" = 0 ]; then
    fault_arrived led $COUNT 60
  else
    rig_wait_depth led.work $COUNT 60 && rig_wait_until nothing_is_held 60
  fi
}

# lose_master HOW PREFIX UNMARKED : under load; all arrives, none is missing, and no more than so many
# have a second copy without a mark.
lose_master() {
  local how=$1 prefix=$2 loader old before=$SECONDS
  fault_forget relay
  load "$prefix" >/dev/null &
  loader=$!
  rig_wait_depth led.work 1000 30 || rig_fail "$prefix: the load began"
  old=$(sentinel_master)
  rig_check "$prefix: another master is named" "${how}_master" "$old"
  wait $loader || rig_fail "$prefix: the load was taken"
  rig_check "$prefix: all arrives, without a restart" arrives "$3"
  rig_check "$prefix: the relay says where the new master is" \
    fault_is_said relay "connected.*at 127.0.0.1:$(sentinel_master)/0 .master mymaster of the Sentinels"
  rig_check "$prefix: none is missing, at most $3 twice and unmarked" account "$prefix" "$3"
  echo "   $(tail -n 1 "$RIG_DIR/account.out"), $((SECONDS - before)) s"
}

# What was killed comes back as a replica; all three are there again.
mend() {
  local port
  for port in "${SENTINEL_NODES[@]}"; do
    [ -n "${RIG_RELAYS["node $port"]:-}" ] || sentinel_node_start "$port" --appendonly no
  done
  rig_wait_until sentinel_is_ready 60 || rig_die "all three nodes are there again"
}

sentinel_start --appendonly no
fault_rabbit_start

for wait in 0 1; do
  unmarked=0
  [ "$wait" = 1 ] || unmarked=$COUNT # what no replica has yet may be forgotten
  for how in kill pause lag; do
    start $wait
    lose_master $how "$how-wait-$wait-" $unmarked
    mend
    [ $wait = 1 ] || redis-cli -p "$(sentinel_master)" flushall >/dev/null
    if [ $how-$wait = lag-0 ]; then
      rig_check "without wait_replicas claims were forgotten, so this can fail" \
        grep -q 'unmarked=[1-9]' "$RIG_DIR/account.out"
    fi
  done
done

# ---- a master that is well is handed over ----

start 2
lose_master hand hand-wait-2- 0
mend
start 1
lose_master hush hush-wait-1- 0
mend

# ---- too few replicas ----

start 2
rig_load --queue led.in --count 200 --prefix enough- >/dev/null
rig_check "two replicas have every claim: all arrives" fault_arrived led 200
fault_forget relay
for port in "${SENTINEL_NODES[@]}"; do
  if [ "$port" != "$(sentinel_master)" ]; then
    sentinel_kill "$port"
    break
  fi
done
rig_load --queue led.in --count 200 --prefix few- >/dev/null
rig_check "one of two replicas is gone: said" \
  fault_is_said relay "connection lost.*1 of the 2 replicas that wait_replicas asks for"
rig_check "waiting is cheap and quiet" fault_is_calm relay 2 1
rig_check "nothing is forwarded meanwhile" [ "$(rig_queue_depth led.work)" = 200 ]
mend
rig_check "when it is back all arrives" fault_arrived led 400 60
rig_check "each once" fault_in_order relay led 200 few- --allow-strange --max-unmarked 0

# ---- Sentinels that are gone ----

start 1
sentinel=${SENTINEL_PORTS[0]}
rig_relay_kill "sentinel $sentinel"
old=$(sentinel_master)
rig_check "one Sentinel of three is dead, and the master then dies: another is named" kill_master "$old"
rig_load --queue led.in --count 200 --prefix alone- >/dev/null
rig_check "all arrives" fault_arrived led 200 60
rig_check "each once" fault_in_order relay led 200 alone- --max-unmarked 0
