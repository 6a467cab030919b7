#!/bin/bash
# What is refused at the start, and how it is said: configurations, servers, logins, queues. And
# what "check" says of the same.

# What is ${...} here is the configuration's, not the shell's.
# shellcheck disable=SC2016

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

BAD=$RIG_DIR/bad.yaml
GOOD=$RIG_DIR/good.yaml

# Servers that are played by a shell take their time on a busy machine.
good() {
  RIG_SESSION=30s rig_config_head
  cat <<'END'
    timeout: 9s
routes:
  - name: pay
    from: {queue: pay.in, queue_type: classic}
    to: {queue: pay.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
END
}

# ---- configurations: exit code 2, one line for each fault, and nothing starts ----

# faults NAME SED-EXPRESSION REGEX... : the good configuration, edited, has exactly these faults, in
# lines of their own that begin with file and line.
faults() {
  local name=$1 edit=$2 regex
  shift 2
  good | sed "$edit" >"$BAD"
  rig_check "configuration: $name" has_faults "$@"
  rig_check "run refuses it, too: $name" runs_not 2 "${1//\\\\/\\}"
}

has_faults() {
  local regex
  if ! rig_exits 2 rig_onlyonce check -c "$BAD" || [ -s "$RIG_DIR/out" ] ||
    [ "$(wc -l <"$RIG_DIR/err")" != $# ]; then
    cat "$RIG_DIR/out" "$RIG_DIR/err"
    return 1
  fi
  for regex; do
    grep -qE "^$BAD:[0-9]+: $regex" "$RIG_DIR/err" && continue
    echo "no line has: $regex"
    cat "$RIG_DIR/err"
    return 1
  done
}

# No password is printed.
no_secret() {
  ! grep -qsE 'sesame|secret' "$RIG_DIR/out" "$RIG_DIR/err"
}

# runs_not CODE REGEX [CONFIG] : within 30 seconds it ends so, having said so.
runs_not() {
  rig_exits "$1" timeout 30 "$RIG_BUILD/onlyonce" run -c "${3:-$BAD}" &&
    grep -qE "$2" "$RIG_DIR/err" && no_secret && return 0
  cat "$RIG_DIR/err"
  return 1
}

# ---- servers: exit code 1, one line of level error ----

# refuses NAME SED-EXPRESSION REGEX
refuses() {
  good | sed "$2" >"$BAD"
  rig_check "run: $1: 1" runs_not 1 "^ts=.* level=error .*$3"
  rig_check "run: $1: in one line" [ "$(grep -c level=error "$RIG_DIR/err")" = 1 ]
  rig_check "check --connect: $1: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
  rig_check "check --connect: $1: in one line" [ "$(grep -cE "FAILED: .*$4" "$RIG_DIR/out")" = 1 ]
}

rig_redis_start --appendonly no
rig_rabbit_start
good >"$GOOD"

rig_check "a good configuration: 0" rig_exits 0 rig_onlyonce check -c "$GOOD"
rig_check "says so" grep -qx "$GOOD: good" "$RIG_DIR/out"

faults "an unknown field" 's/    window: 24h/    windows: 24h/' \
  'routes\[0\].windows: .*' 'routes\[0\].window: .*(missing|required)'
faults "a duration without a unit" 's/24h/24/' 'routes\[0\].window: "24" has no unit; write 24h'
faults "a duration of 0" 's/24h/0s/' 'routes\[0\].window: "0s" is too low'
faults "a key part that is none" 's/\[message_id\]/[message-id]/' 'routes\[0\].key\[0\]: '
faults "a name with a space" 's/name: pay/name: "pay ments"/' 'routes\[0\].name: '
faults "a boolean that is none" 's/queue: pay.work,/queue: pay.work, declare: yes,/' \
  'routes\[0\].to.declare: "yes" .*(true|false)'
faults "copies that come straight back" 's/queue: pay.work/queue: pay.in/' 'routes\[0\].to.queue: '
faults "a queue and an exchange" 's/queue: pay.work/exchange: x, queue: pay.work/' \
  'routes\[0\].to.exchange: is set, and so is to.queue'
faults "a repeated field" 's/    window: 24h/&\n    window: 12h/' 'routes\[0\].window: '
faults "a variable that is not set" 's/24h/${ONLYONCE_NO_SUCH}/' \
  'routes\[0\].window: .*ONLYONCE_NO_SUCH'
faults "a file that is not there" 's/24h/${file:\/no\/such}/' 'routes\[0\].window: .*/no/such'
faults "no YAML" 's/^routes:/routes: ]/' ''
faults "a second document" 's/^routes:/---\n&/' '.*'
faults "an address without a port" 's/^routes:/admin:\n  listen: localhost\n&/' 'admin.listen: has no port'
faults "three faults in three lines" 's/24h/24/; s/name: pay/name: PAY/; s/message_id/nothing/' \
  'routes\[0\].window: ' 'routes\[0\].name: ' 'routes\[0\].key\[0\]: '
faults "a broker's URL, whose password is not printed" \
  's/guest:guest@127.0.0.1/guest:sesame@127.0.0.1:x/' 'broker.urls\[0\]: '
rig_check "the password is not in it" no_secret
: >"$BAD"
rig_check "configuration: an empty file" rig_exits 2 rig_onlyonce check -c "$BAD"

# ---- servers ----

rig_check "check --connect before there are queues: 0" \
  rig_exits 0 rig_onlyonce check --connect -c "$GOOD"
rig_check "it says what run makes" grep -q 'queue pay.work (to) is missing; run makes it' \
  "$RIG_DIR/out"
rig_check "it says what the store cannot promise" grep -q 'store redis: cannot promise everything' \
  "$RIG_DIR/out"
rig_check "and makes nothing" eval '! rig_queue_depth pay.work'

rig_relay_start relay "$GOOD"
rig_relay_ready relay pay.in
rig_check "a relay starts" rig_relay_stop relay
rig_check "check --connect: all is there: 0" rig_exits 0 rig_onlyonce check --connect -c "$GOOD"
rig_check "it says so" grep -qx 'route pay: queue pay.work (to) is there' "$RIG_DIR/out"

# A user who may do all but write to the default exchange, so that queues that are there can be had.
{ rig_rabbitctl add_user narrow narrow && rig_rabbitctl set_permissions narrow '.*' '^pay' '.*'; } >/dev/null
good | sed 's/guest:guest/narrow:narrow/' >"$BAD"
rig_check "check --connect: without the permission to publish: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
rig_check "it says which" grep -q "FAILED: .*'amq.default' .* for user 'narrow'; publishing to queues needs" "$RIG_DIR/out"
rig_rabbitctl set_permissions narrow '.*' '^(pay|amq.default)' '.*' >/dev/null
rig_check "check --connect: with it: 0" rig_exits 0 rig_onlyonce check --connect -c "$BAD"

# shellcheck disable=SC2153 # the rig sets it
refuses "a wrong password" 's/guest:guest/guest:sesame/' "user .?guest|ACCESS_REFUSED|refused" ".*"
rig_check "the password is not in it" no_secret
refuses "an unknown user" 's/guest:guest/nobody:guest/' "nobody" "nobody"
refuses "a work queue that is missing, with declare: false" \
  's/queue: pay.work,/queue: other.work, declare: false,/' "404.*other.work" "other.work"
refuses "an inbound queue that is missing, with declare: false" \
  's/queue: pay.in,/queue: other.in, declare: false,/; s/park: {/park: {queue: pay.in.parked, /' \
  "404.*other.in" "other.in"
refuses "an exchange that is missing" \
  's/to: {queue: pay.work, queue_type: classic}/to: {exchange: other.out}/' "404.*other.out" "other.out"
rig_queues declare stream.in x-queue-type=stream
for type in classic quorum; do
  refuses "a stream as inbound queue that is to be $type" \
    "s/from: {queue: pay.in, queue_type: classic}/from: {queue: stream.in, queue_type: $type}/" \
    "link=source.*stream.in.* is a stream" "stream.in.* is a stream"
done
refuses "an unknown virtual host" "s/%2f/nowhere/" "nowhere" "nowhere"

rig_redis_cli config set requirepass secret >/dev/null
refuses "a store that asks for a password" 's/x/x/' "link=store.*(NOAUTH|password)" "(NOAUTH|password)"
refuses "a store with a wrong password" 's/redis:\/\//&:sesame@/' "link=store.*(WRONGPASS|password)" \
  "(WRONGPASS|password)"
rig_check "the password is not in it" no_secret
good | sed 's/redis:\/\//&:secret@/' >"$BAD"
rig_check "the right password: 0" rig_exits 0 rig_onlyonce check --connect -c "$BAD"
rig_redis_cli -a secret --no-auth-warning config set requirepass '' >/dev/null

# ---- stores that will not do ----

old_redis() {
  local word
  while read -r word; do
    case ${word%$'\r'} in
    ROLE) printf '*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n' ;;
    INFO) printf '$21\r\nredis_version:6.2.14\r\n\r\n' ;;
    esac
  done
}
export -f old_redis
rig_port
socat "TCP-LISTEN:$RIG_PORT,bind=127.0.0.1,fork,reuseaddr" "EXEC:bash -c old_redis" &
RIG_RELAYS[old]=$! # to be stopped with the relays
rig_wait_until "rig_port_answers $RIG_PORT" 10
refuses "a store that is too old" "s/:$RIG_REDIS_PORT\\//:$RIG_PORT\\//" \
  "link=store.*6.2.14.*too old.*7.0" "too old"

rig_port
mkdir "$RIG_DIR/cluster"
"$RIG_REDIS_SERVER" --port "$RIG_PORT" --bind 127.0.0.1 --dir "$RIG_DIR/cluster" --save '' \
  --cluster-enabled yes --cluster-port 0 >"$RIG_DIR/cluster.log" 2>&1 &
RIG_RELAYS[cluster]=$!
rig_wait_until "rig_port_answers $RIG_PORT" 10
refuses "a cluster" "s/:$RIG_REDIS_PORT\\//:$RIG_PORT\\//" "link=store.*Cluster" Cluster

# ---- a store that is away: "check" says it, "run" waits ----

rig_redis_stop
rig_check "check --connect without the store: 1" \
  rig_exits 1 rig_onlyonce check --connect -c "$GOOD"
rig_check "says so" grep -q 'store redis: FAILED: ' "$RIG_DIR/out"
rig_relay_start waits "$GOOD"
rig_check "run waits for it, and says so" \
  rig_wait_until "grep -q 'cannot connect yet.*link=store' '$RIG_DIR/waits.log'" 30
rig_check "without a consumer" [ "$(rig_queue_consumers pay.in)" = 0 ]
rig_redis_start --appendonly no
rig_check "and goes on when it is there" \
  rig_wait_until "[ \"\$(rig_queue_consumers pay.in)\" = 1 ]" 60
rig_check "and ends well" rig_relay_stop waits

# ---- records of another version ----

rig_relay_start foreign "$GOOD"
rig_relay_ready foreign pay.in
rig_redis_cli set onlyonce:key:pay:old "2F from another version" >/dev/null
rig_redis_cli rpush onlyonce:key:pay:list 1 >/dev/null
for id in old list other; do
  rig_post --queue pay.in --message-id $id
done
rig_check "a record that is not ours stops nobody else" rig_takes pay.work 1 \
  '.[0].message_id == "other"'
rig_check "it is said" rig_wait_until "grep -q 'not onlyonce.*key=old' '$RIG_DIR/foreign.log'" 20
rig_check "and its message is held" [ "$(rig_queue_consumers pay.in)" = 1 ]
rig_redis_cli del onlyonce:key:pay:old onlyonce:key:pay:list >/dev/null
rig_check "until it is gone" rig_takes pay.work 2 'map(.message_id) | sort == ["list","old"]'
rig_check "and the relay ends well" rig_relay_stop foreign
