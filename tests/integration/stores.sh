#!/bin/bash
# Several stores in one configuration: payments in PostgreSQL, webhooks in Redis, mails in SQLite, one
# relay. Each route's records are in its own store and nowhere else, commands and reports find them, and
# a store that is down holds up its own route alone.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

FILE=$RIG_DIR/data/onlyonce.db
ROUTES=(payments webhooks mails)
declare -A STORE=([payments]=database [webhooks]=redis [mails]=file)

# All of them write to the disk, and are not to be taken for lost if that is slow.
configure() {
  cat <<END
broker:
  urls: ["$RIG_AMQP_URL"]
stores:
  - {name: database, url: "$RIG_POSTGRES_URL", session: 15s, timeout: 4900ms}
  - {name: redis, url: "$RIG_REDIS_URL", session: 15s, timeout: 4900ms}
  - {name: file, url: "sqlite:$FILE", session: 15s, timeout: 4900ms}
completions: {queue: reports}
routes:
END
  for route in "${ROUTES[@]}"; do
    fault_route "$route" "queue: $route.work" "store: ${STORE[$route]}"
  done
}

# The others than this route.
others() {
  local route
  for route in "${ROUTES[@]}"; do
    [ "$route" = "$1" ] || echo "$route"
  done
}

# ---- stores that go and come ----

down_payments() { rig_postgres_kill; }
up_payments() { rig_postgres_start; }
down_webhooks() { rig_redis_kill; }
up_webhooks() { rig_redis_start --appendonly yes --appendfsync always; }
down_mails() { mv "$RIG_DIR/data" "$RIG_DIR/away"; }
up_mails() { mv "$RIG_DIR/away" "$RIG_DIR/data"; }

# ---- messages, commands and reports ----

onlyonce() {
  local command=$1
  shift
  rig_onlyonce "$command" -c "$CONFIG" "$@"
}

post() {
  rig_post --queue "$1.in" --message-id "$2"
}

# arrive ROUTE ID... : these and no others, in this order.
arrive() {
  local route=$1 want
  shift
  want=$(printf '"%s",' "$@")
  rig_takes "$route.work" $# "map(.message_id) == [${want%,}]" && [ "$(rig_queue_depth "$route.work")" = 0 ]
}

has_state() {
  onlyonce status "$1" "$2" | jq -e ".state == \"$3\"" >/dev/null
}

# After an outage the next attempt may be half a minute away.
becomes() {
  rig_wait_until "has_state $1 $2 $3" 60 && return 0
  onlyonce status "$1" "$2"
  return 1
}

report() {
  rig_post --queue reports --header "x-onlyonce-route=$1" --header "x-onlyonce-key=$2" --body "${3:-}" "${@:4}"
}

# stored ROUTE : the keys that the route's own store has, asked with its own tools.
stored() {
  case $1 in
  payments) rig_psql "SELECT scope || ' ' || key FROM onlyonce.records WHERE expires > now()" ;;
  webhooks) rig_redis_cli --raw keys 'onlyonce:key:*' | sed 's/onlyonce:key:\([^:]*\):/\1 /' ;;
  mails) sqlite3 -readonly "$FILE" "SELECT scope || ' ' || CAST(key AS TEXT) FROM onlyonce_records" ;;
  esac | sort
}

# has_only ROUTE KEY... : its store has these keys of its scope, and none of any other.
has_only() {
  local route=$1
  shift
  diff <(stored "$route") <(printf "$route %s\n" "$@" | sort)
}

# check --connect: the store of that route has failed and nothing else, or none with "".
check_names() {
  local code=0
  [ -z "$1" ] || code=1
  rig_exits $code onlyonce check --connect || return 1
  grep FAILED "$RIG_DIR/out" >"$RIG_DIR/failed"
  if [ -z "$1" ]; then
    [ ! -s "$RIG_DIR/failed" ] && return 0
  else
    [ "$(wc -l <"$RIG_DIR/failed")" = 1 ] && grep -q "^store ${STORE[$1]}: FAILED: " "$RIG_DIR/failed" && return 0
  fi
  cat "$RIG_DIR/out"
  return 1
}

# ---- one of them is down ----

# Reads and writes by hand, and a report, of the routes whose stores are there.
others_go_on() {
  local down=$1 route
  for route in $(others "$down"); do
    rig_check "$down is down: $route goes on, and drops what it had" arrive "$route" "new-$down" "next-$down"
    rig_check "$down is down: status, list, complete and release of $route" by_hand "$route" "$down"
    rig_check "$down is down: a report on $route is applied" becomes "$route" "next-$down" completed
  done
}

by_hand() {
  has_state "$1" "new-$2" forwarded && onlyonce list "$1" | grep -q "^new-$2" &&
    onlyonce complete "$1" "new-$2" && has_state "$1" "new-$2" completed && onlyonce release "$1" "new-$2" &&
    rig_exits 1 onlyonce status "$1" "new-$2"
}

others_say_nothing() {
  [ "$(fault_said relay "connection lost.*route=($(others "$1" | paste -sd'|')) ")" = 0 ]
}

is_unreachable() {
  rig_exits 3 onlyonce status "$1" first && grep -q "^onlyonce: store ${STORE[$1]}: " "$RIG_DIR/err" &&
    rig_exits 3 onlyonce list "$1" && rig_exits 3 onlyonce release "$1" first &&
    rig_exits 3 onlyonce complete "$1" first
}

one_is_down() {
  local down=$1 route
  fault_forget relay
  "down_$down"
  for route in "${ROUTES[@]}"; do
    post "$route" first
    post "$route" "new-$down"
    post "$route" "next-$down"
  done
  # The report of the store that is down is the first one in the queue.
  report "$down" first '"late"'
  for route in $(others "$down"); do
    rig_wait_until "has_state $route next-$down forwarded" 60
    report "$route" "next-$down" '"in time"'
  done
  others_go_on "$down"
  rig_check "$down is down: said, with the route's name" fault_is_said relay "connection lost.*route=$down .*store"
  rig_check "$down is down: the other routes say nothing" others_say_nothing "$down"
  rig_check "$down is down: nothing of it is forwarded" [ "$(rig_queue_depth "$down.work")" = 0 ]
  rig_check "$down is down: its commands exit with 3, and name the store" is_unreachable "$down"
  rig_check "$down is down: check --connect fails, and names it alone" check_names "$down"
  "up_$down"
  rig_check "$down is back: its messages arrive once" arrive "$down" "new-$down" "next-$down"
  rig_check "$down is back: the report on it is applied" becomes "$down" first completed
  rig_check "$down is back: check --connect" check_names ""
}

mkdir "$RIG_DIR/data"
rig_postgres_start
up_webhooks
rig_rabbit_start
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
for route in "${ROUTES[@]}"; do
  rig_relay_ready relay "$route.in"
done

# ---- all of them are there ----

rig_check "check --connect: all is well" check_names ""
promises() {
  grep -q "^store $1: PostgreSQL\|^store $1: Redis\|^store $1: SQLite" "$RIG_DIR/out" &&
    grep -q "^store $1: shared by relays " "$RIG_DIR/out" && grep -q "^store $1: durable" "$RIG_DIR/out" && return 0
  cat "$RIG_DIR/out"
  return 1
}
for route in "${ROUTES[@]}"; do
  rig_check "it says what store ${STORE[$route]} can promise" promises "${STORE[$route]}"
done

# The same ids on every route: they are different keys.
for route in "${ROUTES[@]}"; do
  for id in first second first second third; do
    post "$route" $id
  done
done
for route in "${ROUTES[@]}"; do
  rig_check "$route: duplicates are dropped" arrive "$route" first second third
done
for route in "${ROUTES[@]}"; do
  rig_check "$route: its keys are in store ${STORE[$route]}, and no others" has_only "$route" first second third
done

for route in "${ROUTES[@]}"; do
  rig_check "$route: on record as forwarded" becomes "$route" third forwarded
done
onlyonce complete webhooks second --result '{"n":1}' >/dev/null
onlyonce release mails second >/dev/null
rig_check "complete is about that route's key" has_state webhooks second completed
rig_check "and no other's" has_state payments second forwarded
rig_check "release is about that route's key" rig_exits 1 onlyonce status mails second
rig_check "and no other's store" has_only payments first second third
post mails second
rig_check "a released key is new again" arrive mails second

report payments third '"p"'
report webhooks third '"w"'
report mails third '' --header x-onlyonce-action=release
rig_check "a report reaches PostgreSQL" becomes payments third completed
rig_check "with its result" [ "$(onlyonce status payments third | jq -r .result)" = p ]
rig_check "a report reaches Redis" becomes webhooks third completed
rig_check "with its result" [ "$(onlyonce status webhooks third | jq -r .result)" = w ]
rig_check "a report reaches SQLite" rig_wait_until "! onlyonce status mails third" 60
rig_check "and what it released is not in its store" has_only mails first second

# ---- one after the other is down ----

for route in "${ROUTES[@]}"; do
  one_is_down "$route"
done
rig_check "no report was refused" [ "$(rig_queue_depth reports.parked)" = 0 ]
rig_check "SIGTERM ends the relay" rig_relay_stop relay
nothing_is_left() {
  local route
  for route in "${ROUTES[@]}"; do
    [ "$(rig_queue_depth "$route.in")" = 0 ] && fault_none_pending "$route" || return 1
  done
  [ "$(rig_queue_depth reports)" = 0 ]
}
rig_check "nothing is left behind" nothing_is_left
