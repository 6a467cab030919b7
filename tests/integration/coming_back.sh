#!/bin/bash
# Messages that come back on purpose, and those that come back by mistake: retries by way of a
# dead-letter exchange, parked messages put back, loops, and copies of an earlier life of their key.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
rig_port
HTTP=$RIG_PORT

configure() {
  echo "admin: {listen: \"127.0.0.1:$HTTP\"}"
  rig_config_head
  cat <<'END'
routes:
  - name: jobs
    from: {exchange: jobs, queue: jobs.in}
    to: {queue: jobs.work, declare: false}
    key: [message_id]
    window: 24h
  - name: checked
    from: {exchange: checked, queue: checked.in, queue_type: classic}
    to: {queue: checked.work, declare: false}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    on_dead_lettered: check
  - name: events
    from: {exchange: events, queue: events.in, queue_type: classic}
    to: {exchange: events.out}
    park: {queue_type: classic}
    key: ["routing_key + message_id"]
    window: 24h
  - name: next
    from: {queue: next.in, queue_type: classic}
    to: {queue: next.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
END
}

# The usual topology of retries: a failed job waits in NAME.delay, and then goes to the exchange
# that new jobs go to.
retries() {
  rig_queues declare "$1.work" "x-queue-type=$2" x-dead-letter-exchange= \
    "x-dead-letter-routing-key=$1.delay" &&
    rig_queues declare "$1.delay" x-message-ttl=200 "x-dead-letter-exchange=$1"
}

# fails ROUTE FILTER : the worker takes one job, of which the filter is true, and fails.
fails() {
  rig_take "$1.work" --count 1 --settle reject >"$RIG_DIR/taken.json"
  jq -es "$2" "$RIG_DIR/taken.json" || {
    cat "$RIG_DIR/taken.json"
    return 1
  }
}

# fence ROUTE COUNT FILTER : whatever came before it was decided.
fence() {
  FENCES=$((${FENCES:-0} + 1))
  rig_post --queue "$1.in" --message-id "fence-$FENCES" &&
    rig_takes "$1.work" "$2" "($3) and .[-1].message_id == \"fence-$FENCES\""
}

has_status() {
  rig_onlyonce status -c "$CONFIG" "$1" "$2" | jq -e "$3"
}

put_back() {
  rig_take "$1.in.parked" --count 1 --move-to "$1.in"
}

rig_redis_start --appendonly no
rig_rabbit_start
{
  retries jobs quorum && retries checked classic &&
    rig_queues exchange events.out topic &&
    rig_queues declare next.dead x-dead-letter-exchange= x-dead-letter-routing-key=next.in
} || rig_die "the queues are made"
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in jobs checked next; do
  rig_relay_ready relay $name.in
done

# ---- retries ----

rig_post --exchange jobs --routing-key pay --message-id r1 --body work
rig_check "a first copy has no attempt" fails jobs '.[0] | .message_id == "r1" and
  (.headers | has("x-onlyonce-attempt") | not)'
cp "$RIG_DIR/taken.json" "$RIG_DIR/first.json"
rig_check "failed once, it comes again with x-onlyonce-attempt 2" \
  fails jobs '.[0] | .message_id == "r1" and .headers["x-onlyonce-attempt"] == 2 and
    (.headers | has("x-death") or has("x-first-death-queue") | not)'
rig_post --exchange jobs --routing-key pay --message-id r1 --body duplicate
rig_check "failed twice, it comes again with x-onlyonce-attempt 3, and a duplicate does not" \
  rig_takes jobs.work 1 '.[0] | .message_id == "r1" and .headers["x-onlyonce-attempt"] == 3 and
    .body == "work"'
cat "$RIG_DIR/first.json" >>"$RIG_DIR/taken.json"
rig_check "its first-seen stays" jq -es 'map(.headers["x-onlyonce-first-seen"]) | .[0] == .[1]' \
  "$RIG_DIR/taken.json"
rig_check "its record counts the attempts" rig_wait_until \
  "has_status jobs r1 '.state == \"forwarded\" and .attempt == 3'" 10
rig_check "and nothing else came" fence jobs 1 true

rig_post --exchange checked --routing-key pay --message-id c1
rig_check "on_dead_lettered: check: the first copy goes" fails checked '.[0].message_id == "c1"'
rig_check "and its retry is parked" eval "rig_take checked.in.parked --count 1 --settle requeue >\"$RIG_DIR/taken.json\""
rig_check "with reason dead_lettered" jq -es '.[0] | .headers["x-onlyonce-reason"] == "dead_lettered" and
  .message_id == "c1"' "$RIG_DIR/taken.json"
rig_check "and not forwarded" fence checked 1 true
put_back checked >/dev/null
rig_check "put back, it is forwarded with attempt 2" rig_takes checked.work 1 \
  '.[0] | .message_id == "c1" and .headers["x-onlyonce-attempt"] == 2 and
    (.headers | has("x-onlyonce-reason") or has("x-onlyonce-exchange") | not)'

# ---- loops ----

rig_post --exchange jobs --routing-key pay --message-id l1 --body loop
rig_take jobs.work --count 1 --move-to jobs.in >/dev/null
rig_check "a copy moved back without x-death is parked, reason loop" \
  rig_takes jobs.in.parked 1 '.[0] | .message_id == "l1" and .body == "loop" and
    .headers["x-onlyonce-reason"] == "loop" and .headers["x-onlyonce-routing-key"] == "jobs.in"'
rig_post --exchange jobs --routing-key pay --message-id l2 --body loop
rig_take jobs.work --count 1 --move-to jobs.in >/dev/null
rig_take jobs.in.parked --count 1 --move-to jobs.in --settle requeue >/dev/null
put_back jobs >/dev/null
rig_check "put back twice, it is forwarded once" fence jobs 2 \
  '.[0].message_id == "l2" and .[0].headers["x-onlyonce-attempt"] == 2'

# ---- what does not fit ----

rig_post --exchange jobs --routing-key pay --message-id s1 --body old
rig_wait_depth jobs.work 1 30
rig_wait_until "has_status jobs s1 '.state == \"forwarded\"'" 10 # before that it is not released
rig_onlyonce release -c "$CONFIG" jobs s1 >/dev/null
rig_post --exchange jobs --routing-key pay --message-id s1 --body new
rig_wait_depth jobs.work 2 30
rig_check "a retry of an earlier life of its key" fails jobs '.[0].body == "old"'
rig_check "is parked, reason stale" rig_takes jobs.in.parked 1 \
  '.[0].body == "old" and .[0].headers["x-onlyonce-reason"] == "stale"'
rig_check "and the newer one is there once" fence jobs 2 '.[0].body == "new"'

for attempt in abc 0 -1 4294967296; do
  rig_post --queue jobs.in --message-id b1 --header x-onlyonce-route=jobs \
    --number x-onlyonce-first-seen=1 --header "x-onlyonce-attempt=$attempt"
done
rig_post --queue jobs.in --message-id b1 --header x-onlyonce-route=jobs
rig_check "attempts and first-seen that make no sense are parked, reason bad_header" \
  rig_takes jobs.in.parked 5 'all(.headers["x-onlyonce-reason"] == "bad_header")'
rig_check "and not forwarded" fence jobs 1 true

# A first-seen beyond any calendar: anybody can write one into a message that looks parked.
no_ages() {
  curl -fsS "http://127.0.0.1:$HTTP/metrics" >"$RIG_DIR/metrics" &&
    awk '$1 == "onlyonce_duplicate_age_seconds_sum{route=\"jobs\"}" { ok = $2 < 1000; print } END { exit !ok }' "$RIG_DIR/metrics"
}

rig_post --queue jobs.in --message-id t1 --header x-onlyonce-route=jobs --header x-onlyonce-reason=none \
  --number x-onlyonce-first-seen=9223372036854775807
rig_post --queue jobs.in --message-id t1
rig_check "of the far future: it goes, and its duplicate does not" fence jobs 2 \
  '.[0] | .message_id == "t1" and .headers["x-onlyonce-attempt"] == 2'
rig_check "and no duplicate is taken for ages old" no_ages

rig_post --queue jobs.in --message-id o1 --header x-onlyonce-route=other \
  --header x-onlyonce-attempt=7 --header x-onlyonce-in-doubt=no --header mine=kept
rig_check "another route's marks are no matter, and are replaced" fence jobs 2 \
  '.[0].headers | .["x-onlyonce-route"] == "jobs" and .mine == "kept" and
    (has("x-onlyonce-attempt") or has("x-onlyonce-in-doubt") | not)'

# A job of route "jobs" that failed, and whose dead-letter queue is the inbound queue of "next".
rig_post --queue next.in --message-id n1 --body first
rig_post --queue next.dead --message-id n1 --body failed --header x-onlyonce-route=jobs
rig_take next.dead --count 1 --settle reject >/dev/null
rig_check "a duplicate that is another route's retry is parked, reason other_route" \
  rig_takes next.in.parked 1 '.[0].body == "failed" and
    .[0].headers["x-onlyonce-reason"] == "other_route"'
rig_check "and the first of that key went through" fence next 2 '.[0].body == "first"'

# A parked message that is put back by way of the default exchange, and so with another routing key.
origin_is_kept() {
  rig_queues declare events.work && rig_queues bind events.work events.out good.a &&
    put_back events >/dev/null &&
    rig_takes events.work 1 '.[0].routing_key == "good.a" and
      .[0].headers["x-onlyonce-key"] == "good.a,e1" and .[0].headers["x-onlyonce-attempt"] == 2'
}

rig_relay_ready relay events.in
rig_post --exchange events --routing-key good.a --message-id e1
rig_check "unroutable: parked" rig_wait_depth events.in.parked 1 40
rig_check "put back by any way, it goes where it was to go" origin_is_kept
