#!/bin/bash
# SIGTERM under load, again and again (fault 28): the relay ends in time and with 0, and what it
# leaves behind is either not begun or in doubt. During an alarm: tests/integration/alarm.sh.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

STOPS=20
COUNT=8000

# The numbers in the log's last "route ends".
ended() {
  sed -n "s/.*msg=\"route ends\".* $1=\([0-9]*\).*/\1/p" "$RIG_DIR/relay.log" | tail -n 1
}

# What is pending now was published, and not confirmed: at most `unconfirmed` messages.
pending_is_bounded() {
  fault_pending stop >"$RIG_DIR/pending"
  pending=$(wc -l <"$RIG_DIR/pending")
  [ "$pending" -le 500 ]
}

no_session() {
  [ -z "$(rig_redis_cli --scan --pattern 'onlyonce:session:*')" ]
}

stopping() {
  [ "$(curl -s -m 5 "http://127.0.0.1:$PORT/readyz" | jq -r .detail)" = stopping ]
}

# Stops it once so many copies arrived, which may be so already, and it has begun to listen to signals; all is well
# with what it leaves. The relay of turn i is the one that says for the i-th time that it starts.
stop_at() {
  rig_wait_until "[ \"\$(fault_said relay 'onlyonce starts')\" -ge $i ]" 30
  rig_wait_depth stop.work "$1" 30 || echo "there are not $1 copies"
  sleep "0.0$((RANDOM % 90 + 10))"
  local before
  before=$(date +%s%3N)
  rig_relay_stop relay 10 || return 1
  longest=$(($(date +%s%3N) - before > longest ? $(date +%s%3N) - before : longest))
  pending_is_bounded || {
    echo "$pending are pending"
    return 1
  }
  left=$((left + pending))
  no_session || echo "a session is left"
  no_session
}

rig_redis_start --appendonly no
fault_rabbit_start
fault_proxy far "$RABBITMQ_NODE_PORT"
rig_port
PORT=$RIG_PORT
{
  printf 'admin: {listen: "127.0.0.1:%s"}\n' "$PORT"
  FAULT_BROKER=${FAULT_PORTS[far]} fault_head
  fault_route stop "queue: stop.work"
} >"$CONFIG"
rig_queues declare stop.in x-queue-type=quorum || rig_die "the inbound queue is made"
rig_load --queue stop.in --count $COUNT --duplicates 30 --rate 3000 --prefix stop- >/dev/null &
loader=$!

longest=0
left=0
for ((i = 1; i <= STOPS; i++)); do
  rig_relay_start relay "$CONFIG"
  rig_check "SIGTERM under load, $i of $STOPS: ends in time, with 0, and leaves no session" \
    stop_at $((COUNT * i / (STOPS + 1)))
done
echo "# the longest took $longest ms; $left records were left pending"
wait $loader || rig_fail "the load was taken"
rig_relay_start relay "$CONFIG"
rig_check "the last relay finishes the work" fault_arrived stop $COUNT 60
rig_check "none is missing, none twice and unmarked" fault_in_order relay stop $COUNT stop- \
  --max-marked "$left"

# ---- no confirm comes any more ----

rig_relay_start relay "$CONFIG"
rig_relay_ready relay stop.in
fault_tell far "delay 2000" # so long it takes a copy to be published, and as long its confirm to come
rig_load --queue stop.in --count 100 --prefix silent- >/dev/null
rig_wait_until "[ \"\$(fault_pending stop | wc -l)\" -ge 1 ]" 20
fault_tell far mute-replies
rig_relay_signal relay TERM
rig_check "confirms that never come: it is not ready while it waits for them" rig_wait_until stopping 5
rig_check "it ends in time all the same, with 0" rig_relay_stop relay 11
rig_check "what was published stays pending" pending_is_bounded
rig_check "and only that is" [ "$pending" -ge 1 ]
fault_tell far cut
fault_tell far pass
before=$SECONDS
rig_relay_start relay "$CONFIG"
rig_check "the next one takes it over at once, without waiting for a session to end" \
  fault_arrived stop 100
echo "# after $((SECONDS - before)) s"
rig_check "none is missing, none twice and unmarked" fault_in_order relay stop 100 silent-
