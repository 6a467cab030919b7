#!/bin/bash
# What becomes of duplicates: published, answered, remembered; of conflicts; and windows that
# messages bring, or that slide. And what the program says of messages without keys.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
LOG=$RIG_DIR/relay.log
ROUTES="pub away ask park drop forward window slide keyless"
declare -A FENCES=()

# route NAME FIELD... : from NAME.in to NAME.work.
route() {
  cat <<END
  - name: $1
    from: {queue: $1.in, queue_type: classic}
    to: {queue: $1.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
END
  shift
  printf '    %s\n' "$@"
}

configure() {
  RIG_SESSION=15s rig_config_head
  printf '%s\n' '    timeout: 4900ms' 'log: {level: debug}' 'completions: {queue: reports}' 'routes:'
  route pub 'on_duplicate: publish' 'duplicates: {exchange: dups, routing_key: again}' 'reply: true'
  route away 'on_duplicate: publish' 'duplicates: {exchange: nowhere}'
  route ask 'reply: true'
  route park 'fingerprint: body:json'
  route drop 'fingerprint: body' 'on_conflict: drop' 'on_duplicate: publish' \
    'duplicates: {exchange: dups, routing_key: again}' 'reply: true'
  route forward 'fingerprint: body' 'on_conflict: forward'
  route window 'window_header: x-window-ms' 'max_window: 2h'
  route slide 'sliding: true'
  route keyless
}

topology() {
  rig_queues declare answers x-queue-type=classic &&
    rig_queues declare dups.q x-queue-type=classic &&
    rig_queues exchange dups direct && rig_queues bind dups.q dups again &&
    rig_queues exchange nowhere fanout
}

said() {
  rig_wait_until "grep -q -- '$1' '$LOG'" 10 && return 0
  echo "the log does not say: $*"
  return 1
}

# counted ROUTE NAME COUNT : by the line that the route ends with.
counted() {
  grep 'msg="route ends"' "$LOG" | grep -q "route=$1 .* $2=$3\( \|\$\)" && return 0
  grep 'msg="route ends"' "$LOG" | grep "route=$1 "
  return 1
}

# first ROUTE ID OPTION... : posts it, takes its copy, and waits until it is recorded.
first() {
  local route=$1 id=$2
  shift 2
  rig_post --queue "$route.in" --message-id "$id" "$@" &&
    rig_takes "$route.work" 1 ".[0].message_id == \"$id\"" &&
    rig_wait_until "rig_redis_cli get onlyonce:key:$route:$id | grep -q '^2F'" 30
}

# again ROUTE ID OPTION... : posts it once more.
again() {
  local route=$1 id=$2
  shift 2
  rig_post --queue "$route.in" --message-id "$id" "$@"
}

# fenced ROUTE : whatever came before it was not forwarded.
fenced() {
  FENCES[$1]=$((${FENCES[$1]:-0} + 1))
  rig_post --queue "$1.in" --message-id "fence-${FENCES[$1]}" &&
    rig_takes "$1.work" 1 ".[0].message_id == \"fence-${FENCES[$1]}\""
}

# lives ROUTE ID LEAST MOST : the ms that the record has to live.
lives() {
  local ttl
  ttl=$(rig_redis_cli pttl "onlyonce:key:$1:$2")
  [ "$ttl" -gt "$3" ] && [ "$ttl" -le "$4" ] && return 0
  echo "the record of $2 lives for $ttl ms, not from $3 to $4"
  return 1
}

has_status() {
  rig_onlyonce status -c "$CONFIG" "$1" "$2" >"$RIG_DIR/status" && jq -e "$3" "$RIG_DIR/status" && return 0
  cat "$RIG_DIR/status"
  return 1
}

# becomes ROUTE ID FILTER : within some seconds.
becomes() {
  rig_wait_until "has_status $1 $2 '$3'" 30 || has_status "$1" "$2" "$3"
}

rig_redis_start --appendonly no
rig_rabbit_start
configure >"$CONFIG"
rig_check "exchanges and queues are made" topology
rig_check "check --connect looks for the duplicates' exchange" \
  rig_exits 0 rig_onlyonce check --connect -c "$CONFIG"
rig_check "and names it" grep -q 'exchange dups (duplicates)' "$RIG_DIR/out"
sed 's/exchange: nowhere/exchange: missing/' "$CONFIG" >"$RIG_DIR/missing.yaml"
rig_check "an exchange that is missing fails the check" \
  rig_exits 1 rig_onlyonce check --connect -c "$RIG_DIR/missing.yaml"

STARTED=$SECONDS
rig_relay_start relay "$CONFIG"
for name in $ROUTES; do
  rig_relay_ready relay "$name.in"
done
# Looked at in the end: a warning comes once a minute.
rig_check "messages without a key are forwarded" rig_post --queue keyless.in --count 30

# ---- published ----

rig_check "the first is forwarded" first pub a --header x-shop=north --body one
rig_check "its duplicate comes" again pub a --header x-shop=north --body two --correlation-id c1
rig_check "a duplicate is published with its own content and our headers" rig_takes dups.q 1 '
  .[0] | .exchange == "dups" and .routing_key == "again" and .message_id == "a" and .body == "two" and
  .correlation_id == "c1" and .headers["x-shop"] == "north" and
  .headers["x-onlyonce-route"] == "pub" and .headers["x-onlyonce-key"] == "a" and
  .headers["x-onlyonce-state"] == "forwarded" and .headers["x-onlyonce-duplicates"] == 1 and
  (.headers["x-onlyonce-first-seen"] | tonumber) > 1600000000000 and
  (.headers | has("x-onlyonce-attempt") | not) and (.headers | has("x-onlyonce-in-doubt") | not)'
rig_check "more duplicates come at once" again pub a --count 3
rig_check "each says how many there are" rig_takes dups.q 3 \
  '[.[].headers["x-onlyonce-duplicates"]] == [2, 3, 4]'
rig_check "the record counts them" becomes pub a '.duplicates == 4 and .last_duplicate_at != null'
rig_check "a duplicate is not forwarded" fenced pub
rig_check "a completed key" rig_onlyonce complete -c "$CONFIG" pub a --result '{"receipt":7}'
rig_check "has duplicates" again pub a
rig_check "that say so" rig_takes dups.q 1 '.[0].headers["x-onlyonce-state"] == "completed"'

# ---- published and not confirmed: held, and nothing is lost ----

rig_check "a first of a route whose duplicates go nowhere" first away a
rig_check "and its duplicate" again away a --body kept
rig_check "that comes back is said" rig_wait_until "grep -q 'copies are refused.*to=nowhere' '$LOG'" 30
rig_check "others go on" first away b
rig_check "it is not acknowledged" test "$(rig_queue_depth away.in)" = 0
rig_check "once a queue takes it" rig_queues bind dups.q nowhere x
rig_check "it is published" rig_takes dups.q 1 \
  '.[0] | .body == "kept" and .exchange == "nowhere" and .routing_key == "away.in"'

# ---- answered ----

first ask a --reply-to answers --correlation-id first >/dev/null
rig_check "a duplicate that asks" again ask a --reply-to answers --correlation-id c2 --body x
rig_check "is answered with the status of its key" rig_takes answers 1 '.[0] |
  .correlation_id == "c2" and .content_type == "application/json" and .headers == {} and
  .message_id == null and (.body | fromjson | .route == "ask" and .key == "a" and
  .state == "forwarded" and .duplicates == 1 and .expires_in_ms > 86000000)'
rig_check "a duplicate without a correlation_id" again ask a --reply-to answers
rig_check "is answered without" rig_takes answers 1 '.[0].correlation_id == null'
rig_onlyonce complete -c "$CONFIG" ask a --result '{"receipt":7}'
rig_check "a duplicate of a completed key" again ask a --reply-to answers
rig_check "is answered with its result" rig_takes answers 1 \
  '.[0].body | fromjson | .state == "completed" and .result == {"receipt":7} and .duplicates == 3'
ask() {
  "$RIG_BUILD/tests/await_reply" --amqp "$RIG_AMQP_URL" "$@" >"$RIG_DIR/answer"
}
rig_check "a direct reply-to" ask --queue ask.in --message-id a --correlation-id d1
rig_check "is answered, too" test "$(sed -n '1p;2p' "$RIG_DIR/answer" | tr '\n' ' ')" = "d1 application/json "
sed -n 3p "$RIG_DIR/answer" >"$RIG_DIR/answer.json"
rig_check "with the same" jq -e '.key == "a" and .state == "completed"' "$RIG_DIR/answer.json"
refused_four() {
  [ "$(grep -c 'a duplicate is not answered.*route=ask key=a reply_to=' "$LOG")" = 4 ]
}
rig_check "a work queue as reply_to" again ask a --reply-to ask.work
rig_check "another route's inbound queue" again ask a --reply-to keyless.in
rig_check "its parking queue" again ask a --reply-to park.in.parked
rig_check "the queue of reports" again ask a --reply-to reports
rig_check "none of ours is answered, and each is said" rig_wait_until refused_four 30
rig_check "neither in another route's work queue" test "$(rig_queue_depth keyless.work)" = 30
rig_check "nor parked" test "$(rig_queue_depth park.in.parked)" = 0
rig_check "nor reported" test "$(grep -c "report parked" "$LOG")" = 0
rig_check "a sender that is gone" again ask a --reply-to nobody
rig_check "an empty reply_to" again ask a --reply-to ''
rig_check "whatever it was" becomes ask a '.duplicates == 10'
# The broker chokes on most of them: that costs the replies' own connection, and no other.
gone=$(printf '\203Xv\0\011reply@123\0\0\0\1\0\0\0\0\0\0\0\1' | base64)
for token in '' x x.y 'g1h=.bm9=' g2IAAAAB.x "$gone.bm93"; do
  rig_check "a direct address that leads nowhere: $token" again ask a --reply-to "amq.rabbitmq.reply-to.$token"
done
rig_check "none is forwarded, or in the way" fenced ask
rig_check "all are acknowledged" becomes ask a '.duplicates == 16'
answered() {
  again ask a --reply-to answers && rig_takes answers 1 '.[0].exchange == ""'
}
rig_check "answers go on soon" rig_wait_until answered 40
rig_check "a published duplicate is answered, too" again pub a --reply-to answers --correlation-id c3
rig_check "once it is published" rig_takes dups.q 1 '.[0].reply_to == "answers"'
rig_check "with the status" rig_takes answers 1 '.[0].correlation_id == "c3"'
rig_check "no other connection was lost" test "$(grep 'connection lost' "$LOG" | grep -vc 'link=replies')" = 0

# ---- conflicts ----

first park a --body '{"a": 1, "b": 2}' >/dev/null
rig_check "the same value in other words" again park a --body '{"b":2.0,"a":1}'
rig_check "is a duplicate" becomes park a '.duplicates == 1'
rig_check "another value" again park a --body '{"a":2,"b":2}'
rig_check "is parked" rig_takes park.in.parked 1 \
  '.[0] | .headers["x-onlyonce-reason"] == "conflict" and .body == "{\"a\":2,\"b\":2}"'
rig_check "a conflict is said" said 'msg="conflict.*route=park key=a'
rig_check "not forwarded" fenced park

first drop a --body one >/dev/null
rig_check "a conflict" again drop a --body two --reply-to answers
rig_check "is dropped" fenced drop
rig_check "and said" said 'msg="conflict.*route=drop key=a'
rig_check "neither published" test "$(rig_queue_depth dups.q)" = 0
rig_check "nor answered" test "$(rig_queue_depth answers)" = 0

first forward a --body one >/dev/null
rig_check "a conflict" again forward a --body two
rig_check "is forwarded as another attempt" rig_takes forward.work 1 \
  '.[0] | .body == "two" and .headers["x-onlyonce-attempt"] == 2'
rig_check "and said" said 'msg="conflict.*route=forward key=a'
again forward a --body two
rig_check "its content is the key's now" becomes forward a '.duplicates == 1 and .attempt == 2'
rig_check "not forwarded again" fenced forward

# ---- windows ----

HOUR=3600000
first window none >/dev/null
rig_check "a message without a window has the route's" lives window none $((24 * HOUR - 60000)) $((24 * HOUR))
first window own --number x-window-ms=600000 >/dev/null
rig_check "its own window" lives window own 540000 600000
first window text --header x-window-ms=600000 >/dev/null
rig_check "as text" lives window text 540000 600000
first window long --number x-window-ms=999999999 >/dev/null
rig_check "is cut to max_window" lives window long $((2 * HOUR - 60000)) $((2 * HOUR))
first window zero --number x-window-ms=0 >/dev/null
rig_check "zero is ignored" lives window zero $((24 * HOUR - 60000)) $((24 * HOUR))
first window silly --header x-window-ms=soon >/dev/null
rig_check "nonsense is ignored" lives window silly $((24 * HOUR - 60000)) $((24 * HOUR))
again window short --number x-window-ms=1500
rig_takes window.work 1 true >/dev/null
rig_check "a window is over" rig_wait_until "[ -z \"\$(rig_redis_cli get onlyonce:key:window:short)\" ]" 30
rig_check "then it is new" first window short --number x-window-ms=600000

first slide a >/dev/null
rig_redis_cli set onlyonce:key:slide:b "2F 1 $(date +%s000) t0 e60000" px 60000 >/dev/null
again slide b
rig_check "a duplicate begins a sliding window anew" becomes slide b '.duplicates == 1 and .expires_in_ms > 86000000'
rig_check "and the record lives as long" lives slide b $((24 * HOUR - 60000)) $((24 * HOUR))

# ---- what it says ----

rig_check "each drop has a debug line" said 'level=debug msg=duplicate route=pub key=a state=forwarded'
rig_relay_signal relay USR1
rig_check "SIGUSR1 shows what was not forwarded" \
  said 'msg="not forwarded" route=park key=a what=parked why=conflict at=20.*Z first_seen=20.*Z'
rig_check "duplicates" said 'msg="not forwarded" route=pub key=a what=duplicate at=20.*Z first_seen=20.*Z'
rig_check "conflicts" said 'msg="not forwarded" route=drop key=a what=conflict at='
shown() {
  grep 'msg="not forwarded" route=park' "$LOG" | grep -o 'what=[a-z]*' | tr '\n' ' '
}
rig_check "the oldest first" test "$(shown)" = "what=duplicate what=parked "
rig_check "it goes on" rig_relay_is_running relay
left=$((STARTED + 75 - SECONDS))
rig_check "it warns when most messages have no key" rig_wait_until \
  "grep -q 'level=warning msg=\"most messages of the last minute had no key\" route=keyless without=30 of=30' '$LOG'" \
  "$((left > 15 ? left : 15))"
rig_check "of that route only" test "$(grep -c 'had no key' "$LOG")" = 1

rig_check "the relay stops" rig_relay_stop relay
rig_check "conflicts are counted: parked" counted park conflicts 1
rig_check "dropped" counted drop conflicts 1
rig_check "forwarded" counted forward conflicts 1
rig_check "duplicates are not conflicts" counted park duplicates 1
rig_check "nothing was in doubt" counted ask in_doubt 0
rig_check "answers are counted" counted ask replies "[4-9]"
rig_check "and those that did not arrive" counted ask replies_dropped "\([5-9]\|1[0-9]\)"
