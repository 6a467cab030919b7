#!/bin/bash
# Copies that the broker does not take: unroutable ones, which it returns, and those for a full
# queue, which it refuses.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

# route NAME TO [LINE...]
route() {
  local name=$1 to=$2 line
  shift 2
  echo "  - name: $name"
  echo "    from: {queue: $name.in, queue_type: classic}"
  echo "    to: {$to}"
  echo "    park: {queue_type: classic}"
  echo "    key: [message_id]"
  echo "    window: 24h"
  for line; do
    echo "    $line"
  done
}

configure() {
  rig_config_head
  echo "routes:"
  route gone "queue: gone.work"
  route heals "queue: heals.work" "hold_limit: 1s"
  route parks "queue: parks.work" "on_unroutable: park"
  route topic "exchange: topic.out"
  route holds "exchange: holds.out, routing_key: fixed" "on_unroutable: hold"
  route full "queue: full.work, declare: false, queue_type: quorum" # so that a nack is certain
  route fan "exchange: fan.out"
}

make_queues() {
  rig_queues exchange topic.out topic && rig_queues declare topic.work &&
    rig_queues bind topic.work topic.out good && rig_queues exchange holds.out direct &&
    rig_queues declare full.work x-max-length=1 x-overflow=reject-publish &&
    rig_queues exchange fan.out fanout && rig_queues declare fan.full x-max-length=1 \
    x-overflow=reject-publish && rig_queues declare fan.open &&
    rig_queues bind fan.full fan.out x && rig_queues bind fan.open fan.out x
}

# While it tries again it is pending for a moment; had it been forwarded, it would stay so.
is_not_forwarded() {
  rig_wait_until "has_status $1 $2 not_found" 10
}

# How often the log says something of a route.
said() {
  grep -c "msg=\"$1\" route=$2 " "$RIG_DIR/relay.log"
}

has_status() {
  rig_onlyonce status -c "$CONFIG" "$1" "$2" | jq -e ".state == \"$3\""
}

is_said_once() {
  rig_wait_until "grep -q 'msg=\"$1\" route=$2 ' '$RIG_DIR/relay.log'" 30
  [ "$(said "$1" "$2")" = 1 ]
}

is_said() {
  rig_wait_until "grep -q 'msg=\"$1\" route=$2' '$RIG_DIR/relay.log'" 30
}

rig_redis_start --appendonly no
rig_rabbit_start
make_queues || rig_die "the queues are made"
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in gone heals parks topic holds full fan; do
  rig_relay_ready relay $name.in
done

# ---- unroutable ----

rig_queues delete gone.work && rig_queues delete heals.work && rig_queues delete parks.work
rig_post --queue gone.in --message-id g1 --body first
rig_post --queue gone.in --message-id g1 --body second
rig_post --queue gone.in --message-id g2 --body third
rig_post --queue parks.in --message-id p1
rig_post --exchange "" --queue topic.in --message-id t1
rig_post --queue holds.in --message-id h1
rig_check "the work queue is deleted: that is said once" \
  is_said_once "copies are refused, holding their messages" gone
rig_check "its message is not forwarded" is_not_forwarded gone g1

rig_check "on_unroutable: park: parked after three returns, to.queue" rig_takes parks.in.parked 1 \
  '.[0] | .message_id == "p1" and .headers["x-onlyonce-reason"] == "unroutable"'
rig_check "parked after three returns, to.exchange by default" rig_takes topic.in.parked 1 \
  '.[0].headers["x-onlyonce-reason"] == "unroutable"'
rig_queues bind topic.work topic.out topic.in
rig_post --queue topic.in --message-id t2
rig_check "the exchange has a binding again: a message passes" rig_takes topic.work 1 \
  '.[0] | .message_id == "t2" and (.headers | has("x-onlyonce-in-doubt") | not)'

rig_queues declare gone.work
rig_check "the work queue is there again: the held messages arrive, each once" \
  rig_takes gone.work 2 'map(.message_id) | sort == ["g1","g2"]'
rig_post --queue gone.in --message-id g3
rig_check "their duplicate does not, and nothing is in doubt" rig_takes gone.work 1 \
  '.[0].message_id == "g3" and (.[0].headers | has("x-onlyonce-in-doubt") | not)'

rig_queues declare holds.work && rig_queues bind holds.work holds.out fixed
rig_check "on_unroutable: hold, to.exchange: held until a queue is bound" \
  rig_takes holds.work 1 '.[0].message_id == "h1" and .[0].routing_key == "fixed"'

rig_post --queue heals.in --message-id e1
rig_check "after hold_limit the messages are given back" \
  is_said "held for longer than hold_limit, giving everything back to the broker" heals
rig_wait_depth heals.work 1 60 2>/dev/null
rig_check "and the missing work queue is made, and gets them" rig_takes heals.work 1 \
  '.[0].message_id == "e1"'

# ---- put back ----

rig_post --queue parks.in --message-id p2
rig_wait_depth parks.in.parked 1 30
rig_queues declare parks.work
rig_take parks.in.parked --count 1 --move-to parks.in >/dev/null
rig_check "put back, an unroutable message arrives with attempt 2" rig_takes parks.work 1 \
  '.[0] | .message_id == "p2" and .headers["x-onlyonce-attempt"] == 2 and
    (.headers | has("x-onlyonce-reason") | not)'

# ---- full queues ----

rig_post --queue full.in --message-id f1
rig_wait_depth full.work 1 30
rig_post --queue full.in --message-id f2
rig_post --queue full.in --message-id f2
rig_post --queue full.in --message-id f3
rig_check "a full queue is said once" is_said_once "copies are refused, holding their messages" full
rig_check "its messages wait" is_not_forwarded full f3
rig_check "they arrive when there is room, each once and none in doubt" rig_takes full.work 3 \
  '(map(.message_id) | sort) == ["f1","f2","f3"] and
   all(.headers | has("x-onlyonce-in-doubt") | not)'
rig_post --queue full.in --message-id f4
rig_check "and their duplicates do not" rig_takes full.work 1 '.[0].message_id == "f4"'

rig_post --queue fan.in --message-id x1
rig_wait_depth fan.open 1 30
rig_post --queue fan.in --message-id x2
rig_wait_depth fan.open 2 30
rig_check "one of two queues was full: it gets its messages when there is room" \
  rig_takes fan.full 2 'map(.message_id) == ["x1","x2"]'
rig_check "and what the other got again is marked in doubt" rig_takes fan.open 3 \
  'map(.message_id) == ["x1","x2","x2"] and
   map(.headers["x-onlyonce-in-doubt"]) == [null,null,true]'
