# shellcheck shell=bash
# fault - what the tests of faults have in common, on top of rig.sh: a configuration with short
# times, proxies that break connections, and what a relay may cost while it waits.
#
# docs/faults.md says which test covers which fault.

# shellcheck source=tests/lib/rig.sh
. "$(dirname "${BASH_SOURCE[0]}")/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
declare -A FAULT_PORTS=()

# fault_long : whether what takes long is to be tested, too.
fault_long() {
  [ "${ONLYONCE_LONG:-0}" = 1 ]
}

# ---- configuration ----

# fault_head : broker and store. FAULT_BROKER and FAULT_STORE are ports to go to instead, those of
# proxies; FAULT_HEARTBEAT, FAULT_TIMEOUT and FAULT_SESSION are durations.
fault_head() {
  cat <<END
broker:
  urls: ["amqp://guest:guest@127.0.0.1:${FAULT_BROKER:-$RABBITMQ_NODE_PORT}/%2f"]
  heartbeat: ${FAULT_HEARTBEAT:-10s}
stores:
  - name: redis
    url: redis://127.0.0.1:${FAULT_STORE:-$RIG_REDIS_PORT}/0
    timeout: ${FAULT_TIMEOUT:-900ms}
    session: ${FAULT_SESSION:-3s}
routes:
END
}

# fault_route NAME TO [LINE...] : from NAME.in, of type FAULT_QUEUES (quorum), with key message_id.
fault_route() {
  local name=$1 to=$2 line
  shift 2
  cat <<END
  - name: $name
    from: {queue: $name.in, queue_type: ${FAULT_QUEUES:-quorum}}
    to: {$to}
    park: {queue_type: ${FAULT_QUEUES:-quorum}}
    key: [message_id]
    window: 24h
END
  for line; do
    echo "    $line"
  done
}

# ---- proxies ----

# fault_proxy NAME PORT : starts a proxy to that port; its own is FAULT_PORTS[NAME].
fault_proxy() {
  rig_port
  FAULT_PORTS[$1]=$RIG_PORT
  "$RIG_BUILD/tests/proxy" --listen "$RIG_PORT" --to "$2" --control "$RIG_DIR/$1.fifo" \
    >>"$RIG_DIR/$1.log" 2>&1 &
  RIG_RELAYS["proxy $1"]=$! # to be stopped with the relays, whose names these are not
  rig_wait_until "rig_port_answers ${FAULT_PORTS[$1]} && [ -p '$RIG_DIR/$1.fifo' ]" 30 ||
    rig_die "proxy $1 started"
}

# fault_tell NAME COMMAND : returns when the proxy has obeyed, which it says in its log.
fault_tell() {
  local obeyed
  obeyed=$(wc -l <"$RIG_DIR/$1.log")
  echo "$2" >"$RIG_DIR/$1.fifo"
  rig_wait_until "[ \"\$(wc -l <'$RIG_DIR/$1.log')\" -gt $obeyed ]" 20 || rig_die "proxy $1 obeys: $2"
}

# ---- what a relay says and costs ----

# fault_freeze_renewed NAME SESSION : the relay, the only one, stands still (SIGSTOP) just after its session, of so many
# seconds, was renewed: so the next thing that it asks of the store is not the renewal, which comes a third of that later.
fault_freeze_renewed() {
  rig_wait_until "fault_is_renewed $2" 20 || rig_die "the session of $1 is renewed"
  rig_relay_signal "$1" STOP
}

# fault_is_renewed SESSION : all sessions were, within the last 0.3 s.
fault_is_renewed() {
  local key ttl
  for key in $(rig_redis_cli --scan --pattern "onlyonce:session:*"); do
    ttl=$(rig_redis_cli pttl "$key")
    [ "$ttl" -ge $(($1 * 1000 - 300)) ] || return 1
  done
  [ -n "${ttl:-}" ]
}

# fault_said NAME REGEX : how many lines of the relay's log match.
fault_said() {
  grep -cE "$2" "$RIG_DIR/$1.log"
}

# fault_is_said NAME REGEX [SECONDS]
fault_is_said() {
  rig_wait_until "[ \"\$(fault_said $1 '$2')\" -ge 1 ]" "${3:-30}" && return 0
  echo "$1 does not say: $2"
  tail -n 5 "$RIG_DIR/$1.log"
  return 1
}

# fault_forget NAME : what the relay said so far is not looked at any more. Its file stays open.
fault_forget() {
  cat "$RIG_DIR/$1.log" >>"$RIG_DIR/$1-earlier.log"
  : >"$RIG_DIR/$1.log"
}

# fault_cpu NAME : CPU time so far, in ms.
fault_cpu() {
  awk '{ print ($14 + $15) * 10 }' "/proc/${RIG_RELAYS[$1]}/stat"
}

# fault_is_calm NAME SECONDS LINES : for so long, it takes less than 15 % of a CPU, and says no
# more than so many lines.
fault_is_calm() {
  local cpu lines
  cpu=$(fault_cpu "$1")
  lines=$(fault_said "$1" .)
  sleep "$2"
  cpu=$(($(fault_cpu "$1") - cpu))
  lines=$(($(fault_said "$1" .) - lines))
  echo "$cpu ms of CPU and $lines lines within $2 s"
  [ "$cpu" -le $(($2 * 150)) ] && [ "$lines" -le "$3" ]
}

# fault_peak NAME : the largest size of the relay in memory, in MiB.
fault_peak() {
  awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/${RIG_RELAYS[$1]}/status"
}

# ---- accounts ----

# fault_record_is SCOPE KEY STATE : the letter of record.h, in the format that is now.
fault_record_is() {
  rig_redis_cli get "onlyonce:key:$1:$2" | grep -q "^2$3"
}

# fault_arrived ROUTE COUNT [SECONDS] : so many copies are in the work queue, nothing is ready in the
# inbound one, and nothing is pending.
fault_arrived() {
  rig_wait_depth "$1.work" "$2" "${3:-60}" && rig_wait_until "fault_is_done $1" "${3:-60}" && return 0
  echo "$1.work has $(rig_queue_depth "$1.work"), $1.in $(rig_queue_depth "$1.in")"
  fault_none_pending "$1"
  return 1
}

fault_is_done() {
  [ "$(rig_queue_depth "$1.in")" = 0 ] && fault_none_pending "$1"
}

# fault_in_order NAME ROUTE COUNT PREFIX OPTION... : stops the relay, so that whatever it held
# unacknowledged is in the inbound queue again, and accounts for every id. None may be missing,
# twice and unmarked, or left.
fault_in_order() {
  local name=$1 route=$2 count=$3 prefix=$4
  shift 4
  sleep 0.5
  rig_relay_stop "$name" && rig_account --work "$route.work" --in "$route.in" \
    --park "$route.in.parked" --count "$count" --prefix "$prefix" --max-parked 0 "$@"
}

# fault_pending ROUTE : the keys that are pending.
fault_pending() {
  rig_onlyonce list -c "$CONFIG" "$1" --state pending
}

fault_none_pending() {
  fault_pending "$1" >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ] && return 0
  head -n 5 "$RIG_DIR/pending"
  return 1
}


# fault_rabbit_start : a broker that counts the messages of quorum queues anew twice a second, not
# every five seconds.
fault_rabbit_start() {
  rig_rabbit_environment
  echo '[{rabbit, [{quorum_tick_interval, 500}]}].' >"$RABBITMQ_ADVANCED_CONFIG_FILE"
  rig_rabbit_start
}
