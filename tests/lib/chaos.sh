# shellcheck shell=bash
# shellcheck disable=SC2034 # scripts/chaos uses the rest
# chaos - what goes wrong in scripts/chaos, and how it is put right again.
#
# Two relays, "1" and "2", reach the broker and the store through a proxy each: amqp1, amqp2,
# store1, store2. A fault takes what it breaks (relay1, store2, rabbit, ...), so that no two faults
# break the same thing, but any number of different things at once; its end gives it back. Every
# fault is a line of CHAOS_FAULTS and one or two functions, NAME_begin and NAME_end.
#
# What goes wrong with the store is in chaos_store.sh. Needs rig.sh. Times are milliseconds since
# CHAOS_STARTED.

CHAOS_WORK=chaos.work       # the work queue of the route with to.queue
CHAOS_FAN=chaos.fan.work    # that of the route with to.exchange, bound to CHAOS_EXCHANGE
CHAOS_EXCHANGE=chaos.fan.out
CHAOS_IN=(chaos.in chaos.fan.in)
CHAOS_QUEUES=("$CHAOS_WORK" "$CHAOS_FAN" chaos.in.parked chaos.fan.in.parked)
CHAOS_FULL=300              # messages that a work queue takes
CHAOS_LONG_EVERY=300        # seconds at least between two outages longer than hold_limit
CHAOS_STOP_LIMIT=14000      # ms that a relay may take after SIGTERM

# name weight resources lo hi : @ is 1 or 2, by chance; it lasts lo to hi milliseconds.
CHAOS_FAULTS=(
  "relay_kill         4 relay@           0     8000"
  "relay_term         3 relay@           0     4000"
  "relay_stop_short   3 relay@           500   4000"
  "relay_stop_long    3 relay@           6000  12000"
  "amqp_cut           3 amqp@            0     0"
  "amqp_refuse        1 amqp@            1000  8000"
  "amqp_mute          2 amqp@            1000  15000"
  "amqp_mute_replies  2 amqp@            1000  15000"
  "amqp_delay         1 amqp@            1000  10000"
  "rabbit_restart     1 rabbit,collector 0     4000"
  "rabbit_kill        2 rabbit,collector 0     4000"
  "rabbit_alarm       1 rabbit           2000  12000"
  "queue_full         2 collector        6000  20000"
  "queue_deleted      3 rabbit,collector 500   15000"
  "queue_unbound      2 binding          500   10000"
  "key_released       4 nothing@         0     0"
  "key_completed      4 nothing@         0     0"
)

declare -A CHAOS_BUSY=()  # by resource
declare -A CHAOS_COUNT=() # by fault
declare -A CHAOS_RELAY=() # by relay: up, down, or ending (SIGTERM was sent)
declare -A CHAOS_SINCE=() # by relay: the time of that
CHAOS_ENDS=()             # "time fault target resources"
CHAOS_CRASHES=0
CHAOS_LAST_LONG=-1000000
CHAOS_KEYS=0
CHAOS_JOBS=()             # jobs that handle keys
CHAOS_HOLDER=             # a process that keeps a lock in the store
CHAOS_COLLECTOR=
CHAOS_CALM=false          # true: nothing new is broken

# Sets NOW.
chaos_now() {
  NOW=$((${EPOCHREALTIME/[.,]/} / 1000 - CHAOS_STARTED))
}

chaos_log() {
  chaos_now
  printf '%4d.%03d  %s\n' $((NOW / 1000)) $((NOW % 1000)) "$*"
}

# ---- relays ----

# chaos_config BROKER-PORT STORE-PORT : mostly those of proxies. The session and hold_limit are short,
# so that both run out.
chaos_config() {
  cat <<END
broker:
  urls: ["amqp://guest:guest@127.0.0.1:$1/%2f"]
  heartbeat: 5s
stores:
$("config_$CHAOS_STORE" "$2")
log: {level: ${CHAOS_LOG_LEVEL:-info}}
routes:
  - name: queue
    from: {queue: ${CHAOS_IN[0]}}
    to: {queue: $CHAOS_WORK}
    key: [message_id]
    window: 24h
    workers: 2
    hold_limit: 60s
  - name: fan
    from: {queue: ${CHAOS_IN[1]}}
    to: {exchange: $CHAOS_EXCHANGE, routing_key: work}
    key: [message_id]
    window: 24h
    workers: 2
    hold_limit: 60s
END
}

relay_start() {
  rig_relay_start "relay$1" "$RIG_DIR/relay$1.yaml"
  chaos_now
  CHAOS_RELAY[$1]=up
  CHAOS_SINCE[$1]=$NOW
  chaos_log "relay $1 starts, process ${RIG_RELAYS[relay$1]}"
}

# Whether it may be given a signal: it runs, and has had the time to see to its signals.
relay_is_settled() {
  chaos_now
  [ "${CHAOS_RELAY[$1]}" = up ] && [ $((NOW - CHAOS_SINCE[$1])) -gt 1500 ] &&
    rig_relay_is_running "relay$1"
}

# Waits for an ended relay: sets CODE.
relay_reap() {
  CODE=0
  wait "${RIG_RELAYS[relay$1]}" || CODE=$?
  unset "RIG_RELAYS[relay$1]"
  CHAOS_RELAY[$1]=down
}

# A relay that ends though nobody told it to has failed, and so has one that does not end.
relay_watch() {
  chaos_now
  case ${CHAOS_RELAY[$1]} in
  up)
    rig_relay_is_running "relay$1" && return
    relay_reap "$1"
    CHAOS_CRASHES=$((CHAOS_CRASHES + 1))
    rig_fail "relay $1 ended by itself at $((NOW / 1000)) s, exit code $CODE"
    relay_start "$1"
    ;;
  ending)
    if ! rig_relay_is_running "relay$1"; then
      relay_reap "$1"
      chaos_log "relay $1 ended, exit code $CODE, after $((NOW - CHAOS_SINCE[$1])) ms"
      [ "$CODE" = 0 ] || rig_fail "relay $1 ended on SIGTERM with $CODE, not 0"
    elif [ $((NOW - CHAOS_SINCE[$1])) -gt "$CHAOS_STOP_LIMIT" ]; then
      rig_fail "relay $1 did not end within $CHAOS_STOP_LIMIT ms of SIGTERM"
      rig_relay_kill "relay$1"
      CHAOS_RELAY[$1]=down
    fi
    ;;
  esac
}

relay_kill_begin() {
  relay_is_settled "$1" || return 1
  rig_relay_kill "relay$1"
  CHAOS_RELAY[$1]=down
}

relay_kill_end() {
  relay_start "$1"
}

relay_term_begin() {
  relay_is_settled "$1" || return 1
  kill -TERM "${RIG_RELAYS[relay$1]}"
  CHAOS_RELAY[$1]=ending
  CHAOS_SINCE[$1]=$NOW
}

# Waits with starting it again until it has ended.
relay_term_end() {
  relay_watch "$1"
  [ "${CHAOS_RELAY[$1]}" = down ] || return 1
  relay_start "$1"
}

relay_stop_short_begin() {
  relay_is_settled "$1" && kill -STOP "${RIG_RELAYS[relay$1]}"
}

relay_stop_short_end() {
  kill -CONT "${RIG_RELAYS[relay$1]}"
}

relay_stop_long_begin() {
  relay_stop_short_begin "$1"
}

relay_stop_long_end() {
  relay_stop_short_end "$1"
}

# ---- connections ----

# proxy_say NAME COMMAND... : the FIFO is opened for both, so that this never waits for a reader.
proxy_say() {
  local fifo=$RIG_DIR/$1.fifo
  shift
  echo "$*" 1<>"$fifo"
}

amqp_cut_begin() { proxy_say "amqp$1" cut; }
amqp_refuse_begin() { proxy_say "amqp$1" refuse; }
amqp_refuse_end() { proxy_say "amqp$1" pass; }
amqp_mute_begin() { proxy_say "amqp$1" mute; }
amqp_mute_end() { proxy_say "amqp$1" pass; }
amqp_mute_replies_begin() { proxy_say "amqp$1" mute-replies; }
amqp_mute_replies_end() { proxy_say "amqp$1" pass; }
amqp_delay_begin() { proxy_say "amqp$1" delay 300; }
amqp_delay_end() { proxy_say "amqp$1" pass; }

# ---- the collector, and what empties or fills the work queues ----

collector_start() {
  "$RIG_BUILD/tests/collect" --amqp "$RIG_AMQP_URL" --out "$RIG_DIR/collected.txt" \
    "${CHAOS_QUEUES[@]}" >>"$RIG_DIR/collector.log" 2>&1 </dev/null &
  CHAOS_COLLECTOR=$!
  rig_wait_until "grep -q collect /proc/$CHAOS_COLLECTOR/comm" 30 || rig_die "the collector starts"
}

# In order: what it wrote down is acknowledged, and has left the queues. 143: it had not begun yet.
collector_stop() {
  local code=0
  kill -TERM "$CHAOS_COLLECTOR"
  rig_wait_until "! kill -0 $CHAOS_COLLECTOR" 60 || rig_die "the collector stops"
  wait "$CHAOS_COLLECTOR" || code=$?
  [ "$code" = 0 ] || [ "$code" = 143 ] || rig_die "the collector ended with $code"
  CHAOS_COLLECTOR=
}

queue_full_begin() {
  collector_stop
}

queue_full_end() {
  collector_start
}

# The work queues' limit. RabbitMQ 3.10 starts a quorum queue without its overflow setting, and tells it
# that a moment later, when the queue can already be published to: until then, a queue with a limit
# drops its oldest messages, though confirmed, instead of refusing new ones. So there is no limit
# while a queue is made.
limit_set() {
  rig_rabbitctl set_policy full '^chaos\..*work$' \
    "{\"max-length\":$CHAOS_FULL,\"overflow\":\"reject-publish\"}" --apply-to queues >/dev/null ||
    rig_die "the work queues get a limit"
}

limit_clear() {
  rig_rabbitctl clear_policy full >/dev/null || rig_die "the work queues' limit is lifted"
}

# Deleting a queue loses what is in it, and that must not look like a loss of the relay's, nor hide
# one. So the relays stand still for a moment (less than a session), the collector empties the
# queue, and it is deleted only if it stays empty; their connections live on.
queue_deleted_begin() {
  local relay stopped=() deleted=false
  limit_clear
  for relay in 1 2; do
    if [ -z "${CHAOS_BUSY[relay$relay]:-}" ] && rig_relay_is_running "relay$relay"; then
      kill -STOP "${RIG_RELAYS[relay$relay]}"
      stopped+=("${RIG_RELAYS[relay$relay]}")
    fi
  done
  if stays_empty "$CHAOS_WORK"; then
    collector_stop
    # What it had not acknowledged comes back to the queue, where it counts again.
    if stays_empty "$CHAOS_WORK"; then
      rig_queues delete "$CHAOS_WORK" && deleted=true
    fi
  fi
  [ ${#stopped[@]} = 0 ] || kill -CONT "${stopped[@]}"
  $deleted && return
  [ -n "$CHAOS_COLLECTOR" ] || collector_start
  limit_set
  return 1
}

# Whether it is empty for 0.7 s, within 2.5 s.
stays_empty() {
  local since=0 until=$((${EPOCHREALTIME/[.,]/} + 2500000)) now
  while now=${EPOCHREALTIME/[.,]/} && [ "$now" -lt "$until" ]; do
    if [ "$(rig_queue_depth "$1" 2>/dev/null)" != 0 ]; then
      since=0
    elif [ "$since" = 0 ]; then
      since=$now
    elif [ $((now - since)) -gt 700000 ]; then
      return 0
    fi
    sleep 0.1
  done
  return 1
}

# A relay that started meanwhile has made it already.
queue_deleted_end() {
  rig_queue_depth "$CHAOS_WORK" >/dev/null 2>&1 ||
    rig_queues declare "$CHAOS_WORK" x-queue-type=quorum ||
    rig_queue_depth "$CHAOS_WORK" >/dev/null || rig_die "the work queue is made again"
  limit_set
  collector_start
}

queue_unbound_begin() {
  rig_queues unbind "$CHAOS_FAN" "$CHAOS_EXCHANGE" work 2>/dev/null
}

# The broker may be away.
queue_unbound_end() {
  rig_queues bind "$CHAOS_FAN" "$CHAOS_EXCHANGE" work 2>/dev/null
}

# ---- RabbitMQ ----

# The collector stops first. Two seconds later its acknowledgements are on the disk; if they were not,
# its messages would come again with the redelivered flag, and count as copies: never the reverse.
rabbit_restart_begin() {
  collector_stop
  rig_rabbit_stop
}

rabbit_restart_end() {
  rig_rabbit_start
  collector_start
}

rabbit_kill_begin() {
  collector_stop
  sleep 2
  rig_rabbit_kill
}

rabbit_kill_end() {
  rabbit_restart_end
}

rabbit_alarm_begin() {
  rig_rabbitctl set_vm_memory_high_watermark 0.00001 >/dev/null || rig_die "the memory alarm is raised"
}

rabbit_alarm_end() {
  rig_rabbitctl set_vm_memory_high_watermark 0.4 >/dev/null || rig_die "the memory alarm ends"
}

# ---- keys ----

# A key that is released may be forwarded again if another message bears it. So only ids of a
# prefix of their own are released, each of which is published again on purpose. Works in the
# background, since each step may take long; what may be expected goes to keys.txt:
#
#   e ID LEAST MOST    copies, those with a mark not counted
#
# A key that is completed blocks as before, so its second message is a duplicate.
key_released_begin() { begin_key release_one released; }
key_completed_begin() { begin_key complete_one completed; }

begin_key() {
  keys_at_work
  CHAOS_KEYS=$((CHAOS_KEYS + 1))
  "$1" "$2-$CHAOS_KEYS" >>"$RIG_DIR/keys.txt" 2>>"$RIG_DIR/keys.log" </dev/null &
  CHAOS_JOBS+=($!)
}

# Takes those that have ended out of CHAOS_JOBS: their process ids may be somebody else's by now.
keys_at_work() {
  local pid running left=()
  running=" $(jobs -pr | tr '\n' ' ')"
  for pid in "${CHAOS_JOBS[@]}"; do
    [[ $running != *" $pid "* ]] || left+=("$pid")
  done
  CHAOS_JOBS=("${left[@]}")
}

keys_are_done() {
  keys_at_work
  [ ${#CHAOS_JOBS[@]} = 0 ]
}

publish_one() {
  echo "p $1"
  timeout 40 "$RIG_BUILD/tests/post" --amqp "$RIG_AMQP_URL" --queue "${CHAOS_IN[0]}" --message-id "$1" \
    --body "{\"id\":\"$1\"}"
}

is_forwarded() {
  timeout 5 "$RIG_BUILD/onlyonce" status -c "$RIG_DIR/direct.yaml" queue "$1" | grep -q '"state":"forwarded"'
}

release_one() {
  local id=$1 code=0
  publish_one "$id" || {
    echo "e $id 0 1"
    return
  }
  rig_wait_until "is_forwarded $id" 30 || {
    echo "e $id 1 1"
    return
  }
  timeout 10 "$RIG_BUILD/onlyonce" release -c "$RIG_DIR/direct.yaml" queue "$id" >&2 || code=$?
  if publish_one "$id" && [ "$code" = 0 ]; then
    echo "e $id 2 2"
  else
    echo "e $id 1 2"
  fi
}

# Only what was forwarded is reported complete, as workers do.
complete_one() {
  local id=$1
  publish_one "$id" || {
    echo "e $id 0 1"
    return
  }
  echo "e $id 1 1"
  rig_wait_until "is_forwarded $id" 30 || return
  timeout 10 "$RIG_BUILD/onlyonce" complete -c "$RIG_DIR/direct.yaml" queue "$id" --result '{"ok":true}' >&2
  publish_one "$id"
}

# ---- the schedule ----

# chaos_faults LINE... : the faults of this run; repeats each name by its weight in CHAOS_DECK.
chaos_faults() {
  local line name weight rest i
  CHAOS_DECK=()
  for line; do
    read -r name weight rest <<<"$line"
    for ((i = 0; i < weight; i++)); do
      CHAOS_DECK+=("$name $rest")
    done
  done
}

# Sets FREE to whether none of the resources, which commas separate, is taken.
resources_are_free() {
  local resource
  FREE=true
  for resource in ${1//,/ }; do
    [ -z "${CHAOS_BUSY[$resource]:-}" ] || FREE=false
  done
}

resources_mark() {
  local resource
  for resource in ${1//,/ }; do
    CHAOS_BUSY[$resource]=$2
  done
}

# Draws the next fault, and begins it if what it breaks is whole. Every step draws as many random
# numbers as any other, so that the order of faults depends on the seed alone.
chaos_step() {
  local name resources low high target span pause
  read -r name resources low high <<<"${CHAOS_DECK[RANDOM % ${#CHAOS_DECK[@]}]}"
  target=$((RANDOM % 2 + 1))
  span=$((low + (RANDOM * 32768 + RANDOM) % (high - low + 1)))
  pause=$((500 + RANDOM % 3000))
  CHAOS_NEXT=$((NOW + pause))
  resources=${resources//@/$target}
  resources_are_free "$resources"
  $FREE || return
  if [[ $resources == *@* || $name == relay* || $name == amqp* || $name == store* ]]; then
    chaos_log "$name $target, for $span ms"
  else
    chaos_log "$name, for $span ms"
  fi
  if ! "${name}_begin" "$target"; then
    chaos_log "$name $target: not now"
    return
  fi
  CHAOS_COUNT[$name]=$((${CHAOS_COUNT[$name]:-0} + 1))
  chaos_now
  CHAOS_NEXT=$((NOW + pause))
  if declare -F "${name}_end" >/dev/null; then
    resources_mark "$resources" "$name"
    CHAOS_ENDS+=("$((NOW + span)) $name $target $resources")
  fi
}

# Ends what is due; with "all", whatever there is. An end that fails is tried again.
chaos_ends() {
  local i due name target resources
  for i in "${!CHAOS_ENDS[@]}"; do
    read -r due name target resources <<<"${CHAOS_ENDS[i]}"
    chaos_now
    if [ "${1:-}" = all ] || [ "$due" -le "$NOW" ]; then
      "${name}_end" "$target" || continue
      chaos_log "end of $name $target"
      resources_mark "$resources" ''
      unset "CHAOS_ENDS[i]"
    fi
  done
}

# server_watch NAME PID : none, if it is down on purpose.
server_watch() {
  [ -z "$2" ] || kill -0 "$2" 2>/dev/null || rig_die "$1 ended by itself"
}

# The servers are ours to break: if one ends by itself, the run says nothing.
chaos_watch() {
  relay_watch 1
  relay_watch 2
  server_watch rabbit "${RIG_PIDS[rabbit]:-}"
  "watch_$CHAOS_STORE"
}
