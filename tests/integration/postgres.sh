#!/bin/bash
# A relay whose records are in PostgreSQL: what it makes there, the commands, and that nothing is
# lost or comes twice unmarked when relay or database are killed or stand still under load.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
COUNT=4000

# configure ROUTE
configure() {
  cat <<END >"$CONFIG"
broker:
  urls: ["$RIG_AMQP_URL"]
stores:
  - name: database
    url: $RIG_POSTGRES_URL
    session: 3s
    timeout: 900ms
routes:
  - name: $1
    from: {queue: $1.in}
    to: {queue: $1.work}
    key: [message_id]
    window: 24h
END
}

check_says() {
  rig_exits 0 rig_onlyonce check --connect -c "$CONFIG" && grep -q "$1" "$RIG_DIR/out" && return 0
  cat "$RIG_DIR/out"
  return 1
}

schema_is_made() {
  [ "$(rig_psql "SELECT count(*) FROM pg_namespace WHERE nspname = 'onlyonce'")" = 1 ]
}

schema_is_not_made() {
  ! schema_is_made
}

# asked WANT SQL
asked() {
  [ "$(rig_psql "$2")" = "$1" ] && return 0
  rig_psql "$2"
  return 1
}

# status KEY FILTER : whether the jq filter is true of the key's record.
status() {
  rig_onlyonce status -c "$CONFIG" jobs "$1" | jq -e "$2"
}

lists() {
  [ "$(rig_onlyonce list -c "$CONFIG" jobs | wc -l)" = "$1" ]
}

none_pending() {
  rig_onlyonce list -c "$CONFIG" "$1" --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
}

is_done() {
  rig_wait_empty "$1.in" 1 && none_pending "$1"
}

# Twice, because a message may be on its way from the one to the other.
finishes() {
  rig_wait_until "is_done $1" 60 && sleep 1 && rig_wait_until "is_done $1" 60
}

# accounts ROUTE OPTION... : stops the relay first, so that what it held is in the queue again.
accounts() {
  local route=$1
  shift
  rig_relay_stop relay && rig_account --work "$route.work" --in "$route.in" --park "$route.in.parked" \
    --count $COUNT --prefix "$route-" --max-parked 0 --idle 500 "$@"
}

load() {
  rig_load --queue "$1.in" --count $COUNT --rate 1500 --duplicates 33 --prefix "$1-" >"$RIG_DIR/load.log" 2>&1 &
  LOADER=$!
}

# begin ROUTE : a relay with that route, and a load for it.
begin() {
  configure "$1"
  rig_queues declare "$1.in" x-queue-type=quorum || rig_die "the inbound queue is made"
  rig_relay_start relay "$CONFIG"
  rig_relay_ready relay "$1.in"
  load "$1"
}

loaded() {
  wait "$LOADER" || rig_fail "the load was taken"
}

# ---- what it makes, and the commands ----

rig_postgres_start
rig_rabbit_start
configure jobs
rig_check "check says that the schema is missing" check_says "schema onlyonce is missing; run makes it"
rig_check "and has not made it" schema_is_not_made
rig_relay_start relay "$CONFIG"
rig_relay_ready relay jobs.in
rig_check "run has made it" schema_is_made
rig_check "check finds it durable" check_says "store database: durable"

rig_post --queue jobs.in --message-id one --count 3
rig_post --queue jobs.in --message-id two
rig_check "each is forwarded once" rig_takes jobs.work 2 'map(.message_id) | sort == ["one", "two"]'
rig_check "status has the first, and its duplicates" rig_wait_until \
  "status one '.state == \"forwarded\" and .duplicates == 2'" 30
rig_check "psql shows the record" asked 2F \
  "SELECT left(text, 2) FROM onlyonce.records WHERE scope = 'jobs' AND key = 'one'"
rig_check "list has both" lists 2
rig_check "complete" rig_onlyonce complete -c "$CONFIG" jobs one --result '{"sum": 3}'
rig_check "status gives the result back" status one '.state == "completed" and .result.sum == 3'
rig_wait_until "status two '.state == \"forwarded\"'" 30 # before that it is not released
rig_check "release" rig_onlyonce release -c "$CONFIG" jobs two
rig_check "a released key is not found" rig_exits 1 rig_onlyonce status -c "$CONFIG" jobs two
rig_post --queue jobs.in --message-id two
rig_check "and new again" rig_takes jobs.work 1 '.[0].message_id == "two"'
rig_check "SIGTERM ends it" rig_relay_stop relay
rig_check "and its session" asked 0 "SELECT count(*) FROM onlyonce.sessions"

# ---- the relay is killed ----

begin killed
for i in 1 2 3 4 5; do
  rig_wait_depth killed.work $((COUNT * i / 6)) 20
  rig_relay_kill relay
  rig_relay_start relay "$CONFIG"
done
loaded
rig_check "relay killed five times: all is finished" finishes killed
rig_check "none is missing, none comes twice unmarked" accounts killed

# ---- the database is killed ----

begin database
for i in 1 2 3; do
  rig_wait_depth database.work $((COUNT * i / 5)) 30
  rig_postgres_kill
  sleep 0.5
  rig_postgres_start
done
loaded
rig_check "database killed three times: all is finished" finishes database
rig_check "none is missing, none comes twice, none is in doubt" accounts database --max-marked 0

# ---- the database stands still ----

begin still
for i in 1 2; do
  rig_wait_depth still.work $((COUNT * i / 4)) 30
  rig_postgres_signal STOP
  sleep 2
  rig_postgres_signal CONT
done
loaded
rig_check "database that stood still twice: all is finished" finishes still
rig_check "none is missing, none comes twice, none is in doubt" accounts still --max-marked 0

# ---- connections are ended, and both die at once ----

begin both
for i in 1 2 3; do
  rig_wait_depth both.work $((COUNT * i / 8)) 30
  rig_psql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'onlyonce:%'" \
    >/dev/null
done
rig_wait_depth both.work $((COUNT / 2)) 30
rig_postgres_kill
rig_relay_kill relay
rig_postgres_start
rig_relay_start relay "$CONFIG"
loaded
rig_check "connections ended, then both killed: all is finished" finishes both
rig_check "none is missing, none comes twice unmarked" accounts both
rig_check "nothing deadlocked" asked 0 "SELECT sum(deadlocks) FROM pg_stat_database"
