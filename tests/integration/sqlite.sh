#!/bin/bash
# Relays on SQLite, with no other server than RabbitMQ: duplicates, commands beside a running relay, two
# relays on one file, kill -9, a file that is locked, deleted, or not there yet.
#
# Set before: ONLYONCE_SQLITE_KILLS (10), ONLYONCE_SQLITE_MESSAGES (3000), for the relays that are killed.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

KILLS=${ONLYONCE_SQLITE_KILLS:-10}
MESSAGES=${ONLYONCE_SQLITE_MESSAGES:-3000}
CONFIG=$RIG_DIR/relay.yaml
FILE=$RIG_DIR/data/onlyonce.db
TAB=$'\t'

configure() {
  RIG_SESSION=3s RIG_STORE_NAME=file RIG_STORE_URL=sqlite:$FILE rig_config_head
  cat <<'END'
    timeout: 900ms
routes:
  - name: pay
    from: {queue: pay.in}
    to: {queue: pay.work}
    key: [message_id]
    window: 24h
END
}

onlyonce() {
  local command=$1
  shift
  rig_onlyonce "$command" -c "$CONFIG" "$@"
}

# prints CODE OUT COMMAND... : it exits so and prints exactly that.
prints() {
  local code=$1 out=$2
  shift 2
  rig_exits "$code" "$@" && [ "$(cat "$RIG_DIR/out")" = "$out" ] && return 0
  cat "$RIG_DIR/out" "$RIG_DIR/err"
  return 1
}

# has_state KEY STATE : as status says.
has_state() {
  rig_exits 0 onlyonce status pay "$1" && jq -e ".state == \"$2\"" "$RIG_DIR/out"
}

# in_place COUNT PREFIX OPTION... : all ids are in the work queue, and the inbound one is empty.
in_place() {
  local count=$1 prefix=$2
  shift 2
  rig_wait_depth pay.work "$count" 90 && rig_wait_empty pay.in 30 &&
    rig_account --work pay.work --in pay.in --park pay.in.parked --count "$count" \
      --prefix "$prefix" --max-parked 0 "$@"
}

# forward ID : its copy arrives, and is on record as forwarded.
forward() {
  rig_post --queue pay.in --message-id "$1" && rig_takes pay.work 1 ".[0].message_id == \"$1\"" &&
    rig_wait_until "has_state $1 forwarded" 10
}

none_pending() {
  onlyonce list pay --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
}

sql() {
  sqlite3 -cmd '.timeout 3000' "$FILE" "$1"
}

is_sound() {
  [ "$(sql 'PRAGMA integrity_check')" = ok ]
}

is_above() {
  [ "$1" -gt "$2" ]
}

log_says() {
  grep -q "$2" "$RIG_DIR/$1.log"
}

mkdir "$RIG_DIR/data"
rig_rabbit_start
configure >"$CONFIG"

# ---- before the first start ----

rig_check "check --connect: the store can be made" rig_exits 0 onlyonce check --connect
rig_check "it says so" grep -q '^store file: its file is missing; run makes it' "$RIG_DIR/out"
rig_check "and makes nothing" [ -z "$(ls "$RIG_DIR/data")" ]
rig_check "status of a key: 1" rig_exits 1 onlyonce status pay a

# ---- duplicates, and commands beside the relay ----

rig_relay_start one "$CONFIG"
rig_relay_ready one pay.in
rig_check "the log names the store" log_says one "SQLite 3[0-9.]* at $FILE"
rig_check "the file is its owner's alone" [ "$(stat -c %a "$FILE")" = 600 ]
rig_load --queue pay.in --count 3000 --duplicates 33 --prefix first- >"$RIG_DIR/load.log" &
loader=$!
rig_wait_depth pay.work 300 20
rig_check "status while the relay writes" has_state first-0 forwarded
rig_check "list while it writes" rig_exits 0 onlyonce list pay
rig_check "has what is there" is_above "$(wc -l <"$RIG_DIR/out")" 200
rig_check "complete while it writes" prints 0 "first-0${TAB}completed" \
  onlyonce complete pay first-0 --result '{"n":1}'
wait $loader || rig_fail "the load was taken"
rig_check "3000 messages and 1000 duplicates: each arrives once" in_place 3000 first- --max-marked 0
rig_check "list has all of them" [ "$(onlyonce list pay | wc -l)" = 3000 ]
rig_check "the completed one has its result" rig_exits 0 onlyonce status pay first-0
rig_check "byte for byte" grep -qF '"result":{"n":1}' "$RIG_DIR/out"
rig_check "release" prints 0 "first-1${TAB}released" onlyonce release pay first-1
rig_check "its next message is new again" forward first-1
rig_check "check --connect: all is there" rig_exits 0 onlyonce check --connect
rig_check "SQLite's own shell reads it" [ "$(sql "SELECT substr(text, 1, 4) FROM onlyonce_records
  WHERE scope = 'pay' AND key = 'first-1'")" = "2F 1" ]

# ---- a lock that somebody else has ----

coproc SHELL_OF_OTHERS { sqlite3 -cmd ".timeout 20000" "$FILE"; }
echo "BEGIN IMMEDIATE; SELECT 'locked';" >&"${SHELL_OF_OTHERS[1]}"
rig_check "somebody else has the lock" read -r -t 30 -u "${SHELL_OF_OTHERS[0]}" _
rig_post --queue pay.in --message-id locked
rig_wait_until "log_says one 'another process holds the lock'" 30
rig_check "a lock that is held too long is said" log_says one 'no answer within 900 ms: another process holds the lock'
rig_check "status goes on" has_state first-2 forwarded
rig_check "release says why it cannot" rig_exits 3 onlyonce release pay first-2
rig_check "in one line" grep -q "^onlyonce: store file: SQLite at .*: no answer within 900 ms" "$RIG_DIR/err"
echo "COMMIT;" >&"${SHELL_OF_OTHERS[1]}"
eval "exec ${SHELL_OF_OTHERS[1]}>&-"
rig_check "and when it is given back the message goes" rig_takes pay.work 1 '.[0].message_id == "locked"'

# ---- two relays ----

rig_relay_start two "$CONFIG"
rig_wait_until "[ \"\$(rig_queue_consumers pay.in)\" = 2 ]" 60 || rig_die "two relays consume"
rig_load --queue pay.in --count 3000 --duplicates 50 --prefix two- >"$RIG_DIR/load.log"
rig_check "two relays on one file: each of 3000 arrives once" in_place 3000 two- --max-marked 0
rig_check "one of them is killed" rig_relay_kill two
rig_check "the other one ends" rig_relay_stop one
rig_check "nothing is pending" none_pending
rig_check "the file is sound" is_sound

# ---- killed again and again ----

kill_often() {
  local i
  for ((i = 1; i <= KILLS; i++)); do
    rig_relay_start "killed" "$CONFIG"
    ((i % 5 == 0)) || rig_wait_depth pay.work $((MESSAGES * i / (KILLS + 1))) 10
    sleep "0.0$((RANDOM % 90 + 10))"
    rig_relay_is_running killed || rig_fail "the relay ran until it was killed"
    rig_relay_kill killed
  done
}

is_done() {
  rig_wait_empty pay.in 1 && none_pending
}

finishes() {
  rig_wait_until is_done 60 && sleep 1 && rig_wait_until is_done 60
}

rig_load --queue pay.in --count "$MESSAGES" --duplicates 33 --prefix kill- >"$RIG_DIR/load.log" 2>&1 &
loader=$!
kill_often
rig_relay_start last "$CONFIG"
wait $loader || rig_fail "the load was taken"
rig_check "after $KILLS kills the last relay finishes the work" finishes
rig_check "none is lost, none comes twice unmarked" in_place "$MESSAGES" kill-
rig_check "the file is sound, all the same" is_sound

# ---- a file that is deleted under the relay ----

rm "$FILE" "$FILE"-wal "$FILE"-shm
rig_check "the relay notices that its file is gone" rig_wait_until "log_says last 'deleted or replaced'" 30
rig_wait_until "[ -e '$FILE' ]" 30
rig_check "and goes on with a new one, in which every key is new" forward kill-0
rig_check "SIGTERM ends it" rig_relay_stop last
rig_check "it leaves no session" [ "$(sql 'SELECT count(*) FROM onlyonce_sessions')" = 0 ]
rig_check "and nothing but the file" [ "$(ls "$RIG_DIR/data")" = onlyonce.db ]

# ---- what cannot be opened ----

fails_to_run() {
  rig_exits 1 timeout 20 "$RIG_BUILD/onlyonce" run -c "$CONFIG" && grep -q "$1" "$RIG_DIR/err" "$RIG_DIR/out"
}

echo "This is a letter to my aunt, and not a database of any kind." >"$FILE"
rig_check "a file that is something else ends the program with 1, and a line" fails_to_run 'file is not a database'
rm "$FILE"
rmdir "$RIG_DIR/data"
rig_check "and so does a folder that is missing" fails_to_run 'its folder has to exist'
