#!/bin/bash
# The commands beside "run": key, status, list, complete, release and check, with every exit code.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
AWAY=$RIG_DIR/away.yaml # the same, but its store is not there

configure() {
  rig_config_head
  cat <<'END'
routes:
  - name: pay
    from: {queue: pay.in, queue_type: classic}
    to: {queue: pay.work, queue_type: classic}
    park: {queue_type: classic}
    key: ["txn = header:x-transaction-id", "msg = message_id", "doc = type + body"]
    window: 24h
END
}

# onlyonce COMMAND ... : with the configuration.
onlyonce() {
  local command=$1
  shift
  rig_onlyonce "$command" -c "$CONFIG" "$@"
}

away() {
  local command=$1
  shift
  rig_onlyonce "$command" -c "$AWAY" "$@"
}

# prints CODE OUT COMMAND... : it exits so and prints exactly that.
prints() {
  local code=$1 out=$2
  shift 2
  rig_exits "$code" "$@" && [ "$(cat "$RIG_DIR/out")" = "$out" ] && return 0
  echo "printed, not \"$out\":"
  cat "$RIG_DIR/out" "$RIG_DIR/err"
  return 1
}

# complains CODE REGEX COMMAND... : it exits so, prints nothing, and says one line on stderr.
complains() {
  local code=$1 regex=$2
  shift 2
  rig_exits "$code" "$@" && [ ! -s "$RIG_DIR/out" ] && grep -qE "$regex" "$RIG_DIR/err" &&
    [ "$(wc -l <"$RIG_DIR/err")" = 1 ] && return 0
  echo "stdout and stderr, not one line with \"$regex\":"
  cat "$RIG_DIR/out" "$RIG_DIR/err"
  return 1
}

# misused COMMAND... : exit code 2, something on stderr, and nothing on stdout.
misused() {
  rig_exits 2 "$@" && [ -s "$RIG_DIR/err" ] && [ ! -s "$RIG_DIR/out" ]
}

is_json() {
  rig_exits "$1" "${@:3}" && [ "$(wc -l <"$RIG_DIR/out")" = 1 ] && jq -e "$2" "$RIG_DIR/out"
}

# forward ID : its copy arrives, and is on record as forwarded.
forward() {
  rig_post --queue pay.in --message-id "$1" && rig_takes pay.work 1 ".[0].message_id == \"$1\"" &&
    rig_wait_until "rig_redis_cli get onlyonce:key:pay:msg:$1 | grep -q '^2F'" 10
}

put_record() {
  rig_redis_cli set "onlyonce:key:pay:$1" "$2" px 600000
}

# A pending record of a session that nobody knows.
make_pending() {
  put_record "$1" "2P 1 1782640800123 t0 o0123456789abcdef01234567.1"
}

rig_redis_start --appendonly no
rig_rabbit_start
configure >"$CONFIG"
rig_port
sed "s/:$RIG_REDIS_PORT\//:$RIG_PORT\//" "$CONFIG" >"$AWAY"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay pay.in

# ---- usage ----

rig_check "without a command: 2" misused rig_onlyonce
rig_check "an unknown command: 2" misused rig_onlyonce fly
rig_check "an unknown option: 2" misused onlyonce check --fly
rig_check "status without a key: 2" misused onlyonce status pay
rig_check "status with two keys: 2" misused onlyonce status pay a b
rig_check "list without a route: 2" misused onlyonce list
rig_check "release without a key: 2" misused onlyonce release pay
rig_check "run with an argument: 2" misused onlyonce run now
for command in "status other k" "list other" "complete other k" "release other k" "key other"; do
  # shellcheck disable=SC2086 # several words
  rig_check "$command, of an unknown route: 2, and says so" \
    complains 2 'no route "other"; it has pay' onlyonce $command
done
rig_check "the configuration as an argument: 2" misused rig_onlyonce check other.yaml
rig_check "it says how to name it" grep -q 'a file is named by -c' "$RIG_DIR/err"
rig_check "list of an unknown state: 2" complains 2 'no state; write pending' \
  onlyonce list pay --state gone
rig_check "no configuration file: 2, and says which" \
  complains 2 /no/such/file rig_onlyonce check -c /no/such/file
rig_check "--version" rig_exits 0 rig_onlyonce --version
rig_check "prints one line" grep -qx 'onlyonce [0-9.]*' "$RIG_DIR/out"
rig_check "--help names the commands" rig_exits 0 rig_onlyonce --help
cp "$RIG_DIR/out" "$RIG_DIR/help"
for command in run check health status list complete release key; do
  rig_check "--help has $command" grep -q "^  *$command " "$RIG_DIR/help"
  rig_check "$command --help" rig_exits 0 rig_onlyonce $command --help
done

# ---- key ----

TAB=$'\t'
rig_check "key: by header" prints 0 "txn:t~201${TAB}txn" \
  onlyonce key pay --header "x-transaction-id=t 1" --message-id m </dev/null
rig_check "key: by message id" prints 0 "msg:m${TAB}msg" onlyonce key pay --message-id m </dev/null
digest=$(printf 'hello' | sha256sum | cut -d' ' -f1)
hello() {
  printf 'hello' | onlyonce key pay --type t
}
rig_check "key: by type and body" prints 0 "doc:t,sha256:$digest${TAB}doc" hello
rig_check "key: none: 1" complains 1 'no key: .*"txn = header:x-transaction-id", ' onlyonce key pay </dev/null
rig_check "key: a header without = is misuse: 2" misused onlyonce key pay --header novalue
rig_check "key: needs no server" prints 0 "msg:m${TAB}msg" away key pay --message-id m </dev/null
rig_post --queue pay.in --type t --body hello
rig_check "key: is the key that the relay uses" rig_takes pay.work 1 \
  ".[0].headers[\"x-onlyonce-key\"] == \"doc:t,sha256:$digest\""

# ---- status ----

rig_check "status of an unknown key: 1" is_json 1 '. == {"route":"pay","key":"msg:a","state":"not_found"}' \
  onlyonce status pay msg:a
rig_check "a key without its alternative's name: 1" rig_exits 1 onlyonce status pay a
rig_check "it says what keys begin with" \
  grep -qx 'onlyonce: the keys of route pay begin with txn:, msg:, doc:' "$RIG_DIR/err"
for command in release complete; do
  rig_check "$command, likewise" \
    complains 1 'key a is not on record; the keys of route pay begin with txn:, ' onlyonce $command pay a
done
forward a >/dev/null
rig_check "status of a forwarded key: 0" is_json 0 '.route == "pay" and .key == "msg:a" and
  .state == "forwarded" and .in_doubt == false and .attempt == 1 and
  (.first_seen | test("^20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z$")) and .forwarded_at >= .first_seen and
  .expires_in_ms > 86000000 and .expires_in_ms <= 86400000' onlyonce status pay msg:a
make_pending msg:p >/dev/null
rig_check "status of a pending key: 0" is_json 0 '.state == "pending"' onlyonce status pay msg:p
put_record msg:f "something else" >/dev/null
rig_check "status of what is not ours: 1, and says so" complains 1 "not onlyonce's" \
  onlyonce status pay msg:f
rig_check "status without the store: 3, one line" complains 3 'store redis: .*(refused|connect)' \
  away status pay msg:a

# ---- list ----

rig_check "list" rig_exits 0 onlyonce list pay
rig_check "list has a line of key, state and time left for each" [ "$(cut -f1,2 "$RIG_DIR/out" | sort)" = \
  "doc:t,sha256:$digest${TAB}forwarded
msg:a${TAB}forwarded
msg:f${TAB}foreign
msg:p${TAB}pending" ]
rig_check "its times are readable" grep -qE $'^msg:a\tforwarded\t23h59m[0-9]+s$' "$RIG_DIR/out"
rig_check "list --state pending" rig_exits 0 onlyonce list pay --state pending
rig_check "has only those" [ "$(cut -f1 "$RIG_DIR/out")" = msg:p ]
rig_check "list --state parked: 0, and nothing" prints 0 "" onlyonce list pay --state parked
rig_check "list without the store: 3" complains 3 'store redis' away list pay
rig_redis_cli del onlyonce:key:pay:msg:f >/dev/null

# ---- complete ----

misuses_result() {
  complains 2 "$1" onlyonce complete pay msg:c1 --result "$2"
}

forward c1 >/dev/null
rig_check "complete without a key: 2" misused onlyonce complete pay
rig_check "complete with a result that is not JSON: 2, and says so" misuses_result 'not valid JSON.*"done"' "done"
rig_check "with an empty one: 2" misuses_result 'not valid JSON' ''
rig_check "with half of one: 2" misuses_result 'not valid JSON' '{"a":1'
longest="\"$(printf '%4094s' '' | tr ' ' x)\""
rig_check "with one above 4 KiB: 2, and says so" misuses_result '4097 bytes.*4096' "${longest%?}x\""
rig_check "nothing has changed" is_json 0 '.state == "forwarded" and has("result") == false' \
  onlyonce status pay msg:c1
rig_check "complete of an unknown key: 1, and says so" complains 1 'msg:none is not on record' \
  onlyonce complete pay msg:none
rig_check "complete with a result: 0" prints 0 "msg:c1${TAB}completed" \
  onlyonce complete pay msg:c1 --result '{"n": 1.50, "n2":"\u00e9"}'
rig_check "status has it" is_json 0 '.state == "completed" and .completed_at >= .forwarded_at' \
  onlyonce status pay msg:c1
rig_check "byte for byte" grep -qF '"result":{"n": 1.50, "n2":"\u00e9"}' "$RIG_DIR/out"
rig_check "complete again: 0" prints 0 "msg:c1${TAB}already completed" \
  onlyonce complete pay msg:c1 --result '"another"'
rig_check "the first result stays" is_json 0 '.result.n == 1.5' onlyonce status pay msg:c1
forward c2 >/dev/null
rig_check "complete without a result: 0" prints 0 "msg:c2${TAB}completed" onlyonce complete pay msg:c2
rig_check "status has none" is_json 0 '.state == "completed" and has("result") == false' \
  onlyonce status pay msg:c2
forward c3 >/dev/null
rig_check "complete with the longest result: 0" rig_exits 0 \
  onlyonce complete pay msg:c3 --result "$longest"
rig_check "status has all of it" is_json 0 '.result | length == 4094' onlyonce status pay msg:c3
make_pending msg:c4 >/dev/null
rig_check "complete of a pending key: 0" prints 0 "msg:c4${TAB}completed" \
  onlyonce complete pay msg:c4 --result 4
rig_check "is noted" is_json 0 '.state == "pending" and .completed_at and .result == 4' \
  onlyonce status pay msg:c4
rig_post --queue pay.in --message-id c4
rig_check "and makes its message a duplicate" forward c5
rig_check "of a completed key" is_json 0 '.state == "completed" and .result == 4' \
  onlyonce status pay msg:c4
put_record msg:f "something else" >/dev/null
rig_check "complete of what is not ours: 1, and says so" complains 1 "not onlyonce's" \
  onlyonce complete pay msg:f
rig_check "complete without the store: 3" complains 3 'store redis' away complete pay msg:a
rig_check "list has no results" rig_exits 0 onlyonce list pay
rig_check "only keys" [ "$(grep -c '^msg:c[0-9]' "$RIG_DIR/out")" = 5 ]
rig_redis_cli del onlyonce:key:pay:msg:f >/dev/null
onlyonce release pay msg:c1 msg:c2 msg:c3 msg:c4 msg:c5 >/dev/null

# ---- release ----

rig_check "release: 0" prints 0 "msg:a${TAB}released" onlyonce release pay msg:a
rig_check "its next message is new again" forward a
rig_check "release of an unknown key: 1, and says so" complains 1 'msg:none is not on record' \
  onlyonce release pay msg:none
rig_check "release of a pending key: 1, and says how" complains 1 'pending.*--force' \
  onlyonce release pay msg:p
rig_check "it is still there" is_json 0 '.state == "pending"' onlyonce status pay msg:p
rig_check "release --force of a pending key: 0" prints 0 "msg:p${TAB}released" \
  onlyonce release pay --force msg:p
rig_check "its next message is new again, and in no doubt" forward p
forward b >/dev/null
rig_check "release of several, one unknown: 1" rig_exits 1 onlyonce release pay msg:a msg:none msg:b
rig_check "the others are released" [ "$(cat "$RIG_DIR/out")" = "msg:a${TAB}released
msg:b${TAB}released" ]
forward a >/dev/null
forward b >/dev/null
all_of_list() {
  onlyonce list pay | onlyonce release pay -
}
rig_check "release -: what list prints" rig_exits 0 all_of_list
rig_check "and nothing is left" prints 0 "" onlyonce list pay
some_lines() {
  printf 'msg:none\n\nmsg:c\r\nmsg:d' | onlyonce release pay -
}
forward c >/dev/null
forward d >/dev/null
rig_check "release -: an unknown one among them: 1" rig_exits 1 some_lines
rig_check "the others are released all the same" [ "$(cat "$RIG_DIR/out")" = "msg:c${TAB}released
msg:d${TAB}released" ]
rig_check "release - of nothing: 0" prints 0 "" onlyonce release pay - </dev/null
rig_check "release without the store: 3" complains 3 'store redis' away release pay msg:a
