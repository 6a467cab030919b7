#!/bin/bash
# Clocks that are wrong, and step, with each store: a relay's own, and the store's (docs/stores.md, Clocks).
# wrong_clock.so gives a process a wall clock of its own, which a file sets; time that only passes is
# left alone.

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

COUNT=2000
HOUR=3600000
declare -A URLS=()

# ---- clocks ----

# under_clock CLOCK COMMAND... : the command and what it starts read the wall clock of that name.
under_clock() {
  local -x LD_PRELOAD=$RIG_BUILD/tests/wrong_clock.so WRONG_CLOCK=$RIG_DIR/$1.clock
  shift
  "$@"
}

# clock_set CLOCK DAYS : what it is ahead, from now on. In place, as it is mapped.
clock_set() {
  printf '%+-31d\n' $(($2 * 86400)) 1<>"$RIG_DIR/$1.clock"
}

# Two relays' clocks, a day ahead and a day behind, change places again and again.
clocks_swing() {
  for _ in 1 2 3; do
    clock_set one -1
    clock_set two 1
    sleep 1.5
    clock_set one 1
    clock_set two -1
    sleep 1.5
  done
}

# ---- configuration ----

route() {
  cat <<END
  - name: $1
    from: {queue: $1.in}
    to: {queue: $1.work}
    key: [message_id]
    window: $2
END
}

# configure STORE : two routes, of a short and of a long window.
configure() {
  STORE=$1
  RIG_STORE_NAME=$1 RIG_STORE_URL=${URLS[$1]} RIG_SESSION=15s rig_config_head
  echo "    timeout: 4900ms" # a slow disk is not to be taken for a lost connection
  echo "routes:"
  route "$1.hour" 1h
  route "$1.week" 7d
}

# With SQLite, the store's clock is that of the relays.
as_store() {
  if [ "$STORE" = sqlite ]; then
    under_clock store "$@"
  else
    "$@"
  fi
}

# ---- load and account ----

load() {
  rig_load --queue "$1.in" --count $COUNT --rate 600 --duplicates 50 --pattern late --prefix "$2" >>"$RIG_DIR/load.log"
}

# The same ids as load has, each once.
again() {
  rig_load --queue "$1.in" --count $COUNT --prefix "$2" >>"$RIG_DIR/load.log"
}

none_waits() {
  [ "$(rig_queue_depth "$1.in")" = 0 ] && as_store rig_onlyonce list -c "$CONFIG" "$1" --state pending >"$RIG_DIR/pending" &&
    [ ! -s "$RIG_DIR/pending" ]
}

# Twice, as a message may be on its way from the one to the other.
settles() {
  rig_wait_until "none_waits $1" 60 && sleep 1 && rig_wait_until "none_waits $1" 60
}

# arrive ROUTE PREFIX OPTION... : every id did, none twice and unmarked unless the options say so; what
# the work queue had is gone then.
arrive() {
  local name=$1 prefix=$2
  shift 2
  settles "$name" && rig_account --idle 300 --work "$name.work" --in "$name.in" --park "$name.in.parked" \
    --count $COUNT --prefix "$prefix" --max-parked 0 "$@"
}

# Those ids are duplicates, all of them.
none_arrives() {
  settles "$1" && [ "$(rig_queue_depth "$1.work")" = 0 ]
}

# expires ROUTE KEY LOW HIGH : ms from now, as the store tells.
expires() {
  as_store rig_onlyonce status -c "$CONFIG" "$1" "$2" >"$RIG_DIR/status"
  jq -e ".expires_in_ms > $3 and .expires_in_ms <= $4" "$RIG_DIR/status" && return 0
  cat "$RIG_DIR/status"
  return 1
}

begin() {
  configure "$1" >"$CONFIG"
  rig_queues declare "$1.hour.in" x-queue-type=quorum || rig_die "an inbound queue is made"
  rig_queues declare "$1.week.in" x-queue-type=quorum || rig_die "an inbound queue is made"
}

# ---- the clocks of relays ----

# The store's clock decides: nothing happens.
relays_are_wrong() {
  local store=$1 swinging before after
  begin "$store"
  clock_set one 1
  clock_set two -1
  under_clock one rig_relay_start one "$CONFIG"
  under_clock two rig_relay_start two "$CONFIG"
  rig_wait_until "[ \"\$(rig_queue_consumers $store.hour.in)\" = 2 ]" 60 || rig_die "two relays consume"
  before=$(date +%s)000
  clocks_swing &
  swinging=$!
  load "$store.hour" "$store-relays-"
  wait $swinging
  after=$(($(date +%s) + 1))000
  rig_check "$store, relays' clocks a day off, and stepping: each arrives once" \
    arrive "$store.hour" "$store-relays-" --max-marked 0
  rig_check "$store: windows are the store's" expires "$store.hour" "$store-relays-7" $((HOUR - 120000)) $HOUR
  rig_check "$store: so is first_seen" jq -e "(.first_seen[:19] + \"Z\" | fromdate * 1000) as \$t |
    \$t >= $before - 1000 and \$t <= $after" "$RIG_DIR/status"
  rig_check "$store: no connection and no session was lost" [ "$(fault_said one lost)$(fault_said two lost)" = 00 ]
  rig_relay_stop one
  rig_relay_stop two
}

# ---- the clock of a store ----

# step PREFIX DAYS : the store's clock, under load on both routes.
step() {
  local loaders=()
  load "$STORE.week" "$STORE-$1-week-" &
  loaders+=($!)
  load "$STORE.hour" "$STORE-$1-hour-" &
  loaders+=($!)
  rig_wait_depth "$STORE.week.work" $((COUNT / 4)) 20
  clock_set store "$2"
  wait "${loaders[@]}"
}

store_is_wrong() {
  local store=$1
  begin "$store"
  as_store rig_relay_start relay "$CONFIG"
  rig_relay_ready relay "$store.hour.in"
  rig_relay_ready relay "$store.week.in"

  load "$store.week" "$store-before-week-" &
  load "$store.hour" "$store-before-hour-"
  wait $!
  rig_check "$store, its clock is right: each arrives once" arrive "$store.hour" "$store-before-hour-" --max-marked 0
  rig_check "$store: with a longer window, too" arrive "$store.week" "$store-before-week-" --max-marked 0

  step ahead 1
  rig_check "$store, its clock steps a day ahead: none is missing, none comes twice unmarked" \
    arrive "$store.week" "$store-ahead-week-" --max-unmarked 0
  # Those from before the step may come again: their windows are over.
  rig_check "$store: where windows are shorter than the step, none is missing" \
    arrive "$store.hour" "$store-ahead-hour-" --max-unmarked $COUNT
  again "$store.hour" "$store-before-hour-"
  rig_check "$store: what is older than its window is new, and arrives once" \
    arrive "$store.hour" "$store-before-hour-" --max-marked 0
  again "$store.week" "$store-before-week-"
  rig_check "$store: what is not is a duplicate" none_arrives "$store.week"
  rig_check "$store: six days are left of its window" \
    expires "$store.week" "$store-before-week-7" $((HOUR * 143)) $((HOUR * 144))

  step back 0
  rig_check "$store, its clock is set back: none is missing, none comes twice unmarked" \
    arrive "$store.week" "$store-back-week-" --max-unmarked 0
  rig_check "$store: nor where windows are shorter than the step" \
    arrive "$store.hour" "$store-back-hour-" --max-unmarked 0
  again "$store.hour" "$store-before-hour-"
  rig_check "$store: what was recorded meanwhile is a duplicate" none_arrives "$store.hour"
  rig_check "$store: its window lasts a day longer" expires "$store.hour" "$store-before-hour-7" $((HOUR * 24)) $((HOUR * 25))
  rig_check "$store: the relay goes on, and was never restarted" rig_relay_stop relay
}

clock_set store 0
fault_rabbit_start
under_clock store rig_redis_start --appendonly no
under_clock store rig_postgres_start
mkdir "$RIG_DIR/data"
URLS=([redis]=$RIG_REDIS_URL [postgres]=$RIG_POSTGRES_URL [sqlite]=sqlite:$RIG_DIR/data/onlyonce.db)

for store in redis postgres; do
  relays_are_wrong $store
done
for store in redis postgres sqlite; do
  clock_set store 0
  store_is_wrong $store
done

# ---- a relay that died before the clock was set back ----

# Its session lives on for as long as the clock was ahead: what it had claimed waits.
begin redis
rig_redis_cli set onlyonce:session:0123456789abcdef01234567 gone px $((HOUR * 24)) >/dev/null
since=$(($(date +%s) + 86400))000
rig_redis_cli set onlyonce:key:redis.hour:orphan "2P 1 $since t0 o0123456789abcdef01234567.1" px $((HOUR * 48)) >/dev/null
rig_relay_start relay "$CONFIG"
rig_relay_ready relay redis.hour.in
rig_post --queue redis.hour.in --message-id orphan
rig_post --queue redis.hour.in --message-id behind
rig_check "what is behind a claim that outlives its relay passes" rig_takes redis.hour.work 1 '.[0].message_id == "behind"'
sleep 2
rig_check "what is claimed waits, and is not lost" [ "$(rig_queue_depth redis.hour.work)" = 0 ]
rig_check "release --force frees it" rig_onlyonce release -c "$CONFIG" --force redis.hour orphan
rig_check "then it arrives" rig_takes redis.hour.work 1 '.[0].message_id == "orphan"'
