#!/bin/bash
# What a service manager hears of the relay: socat listens in its place.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

HEARD=$RIG_DIR/heard # one line for each that came
AT=$RIG_DIR/socket

# listen ADDRESS : from now on, what comes goes to a new $HEARD.
listen() {
  : >"$HEARD"
  setpriv --pdeathsig TERM socat -u "$1" "OPEN:$HEARD,append" >>"$RIG_DIR/socat.log" 2>&1 &
  RIG_PIDS[socat]=$!
}

listen_at_path() {
  listen "UNIX-RECV:$AT"
  rig_wait_until "[ -S '$AT' ]" 20
}

deafen() {
  rig_stop_pid "${RIG_PIDS[socat]}" 5
  unset 'RIG_PIDS[socat]'
  rm -f "$AT"
}

# configure WINDOW [BROKER] : one route.
configure() {
  {
    rig_config_head
    cat <<END
routes:
  - {name: pay, from: {queue: in}, to: {queue: out}, key: [message_id], window: $1}
END
  } | sed "s|urls: .*|urls: [\"${2:-$RIG_AMQP_URL}\"]|" >"$RIG_DIR/relay.yaml"
}

# hears LINE : soon. What was sent may be on its way from the listener to the file.
hears() {
  rig_wait_until "grep -qx '$1' '$HEARD'" 30 && return 0
  cat "$HEARD"
  return 1
}

# heard_are LINE... : these of what begins so, in this order, and no others.
heard_are() {
  grep -E '^(READY|RELOADING|STOPPING)' "$HEARD" | diff - <(printf '%s\n' "$@")
}

last_status() {
  grep '^STATUS=' "$HEARD" | tail -n 1
}

count() {
  grep -cx "$1" "$HEARD"
}

# logged NAME COUNT : as many lines about the service manager.
logged() {
  [ "$(grep -c 'service manager' "$RIG_DIR/$1.log")" = "$2" ]
}

rig_redis_start --appendonly no
rig_rabbit_start
export NOTIFY_SOCKET=$AT

# ---- start, reload, stop ----

configure 24h
listen_at_path
rig_relay_start one "$RIG_DIR/relay.yaml"
rig_check "it says when it is ready" hears READY=1
rig_check "then it consumes" test "$(rig_queue_consumers in)" = 1
rig_check "its status is for people" hears 'STATUS=relays, routes: 1'
rig_relay_signal one HUP
rig_check "a reload is told, and its end, though nothing differs" rig_wait_until "heard_are READY=1 RELOADING=1 READY=1" 30
rig_check "with its time" grep -qE '^MONOTONIC_USEC=[1-9][0-9]*$' "$HEARD"
sed -i 's/24h/soon/' "$RIG_DIR/relay.yaml"
rig_relay_signal one HUP
rig_check "that of a fault, too" rig_wait_until "heard_are READY=1 RELOADING=1 READY=1 RELOADING=1 READY=1" 30
rig_check "which the status keeps" hears "STATUS=relays, routes: 1; the last reload was refused: see the log"
configure 36h
rig_relay_signal one HUP
rig_check "of a change it is told when that is in force" rig_wait_until \
  "[ \$(count READY=1) = 4 ] && grep -q 'changed configuration is in force' '$RIG_DIR/one.log'" 30
rig_check "which the status tells meanwhile" hears 'STATUS=changes to another configuration'
rig_check "the good one clears the refusal" rig_wait_until "[ \"\$(last_status)\" = 'STATUS=relays, routes: 1' ]" 30
rig_relay_stop one
rig_check "the stop is told" hears STOPPING=1
rig_check "and nothing after it but what it waits for" rig_wait_until \
  "[ \"\$(tail -n 1 '$HEARD')\" = 'STATUS=stops: waits for what is on its way' ]" 10
rig_check "without a watchdog nothing feeds one" test "$(count WATCHDOG=1)" = 0
deafen

# ---- an abstract socket ----

listen "ABSTRACT-RECV:$AT"
rig_wait_until "grep -qF '@$AT' /proc/net/unix" 20
NOTIFY_SOCKET=@$AT rig_relay_start abstract "$RIG_DIR/relay.yaml"
rig_check "an abstract socket hears it, too" hears READY=1
rig_relay_stop abstract
deafen

# ---- servers that are away, or refuse ----

rig_port
configure 24h "amqp://127.0.0.1:$RIG_PORT/"
listen_at_path
BEFORE=$SECONDS
rig_relay_start away "$RIG_DIR/relay.yaml"
rig_check "a broker that is away is waited for" hears 'STATUS=1 of 1 routes wait for their servers, the first is pay'
rig_check "but a start ends all the same" hears READY=1
rig_check "after 5 s" test $((SECONDS - BEFORE)) -ge 4
rig_relay_stop away
deafen

configure 24h "amqp://nobody:wrong@127.0.0.1:$RABBITMQ_NODE_PORT/"
listen_at_path
rig_check "a refused login" rig_exits 1 timeout 20 "$RIG_BUILD/onlyonce" run -c "$RIG_DIR/relay.yaml"
rig_check "is no start" rig_wait_until "heard_are STOPPING=1" 10
deafen

# ---- completions.queue alone is refused ----

configure 24h
echo "completions: {queue: reports}" >>"$RIG_DIR/relay.yaml"
listen_at_path
rig_relay_start reports "$RIG_DIR/relay.yaml"
rig_check "with completions.queue it is ready" hears READY=1
rig_check "its status is that of the routes" hears 'STATUS=relays, routes: 1'
rig_rabbitctl -q set_permissions guest '.*' '.*' '^in$' || rig_die "guest may read one queue alone"
rig_queues delete reports
rig_check "a completions.queue that is refused is waited for" rig_wait_until \
  "[ \"\$(last_status)\" = 'STATUS=relays, routes: 1; completions.queue is waited for' ]" 30
rig_relay_stop reports
rig_rabbitctl -q set_permissions guest '.*' '.*' '.*'
deafen

# ---- rubbish ----

configure 24h
for name in rubbish "$RIG_DIR/nobody" "@$RIG_DIR/nobody" /; do
  : >"$RIG_DIR/rubbish.log"
  NOTIFY_SOCKET=$name rig_relay_start rubbish "$RIG_DIR/relay.yaml"
  rig_relay_ready rubbish in
  sleep 2.5
  rig_check "\"${name/$RIG_DIR/...}\" as a socket: one line, and it relays" logged rubbish 1
  rig_relay_stop rubbish
done

# ---- the watchdog ----

listen_at_path
export WATCHDOG_USEC=2000000
TEST_PREFIX="$RIG_BUILD/tests/freeze --allow ${TEST_PREFIX:-}" rig_relay_start fed "$RIG_DIR/relay.yaml"
unset WATCHDOG_USEC
rig_check "the watchdog is fed" rig_wait_until "[ \$(count WATCHDOG=1) -ge 3 ]" 20
mkfifo "$RIG_DIR/thaw"
"$RIG_BUILD/tests/freeze" "$(rig_thread fed "0 pay")" <"$RIG_DIR/thaw" >"$RIG_DIR/freeze.out" 2>"$RIG_DIR/freeze.log" &
FREEZE=$!
exec 4>"$RIG_DIR/thaw"
rig_check "a worker's thread stands still" rig_wait_until "grep -q frozen '$RIG_DIR/freeze.out'" 20
sleep 20
FED=$(count WATCHDOG=1)
sleep 3
rig_check "it is fed for a while" test "$(count WATCHDOG=1)" -gt "$FED"
sleep 12
FED=$(count WATCHDOG=1)
sleep 3
rig_check "after 30 s no more" test "$(count WATCHDOG=1)" = "$FED"
exec 4>&-
wait "$FREEZE"
rig_check "the worker goes on, and it is fed" rig_wait_until "[ \$(count WATCHDOG=1) -gt $FED ]" 30
rig_relay_stop fed
deafen
