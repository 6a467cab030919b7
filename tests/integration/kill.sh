#!/bin/bash
# A relay killed with -9 again and again under load, and started again each time, loses nothing,
# and forwards nothing twice that is not marked in doubt, which a kill makes of no more copies than
# `unconfirmed` says: with a classic and with a quorum work queue, a third of the messages being duplicates.
#
# Set before: ONLYONCE_KILLS (15), ONLYONCE_KILL_MESSAGES (5000), for each kind of queue.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

KILLS=${ONLYONCE_KILLS:-15}
MESSAGES=${ONLYONCE_KILL_MESSAGES:-5000}
UNCONFIRMED=20
CONFIG=$RIG_DIR/relay.yaml

# configure KIND : the shortest session, because a dead relay's claims are waited for as long.
configure() {
  RIG_SESSION=3s rig_config_head
  cat <<END
    timeout: 900ms
routes:
  - name: $1
    from: {queue: $1.in}
    to: {queue: $1.work, queue_type: $1, unconfirmed: $UNCONFIRMED}
    key: [message_id]
    window: 24h
END
}

# Kills the relay as soon as the work queue holds so many messages, or, with 0, as soon as it is
# started; in any case a random moment later.
kill_at() {
  [ "$2" = 0 ] || rig_wait_depth "$1.work" "$2" 10
  sleep "0.0$((RANDOM % 90 + 10))"
  if rig_relay_is_running relay; then
    rig_relay_kill relay
  else
    rig_fail "the relay with the $1 queue ran until it was killed"
  fi
}

# The kills are spread over the messages; one in five comes during the start.
kill_often() {
  local kind=$1 i
  for ((i = 1; i <= KILLS; i++)); do
    rig_relay_start relay "$CONFIG"
    if ((i % 5 == 0)); then
      kill_at "$kind" 0
    else
      kill_at "$kind" $((MESSAGES * i / (KILLS + 1)))
    fi
  done
}

# Nothing waits in the inbound queue, and nothing that the relay holds is pending.
is_done() {
  rig_wait_empty "$1.in" 1 && none_pending "$1"
}

# Twice, because a message may be on its way from the one to the other.
finishes() {
  rig_wait_until "is_done $1" 60 && sleep 1 && rig_wait_until "is_done $1" 60
}

accounts() {
  rig_account --work "$1.work" --in "$1.in" --park "$1.in.parked" --count "$MESSAGES" \
    --prefix "$1-" --max-parked 0 --idle 2000
}

none_pending() {
  rig_onlyonce list -c "$CONFIG" "$1" --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
}

# The number in account's last line.
accounted() {
  sed -n "s/^account .*\b$1=\([0-9]*\).*/\1/p" "$RIG_DIR/check.out"
}

torture() {
  local kind=$1 loader started=$SECONDS marked
  configure "$kind" >"$CONFIG"
  rig_queues declare "$kind.in" x-queue-type=quorum || rig_die "the inbound queue is made"
  rig_load --queue "$kind.in" --count "$MESSAGES" --duplicates 33 --prefix "$kind-" \
    >"$RIG_DIR/load.log" 2>&1 &
  loader=$!
  kill_often "$kind"
  rig_relay_start relay "$CONFIG"
  wait $loader || rig_fail "$kind: the load was taken"
  rig_check "$kind: after $KILLS kills the last relay finishes the work" finishes "$kind"
  rig_check "$kind: SIGTERM ends the last relay" rig_relay_stop relay
  rig_check "$kind: none is lost, none comes twice unmarked, none is left" accounts "$kind"
  marked=$(accounted marked)
  rig_check "$kind: a kill leaves no more in doubt than are unconfirmed" [ "$marked" -le $((KILLS * UNCONFIRMED)) ]
  rig_check "$kind: nothing is pending" none_pending "$kind"
  echo "   $KILLS kills, $MESSAGES messages, $marked of them in doubt, $((SECONDS - started)) s"
}

rig_redis_start --appendonly no
rig_rabbit_start
torture classic
torture quorum
