#!/bin/bash
# A store that refuses, is silent, forgets, or holds what is not ours, while messages come in
# (faults 3, 18, 19 and 36). See tests/integration/outages.sh for one that is shut down.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

COUNT=200

redis() {
  rig_redis_cli "$@" >/dev/null
}

start() {
  rig_relay_start relay "$CONFIG"
  rig_relay_ready relay store.in
}

snapshot_fails() {
  rig_redis_cli info persistence | grep -q "rdb_last_bgsave_status:err"
}

# Sets LOADED to the number of messages.
load() {
  LOADED=$(rig_load --queue store.in --count $COUNT --duplicates 30 --prefix "$1" |
    sed -n "s/.*messages=\([0-9]*\).*/\1/p")
}

in_total() {
  rig_wait_until "[ \"\$(rig_queue_total store.in)\" = $1 ]" 40 && return 0
  echo "store.in has $(rig_queue_total store.in), not $1"
  return 1
}

# Nothing is forwarded, and everything is still in the inbound queue.
all_waits() {
  [ "$(rig_queue_depth store.work)" = 0 ] || {
    echo "store.work has $(rig_queue_depth store.work)"
    return 1
  }
  in_total "$1"
}

said_both_once() {
  [ "$(fault_said relay 'connection lost.*link=store')" = 1 ] &&
    [ "$(fault_said relay 'msg=connected.*link=store')" = 1 ] && return 0
  grep link=store "$RIG_DIR/relay.log"
  return 1
}

# outage NAME BEGIN END : while it lasts, nothing is acknowledged or forwarded, and waiting is
# cheap; afterwards all arrives, without a restart.
outage() {
  local name=$1
  start
  fault_forget relay
  eval "$2"
  load "$name-"
  rig_check "$name: said" fault_is_said relay "connection lost.*link=store"
  rig_check "$name: waiting is cheap and quiet" fault_is_calm relay 2 1
  rig_check "$name: nothing is acknowledged, nothing forwarded" all_waits "$LOADED"
  eval "$3"
  rig_check "$name: afterwards all arrives" fault_arrived store $COUNT
  rig_check "$name: said once at its start and once at its end" said_both_once
  rig_check "$name: each once, none in doubt, none missing" \
    fault_in_order relay store $COUNT "$name-" --max-marked 0
}

# dangerous SETTING... : a line says so within seconds of the start.
warns() {
  rig_relay_start warns "$CONFIG"
  fault_is_said warns "uniqueness is endangered.*$1"
  local code=$?
  rig_relay_stop warns
  rm -f "$RIG_DIR/warns.log"
  return $code
}

rig_redis_start --appendonly no --enable-protected-configs yes
fault_rabbit_start
fault_proxy proxy "$RIG_REDIS_PORT"
{
  FAULT_STORE=${FAULT_PORTS[proxy]} fault_head
  fault_route store "queue: store.work"
} >"$CONFIG"

# ---- 3: every kind of refusal, and silence ----

outage refused "fault_tell proxy refuse" "fault_tell proxy pass"
outage silent "fault_tell proxy mute" "fault_tell proxy pass"
outage read-only "redis replicaof 127.0.0.1 1" "redis replicaof no one"
outage no-replicas "redis config set min-replicas-to-write 1" \
  "redis config set min-replicas-to-write 0"
outage out-of-memory "redis config set maxmemory 1" "redis config set maxmemory 0"
# A snapshot that fails makes Redis refuse to write.
outage disk-full "redis config set dir /proc; redis config set save '1 1'; redis set x 1;
  redis bgsave; rig_wait_until snapshot_fails 20" "redis config set save ''; redis config set dir '$RIG_DIR/redis'"
outage no-auth "redis config set requirepass x;
  redis -a x --no-auth-warning client kill type normal" \
  "redis -a x --no-auth-warning config set requirepass ''"
outage stopped "kill -STOP ${RIG_PIDS[redis]}" "kill -CONT ${RIG_PIDS[redis]}"

# ---- 3: a store that is slow, and one that comes and goes ----

start
fault_tell proxy "delay 200"
load slow-
rig_check "a store that takes 400 ms for an answer: all arrives" rig_wait_depth store.work $COUNT 60
fault_tell proxy pass
rig_check "each once, none in doubt" fault_in_order relay store $COUNT slow- --max-marked 0

start
rig_load --queue store.in --count 3000 --rate 1500 --duplicates 30 --prefix comes- >/dev/null &
loader=$!
for _ in 1 2 3 4 5 6; do
  sleep 0.3
  fault_tell proxy cut
done
wait $loader || rig_fail "the load was taken"
rig_check "a store that comes and goes, under load: all arrives" fault_arrived store 3000
rig_check "each once, none in doubt" fault_in_order relay store 3000 comes- --max-marked 0

# ---- 3: a foreign value under a key ----

start
redis set onlyonce:key:store:text "a text"
redis rpush onlyonce:key:store:list 1 2
redis hset onlyonce:key:store:hash a 1
redis set onlyonce:key:store:version "3F 1 1782640800123 t67 e86400067"
for id in text list hash version; do
  rig_post --queue store.in --message-id $id --count 2
done
rig_post --queue store.in --message-id behind
rig_check "foreign values under keys: the message behind passes" \
  rig_takes store.work 1 '.[0].message_id == "behind"'
rig_check "each is said, once, and waiting is cheap" fault_is_calm relay 2 1
rig_check "their messages stay" in_total 8
for id in text list hash version; do
  rig_check "a foreign $id is said" fault_is_said relay "not onlyonce.*key=$id"
  redis del onlyonce:key:store:$id
done
rig_check "once they are gone, their messages arrive, each once" \
  rig_takes store.work 4 'map(.message_id) | sort == ["hash","list","text","version"]'
rig_check "and no other copy" all_waits 0

# ---- 19: records that are gone ----

rig_load --queue store.in --count 3000 --rate 1500 --duplicates 0 --prefix flush- >/dev/null &
loader=$!
rig_wait_depth store.work 300 20
for command in "script flush" flushall "script flush" flushall "script flush" flushall; do
  # shellcheck disable=SC2086 # a command is several words
  redis $command
  sleep 0.1
done
wait $loader
rig_check "FLUSHALL and SCRIPT FLUSH under load: all arrives, without a restart" \
  fault_arrived store 3000
rig_check "nothing is left" in_total 0
rig_check "none is missing" rig_account --idle 300 --work store.work --in store.in --park store.in.parked \
  --count 3000 --prefix flush- --max-parked 0 --max-unmarked 3000 --idle 300
rig_load --queue store.in --count 3000 --rate 1500 --duplicates 20 --prefix restart- >/dev/null &
loader=$!
rig_wait_depth store.work 300 20
rig_redis_kill
sleep 1
rig_redis_start --appendonly no
wait $loader
rig_check "killed under load, and empty when it is back: all arrives" fault_arrived store 3000
rig_check "nothing is left" in_total 0
rig_check "none is missing" rig_account --idle 300 --work store.work --in store.in --park store.in.parked \
  --count 3000 --prefix restart- --max-parked 0 --max-unmarked 1000 --idle 300

# ---- 36: a failover that forgets the newest writes ----

rig_post --queue store.in --message-id back
rig_check "a message is forwarded" rig_wait_until "fault_record_is store back F" 30
session=$(rig_redis_cli --scan --pattern 'onlyonce:session:*' | head -n 1)
# Its record as it was before: pending, and the owner's session lives.
redis set onlyonce:key:store:back "2P 1 1782640800123 t0 o${session##*:}.1" px 86400000
rig_post --queue store.in --message-id back
rig_check "forwarded that is pending again, of a session that lives: its duplicate ends" \
  rig_wait_until "fault_record_is store back F" 40
redis set onlyonce:key:store:back "2P 1 1782640800123 t0 o0123456789abcdef01234567.1" \
  px 86400000
rig_post --queue store.in --message-id back
rig_check "of a session that is gone: its duplicate ends" rig_wait_until "fault_record_is store back F" 40
rig_post --queue store.in --message-id fence
rig_wait_until "fault_record_is store fence F" 30
rig_check "nothing waits" in_total 0
rig_check "and nothing is lost" rig_account --idle 300 --work store.work --count 0 --allow-strange
rig_check "SIGTERM ends it" rig_relay_stop relay

# ---- 18: settings that let it forget ----

redis config set maxmemory-policy allkeys-lru
rig_check "at the start, an eviction policy is warned about" warns "maxmemory-policy"
redis config set maxmemory-policy noeviction
rig_check "at the start, a store that saves nothing is warned about" warns "(append|persist|saved|save)"
