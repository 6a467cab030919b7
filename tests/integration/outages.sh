#!/bin/bash
# Store and broker that go away under a running relay, and come back; an inbound queue that is deleted.
# Nothing is lost, nothing has to be restarted, and each outage is said once when it begins and once
# when it ends. The log's lines are logfmt, or JSON.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

# Time enough for a slow disk, so that no outage is said but those that are made.
configure() {
  RIG_SESSION=15s rig_config_head
  cat <<END
    timeout: 4900ms
log: {format: $1, level: $2}
routes:
  - name: pay
    from: {queue: pay.in}
    to: {queue: pay.work}
    key: [message_id]
    window: 24h
  - name: open
    from: {queue: open.in, queue_type: classic}
    to: {queue: open.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    on_store_failure: forward
  - name: aside
    from: {queue: aside.in, queue_type: classic}
    to: {queue: aside.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    on_store_failure: park
END
}

# lines REGEX : how many of the relay's lines match, of those since the last mark.
lines() {
  tail -n "+$MARK" "$RIG_DIR/relay.log" | grep -cE "$1"
}

mark() {
  MARK=$(($(wc -l <"$RIG_DIR/relay.log") + 1))
}

# Within so many seconds a line matches.
says() {
  rig_wait_until "[ \"\$(lines '$1')\" -ge 1 ]" "${2:-40}"
}

ready() {
  local name
  for name in pay open aside; do
    rig_wait_until "[ \"\$(rig_queue_consumers $name.in)\" = 1 ]" 60 || rig_die "the relay consumes from $name.in"
  done
}

# A line for each outage at its start and end, for route pay.
said_both_once() {
  [ "$(lines "msg=\"connection lost, reconnecting\" route=pay link=$1 why=")" = 1 ] &&
    [ "$(lines "msg=connected route=pay link=$1 .*after=")" = 1 ]
}

# Words of key=value, the values bare or quoted; and the first ones are ts, level and msg.
is_logfmt() {
  local value='([^ "=\\]+|"([^"\\]|\\.)*")'
  ! grep -vE "^ts=20[0-9-]+T[0-9:.]+Z level=(debug|info|warning|error) msg=$value( [a-z_]+=$value)*$" "$1"
}

is_json() {
  jq -es "length == $(wc -l <"$1") and all(
    (.ts | test(\"^20[0-9-]+T[0-9:.]+Z$\")) and (.msg | length > 0) and
    (.level | IN(\"debug\", \"info\", \"warning\", \"error\")))" "$1"
}

rig_redis_start --appendonly yes --appendfsync always
rig_rabbit_start
configure logfmt debug >"$RIG_DIR/relay.yaml"
rig_relay_start relay "$RIG_DIR/relay.yaml"
ready

# ---- the store goes away ----

rig_post --queue pay.in --message-id before
rig_post --queue open.in --message-id before
rig_check "a message passes" rig_takes pay.work 1 '.[0].message_id == "before"'
rig_takes open.work 1 true >/dev/null
mark
rig_redis_stop
rig_check "the store is away: said" says 'lost.* route=pay link=store'
rig_post --queue pay.in --message-id held
rig_post --queue pay.in --message-id held
rig_post --queue pay.in --message-id before
rig_post --queue open.in --message-id before
rig_post --queue open.in --message-id passes
rig_post --queue aside.in --message-id parked
rig_check "on_store_failure: forward: what cannot be checked passes, marked" rig_takes open.work 2 \
  'map(.message_id) == ["before","passes"] and all(.headers["x-onlyonce-unchecked"] == true)'
rig_check "on_store_failure: park: it is parked" rig_wait_depth aside.in.parked 1 30
sleep 2
rig_check "on_store_failure: hold: it waits" [ "$(rig_queue_depth pay.work)" = 0 ]
rig_redis_start --appendonly yes --appendfsync always
rig_check "the store is back: said" says 'connected route=pay link=store'
rig_post --queue pay.in --message-id fence
rig_check "what waited arrives, once, and unmarked" rig_takes pay.work 2 \
  'map(.message_id) == ["held","fence"] and all(.headers | has("x-onlyonce-unchecked") | not)'
says 'connected route=aside link=store'
rig_take aside.in.parked --count 1 --move-to aside.in >"$RIG_DIR/parked.json"
rig_check "what was parked says why" jq -e '.message_id == "parked" and
  .headers["x-onlyonce-reason"] == "store_failure"' "$RIG_DIR/parked.json"
rig_check "and passes when it is put back" rig_takes aside.work 1 '.[0].message_id == "parked"'
rig_check "the outage was said once at its start and once at its end" said_both_once store
rig_check "and the broker's links were not touched" \
  [ "$(lines 'connection lost.* link=(source|sink)')" = 0 ]

# ---- a store that answers with errors ----

mark
rig_redis_cli config set requirepass secret >/dev/null
rig_redis_cli -a secret --no-auth-warning client kill type normal >/dev/null
rig_check "a store that refuses the login later on: said, and waited for" \
  says 'lost.* route=pay link=store'
rig_post --queue pay.in --message-id auth
sleep 1
rig_redis_cli -a secret --no-auth-warning config set requirepass '' >/dev/null
rig_check "and it goes on" rig_takes pay.work 1 '.[0].message_id == "auth"'

rig_redis_cli config set min-replicas-to-write 1 >/dev/null
rig_post --queue pay.in --message-id noreplicas
sleep 1
rig_check "a store that takes no writes: the message waits" [ "$(rig_queue_depth pay.work)" = 0 ]
rig_redis_cli config set min-replicas-to-write 0 >/dev/null
rig_check "and goes on when it does" rig_takes pay.work 1 '.[0].message_id == "noreplicas"'

rig_redis_cli script flush >/dev/null
rig_post --queue pay.in --message-id noscript
rig_check "a store that lost its scripts gets them again" \
  rig_takes pay.work 1 '.[0].message_id == "noscript"'
rig_redis_cli flushall >/dev/null
rig_post --queue pay.in --message-id flushed
rig_post --queue pay.in --message-id flushed2
rig_check "a store that lost everything is used on" \
  rig_takes pay.work 2 'map(.message_id) == ["flushed","flushed2"]'

rig_relay_signal relay HUP
rig_check "a signal to read the configuration again is answered in the log" says "configuration has not changed"

# ---- the inbound queue is deleted ----

mark
rig_queues delete pay.in
rig_check "the inbound queue is deleted: said" says 'lost.* route=pay link=source'
rig_check "it is made again" rig_wait_until "rig_post --queue pay.in --message-id again" 40
rig_check "and consumed from" rig_takes pay.work 1 '.[0].message_id == "again"'

# ---- the broker goes away ----

rig_load --queue pay.in --count 3000 --duplicates 33 --prefix away- >"$RIG_DIR/load.log" 2>&1 &
loader=$!
rig_wait_depth pay.work 300 20
mark
rig_rabbit_restart
wait $loader
rig_check "the load went through a restart of the broker" grep -q 'unique=3000 .*nacked=0' "$RIG_DIR/load.log"
ready
rig_wait_depth pay.work 3000 90
rig_check "all of it arrives, and what comes twice is marked" rig_account --work pay.work \
  --in pay.in --park pay.in.parked --count 3000 --prefix away- --max-parked 0
rig_check "the outage of the sink was said once at its start and once at its end" \
  said_both_once sink
rig_check "and that of the source" said_both_once source
rig_check "the relay ends well" rig_relay_stop relay
rig_check "every line is logfmt" is_logfmt "$RIG_DIR/relay.log"

# ---- JSON ----

configure json debug >"$RIG_DIR/json.yaml"
rig_relay_start json "$RIG_DIR/json.yaml"
ready
rig_post --queue pay.in --message-id 'quote " back\slash	tab' --count 2
rig_redis_stop
rig_wait_until "grep -q 'connection lost' '$RIG_DIR/json.log'" 40
rig_check "a relay without its store ends, too, when it shall" rig_relay_stop json
rig_check "every line is JSON" is_json "$RIG_DIR/json.log"
rig_check "a duplicate is in the log, with its key" jq -es \
  'any(.msg == "duplicate" and .route == "pay" and .key == "quote~20~22~20back~5Cslash~09tab")' \
  "$RIG_DIR/json.log"
