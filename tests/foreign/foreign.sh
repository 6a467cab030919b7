#!/bin/bash
# Other people's programs: node's amqplib, Debian's python3-pika and amqp-tools publish through the relay and consume behind it. They
# know nothing of it, and what they see must be what they see without it, but for what docs/protocol.md says.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

HERE=$RIG_SOURCE/tests/foreign
MODULES=$RIG_BUILD/foreign
CONFIG=$RIG_DIR/relay.yaml

# ---- the programs ----

# Once for each lock file.
install_amqplib() {
  cmp -s "$HERE/package-lock.json" "$MODULES/installed" && return 0
  mkdir -p "$MODULES"
  cp "$HERE"/{package.json,package-lock.json,.npmrc} "$MODULES" && (cd "$MODULES" && npm ci) &&
    cp "$HERE/package-lock.json" "$MODULES/installed"
}

amqplib() {
  NODE_PATH=$MODULES/node_modules timeout 60 node "$HERE/amqplib_client.js" "$RIG_AMQP_URL" "$@"
}

# Debian's own python3, for which Debian's pika is.
pika() {
  timeout 60 /usr/bin/python3 "$HERE/pika_client.py" "$RIG_AMQP_URL" "$@"
}

# tools COMMAND OPTION... : one of amqp-tools.
tools() {
  local command=$1
  shift
  timeout 60 "amqp-$command" -u "$RIG_AMQP_URL" "$@"
}

# ---- the relay ----

# Every message that comes to shapes has a twin in the queue "direct", as it is without the relay.
configure() {
  rig_config_head
  cat <<'END'
completions: {queue: done}
routes:
  - name: shapes
    from: {exchange: foreign, queue: shapes.in, exchange_type: direct, bindings: [shape]}
    to: {queue: shapes.work}
    key: ["id = message_id", "body = body"]
    window: 24h
  - name: ids
    from: {exchange: foreign, queue: ids.in, exchange_type: direct, bindings: [ids]}
    to: {queue: ids.work}
    key: ["header:id"]
    window: 24h
  - name: questions
    from: {exchange: foreign, queue: questions.in, exchange_type: direct, bindings: [ask]}
    to: {queue: questions.work}
    key: [correlation_id]
    window: 24h
  - name: sorted
    from: {exchange: foreign, queue: sorted.in, exchange_type: direct, bindings: [sort]}
    to: {exchange: sorters}
    key: ["header:id"]
    window: 24h
  - name: jobs
    from: {exchange: foreign, queue: jobs.in, exchange_type: direct, bindings: [job]}
    to: {queue: jobs.work, declare: false}
    key: ["header:id"]
    window: 24h
END
}

make_queues() {
  rig_queues declare jobs.work x-dead-letter-exchange= x-dead-letter-routing-key=jobs.delay &&
    rig_queues declare jobs.delay x-message-ttl=200 x-dead-letter-exchange=foreign x-dead-letter-routing-key=job &&
    amqplib headers sorters sorted.all '{"x-match":"all","kind":"parcel","weight":5}' &&
    amqplib headers sorters sorted.any '{"x-match":"any","kind":"letter","fragile":true}' &&
    amqplib headers sorters sorted.marks '{"x-match":"all-with-x","x-onlyonce-route":"sorted","kind":"marked"}'
}

# ---- shapes ----

# without_own FILE : what a consumer without the relay would have seen, in one spelling. CC was for the first broker.
without_own() {
  jq -cS 'del(.own, .properties.headers.CC)' "$1"
}

# has_own FILE : all were forwarded, each as the first of its key; none to where a CC would have it.
has_own() {
  jq -es 'length == 5 and all(.[]; .own["x-onlyonce-route"] == "shapes" and (.own["x-onlyonce-first-seen"] | type) == "number" and
    (.own["x-onlyonce-key"] | type) == "string" and (.own | length) == 3 and
    (.properties.headers | has("CC") | not))' "$1"
}

# shapes PUBLISHER CONSUMER : what the one publishes, the other sees behind the relay as it does without.
shapes() {
  local publisher=$1 consumer=$2 label="$1 to $2"
  rig_redis_cli flushall >/dev/null
  rig_check "$label: all shapes are confirmed" "$publisher" publish foreign
  "$consumer" consume direct 5 >"$RIG_DIR/direct.json" 2>"$RIG_DIR/$consumer.log"
  "$consumer" consume shapes.work 5 >"$RIG_DIR/relayed.json" 2>>"$RIG_DIR/$consumer.log"
  without_own "$RIG_DIR/direct.json" >"$RIG_DIR/want.json"
  without_own "$RIG_DIR/relayed.json" >"$RIG_DIR/got.json"
  rig_check "$label: five shapes were seen" test "$(wc -l <"$RIG_DIR/want.json")" = 5
  rig_check "$label: properties, headers and bodies are the same" diff "$RIG_DIR/want.json" "$RIG_DIR/got.json"
  rig_check "$label: each has the relay's three headers" has_own "$RIG_DIR/relayed.json"
}

# duplicates PUBLISHER : what it publishes again does not arrive. A fence comes behind.
duplicates() {
  "$1" publish foreign && amqplib post foreign shape '{}' "fence of $1" && rig_wait_depth shapes.work 1 20 &&
    rig_wait_empty shapes.in 20 && rig_takes shapes.work 1 ".[0].body == \"fence of $1\"" &&
    [ "$(rig_queue_depth shapes.work)" = 0 ] && rig_queues purge direct
}

# ---- amqp-tools ----

tools_see() {
  rig_wait_depth "$1" 1 20 && tools get -q "$1" >"$RIG_DIR/body" && cmp "$RIG_DIR/body" "$2"
}

tools_consume() {
  tools consume -q "$1" -c 1 cat >"$RIG_DIR/body" && cmp "$RIG_DIR/body" "$2"
}

check_tools() {
  printf 'a\0b\377' >"$RIG_DIR/binary"
  : >"$RIG_DIR/nothing"
  tools publish -e foreign -r shape -p -C text/plain -E identity -H 'tenant: a' <"$RIG_DIR/binary"
  tools publish -e foreign -r shape -C text/plain -H 'tenant: a' <"$RIG_DIR/binary"
  tools publish -e foreign -r shape <"$RIG_DIR/nothing"
  rig_check "amqp-tools: a binary body, once" tools_see shapes.work "$RIG_DIR/binary"
  rig_check "amqp-tools: an empty body" tools_consume shapes.work "$RIG_DIR/nothing"
  rig_check "amqp-tools: the copy of it was a duplicate" test "$(rig_queue_depth shapes.work)" = 0
  rig_queues purge direct >/dev/null
  tools publish -e foreign -r shape -p -C text/plain -H 'tenant: a' -b hello
  amqplib consume direct 1 >"$RIG_DIR/direct.json"
  amqplib consume shapes.work 1 >"$RIG_DIR/relayed.json"
  rig_check "amqp-tools: properties and headers are the same" diff <(without_own "$RIG_DIR/direct.json") \
    <(without_own "$RIG_DIR/relayed.json")
  rig_check "amqp-tools: they are those that were sent" jq -e '.properties.contentType == "text/plain" and
    .properties.deliveryMode == 2 and .properties.headers.tenant == "a"' "$RIG_DIR/relayed.json"
}

# ---- ids ----

# has_duplicates COUNT : the key 42.
has_duplicates() {
  rig_onlyonce status -c "$CONFIG" ids 42 | jq -e ".state == \"forwarded\" and .duplicates == $1"
}

# One key, whatever type it was sent in: the first is forwarded, the others are its duplicates.
ids_are_one() {
  local sent
  sent=$(($(amqplib ids foreign ids) + $(pika ids foreign ids))) && tools publish -e foreign -r ids -H 'id: 42' -b x &&
    amqplib post foreign ids '{"id":"fence"}' && rig_wait_depth ids.work 2 20 && rig_wait_empty ids.in 20 &&
    [ "$(rig_queue_depth ids.work)" = 2 ] && rig_wait_until "has_duplicates $sent" 20
}

# ---- questions ----

# rpc CLIENT WORKER : a question goes through the relay, its answer straight back.
rpc() {
  "$2" answer questions.work &
  local worker=$! answer
  answer=$("$1" ask foreign ask "$1-$2") && wait "$worker" && [ "$answer" = "$1-$2 $2 answers $1-$2" ] && return 0
  echo "got: $answer"
  return 1
}

# ---- sorted ----

check_sorted() {
  amqplib post foreign sort '{"id":1,"kind":"parcel","weight":5,"more":[1]}' all
  pika post foreign sort '{"id":2,"kind":"parcel","weight":5}' all
  amqplib post foreign sort '{"id":3,"kind":"letter","weight":1}' any
  pika post foreign sort '{"id":4,"kind":"vase","fragile":true}' any
  amqplib post foreign sort '{"id":5,"kind":"marked"}' marks
  amqplib post foreign sort '{"id":6,"kind":"parcel","weight":6}' none
  amqplib post foreign sort '{"id":1,"kind":"letter"}' duplicate
  rig_check "a headers exchange: all of the headers" rig_takes sorted.all 2 'all(.[]; .body == "all")'
  rig_check "a headers exchange: any of the headers" rig_takes sorted.any 2 'all(.[]; .body == "any")'
  rig_check "a headers exchange: by the relay's own, with x" rig_takes sorted.marks 1 '.[0].body == "marks"'
  rig_check "a headers exchange: what matches nothing is parked" rig_takes sorted.in.parked 1 \
    '.[0].headers["x-onlyonce-reason"] == "unroutable" and .[0].body == "none"'
  rig_check "a headers exchange: nothing else comes out" test "$(rig_queue_depth sorted.all)" = 0 -a \
    "$(rig_queue_depth sorted.any)" = 0 -a "$(rig_queue_depth sorted.in)" = 0
}

# ---- jobs ----

is_completed() {
  rig_wait_until "rig_onlyonce status -c '$CONFIG' jobs $1 | jq -e '.state == \"completed\" and .result.by == \"$1\"'" 20
}

# completes WORKER : it takes the job, and reports it as done with the headers that it got.
completes() {
  "$1" post foreign job "{\"id\":\"$1\"}" && "$1" report jobs.work 'done' "{\"by\":\"$1\"}" && is_completed "$1"
}

# comes_back : two workers fail, and the third attempt is as it was, but for its number.
comes_back() {
  amqplib post foreign job '{"id":"hard","deep":{"list":[1,"a"]}}' work && amqplib reject jobs.work && pika reject jobs.work &&
    rig_takes jobs.work 1 '.[0] | .body == "work" and .headers["x-onlyonce-attempt"] == 3 and .headers["x-onlyonce-key"] == "hard"
      and (.headers | has("x-death") | not) and .headers.deep.list[1] == "a"'
}

# ---- the run ----

rig_check "amqplib is installed" install_amqplib
[ "$RIG_FAILED" = 0 ] || exit 1
rig_redis_start --appendonly no
rig_rabbit_start
make_queues || rig_die "the queues are made"
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
for queue in shapes ids questions sorted jobs; do
  rig_relay_ready relay "$queue.in"
done
{ rig_queues declare direct && rig_queues bind direct foreign shape; } || rig_die "the twins' queue is made"

for publisher in amqplib pika; do
  for consumer in amqplib pika; do
    shapes "$publisher" "$consumer"
  done
  rig_check "$publisher: what is published again is dropped" duplicates "$publisher"
  rig_check "$publisher: what no queue is bound for is returned to it" test "$("$publisher" lost foreign)" = "NO_ROUTE lost"
done
check_tools
rig_check "one id is one key in every type of every library" ids_are_one
for client in amqplib pika; do
  for worker in amqplib pika; do
    rig_check "$client asks $worker, and is answered directly" rpc "$client" "$worker"
  done
done
check_sorted
for worker in amqplib pika; do
  rig_check "$worker: reports that a job is done" completes "$worker"
done
rig_check "jobs that amqplib and pika reject come back" comes_back
rig_check "nothing else is parked" test "$(rig_queue_depth shapes.in.parked)" = 0 -a "$(rig_queue_depth ids.in.parked)" = 0 -a \
  "$(rig_queue_depth jobs.in.parked)" = 0 -a "$(rig_queue_depth done.parked)" = 0
rig_check "the relay stops" rig_relay_stop relay
