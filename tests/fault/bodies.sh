#!/bin/bash
# Messages that cannot be copied are set aside, and those behind them pass (faults 23, 25); replies find
# their way (fault 26); large bodies do not fill the memory (fault 29). Every other shape: tests/integration/metadata.sh.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

SIZE=$((16 * 1024 * 1024))
ROUND=20 # so many at a time are in the broker
ROUNDS=1
if fault_long; then
  ROUNDS=10
fi
MOST_MIB=400

# A header that nearly fills a frame: with it, there is no room for what the relay adds.
big_header() {
  head -c 131010 /dev/zero | tr '\0' h
}

# aside QUEUE ID : it was set aside, as it was.
aside() {
  rig_takes "$1" 1 ".[0].message_id == \"$2\" and .[0].headers[\"x-first-death-reason\"] == \"rejected\""
}

# body_limit [BYTES] : the broker's, from the next connection on; without, the one it began with. RabbitMQ 3 looks
# for it in its settings, and 4.0 for a copy that it made at its start.
body_limit() {
  rig_rabbitctl -q eval "application:set_env(rabbit, max_message_size, ${1:-$USUAL_LIMIT}),
    persistent_term:put(max_message_size, ${1:-$USUAL_LIMIT})." >/dev/null &&
    rig_rabbitctl -q close_all_connections "another limit" >/dev/null
}

in_total() {
  rig_wait_until "[ \"\$(rig_queue_total $1.in)\" = $2 ]" 40 && return 0
  echo "$1.in has $(rig_queue_total "$1.in")"
  return 1
}

rig_redis_start --appendonly no
fault_rabbit_start
USUAL_LIMIT=$(rig_rabbitctl -q eval "element(2, application:get_env(rabbit, max_message_size)).")
rig_queues declare kept.in || rig_die "the inbound queue is made"
{
  FAULT_SESSION=15s FAULT_TIMEOUT=4900ms fault_head # a slow answer is not to be taken for a lost connection
  fault_route odd "queue: odd.work"
  fault_route kept "queue: kept.work"
  FAULT_QUEUES=classic
  fault_route large "queue: large.work, queue_type: classic"
} >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in odd kept large; do
  rig_relay_ready relay $name.in
done

# ---- 23: headers that fill a frame ----

rig_post --queue odd.in --message-id full --header "big=$(big_header)"
rig_post --queue odd.in --message-id behind
rig_check "headers that leave no room: the message behind passes" rig_takes odd.work 1 \
  '.[0].message_id == "behind"'
rig_check "it is said" fault_is_said relay "cannot be relayed.*route=odd key=full.*rejected to the dead-letter"
# Nobody who uses rabbitmq-c can take it: so it is only counted.
rig_check "the message is set aside" rig_wait_depth odd.in.parked 1 30
rig_queues purge odd.in.parked
rig_check "no connection was lost" [ "$(fault_said relay 'connection lost')" = 0 ]

rig_queues delete odd.in.parked
rig_post --queue odd.in --message-id full --header "big=$(big_header)"
rig_check "the parking queue is gone: it is made anew, and the message is set aside" rig_wait_depth odd.in.parked 1 20
rig_queues purge odd.in.parked
fault_forget relay

rig_post --queue kept.in --message-id full --header "big=$(big_header)"
rig_post --queue kept.in --message-id behind
rig_check "where the inbound queue does not dead-letter, the message behind passes, too" \
  rig_takes kept.work 1 '.[0].message_id == "behind"'
rig_check "it is said that the message is held" fault_is_said relay "cannot be relayed.*route=kept key=full.*held"
rig_check "waiting is cheap, and quiet" fault_is_calm relay 3 0
rig_check "it is not lost" in_total kept 1

# ---- 25: a body that the broker takes no longer ----

rig_load --queue odd.in --count 1 --body-size 20000 --prefix before- >/dev/null
rig_wait_depth odd.work 1 20
fault_forget relay
rig_relay_signal relay STOP
rig_load --queue odd.in --count 1 --body-size 20000 --prefix large- >/dev/null
rig_post --queue odd.in --message-id behind-2
body_limit 10000
rig_relay_signal relay CONT
rig_check "a body above the broker's limit: what is behind it passes" rig_wait_depth odd.work 2 60
rig_check "it is said" fault_is_said relay "cannot be relayed.*route=odd key=large-0.*larger than the broker takes"
rig_check "the message is set aside" aside odd.in.parked large-0
rig_check "the broker was asked no more than it needs" \
  [ "$(fault_said relay 'connection lost.*route=odd link=sink')" -le 2 ]
rig_take odd.work >"$RIG_DIR/taken.json"
rig_check "what is behind it arrived" jq -es 'any(.message_id == "behind-2")' "$RIG_DIR/taken.json"
body_limit

# ---- 26: direct reply-to ----

rig_check "a question by direct reply-to is answered" "$RIG_BUILD/tests/ask" --amqp "$RIG_AMQP_URL" \
  --in odd.in --work odd.work

# ---- 29: large bodies ----

for ((round = 0; round < ROUNDS; round++)); do
  first=$((round * ROUND))
  rig_load --queue large.in --count $ROUND --first $first --body-size $SIZE --prefix large- >/dev/null
  rig_check "$ROUND bodies of 16 MiB, from $first on: all arrive" fault_arrived large $ROUND 120
  rig_check "each once" rig_account --idle 1000 --work large.work --in large.in --park large.in.parked \
    --count $ROUND --first $first --prefix large- --max-parked 0 --max-marked 0
done
rig_check "the relay's memory stays below $MOST_MIB MiB ($(fault_peak relay))" \
  [ "$(fault_peak relay)" -lt $MOST_MIB ]
rig_check "SIGTERM ends it" rig_relay_stop relay
