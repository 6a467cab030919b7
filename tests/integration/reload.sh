#!/bin/bash
# SIGHUP: a changed configuration drains and restarts the routes that differ, and no other; a faulty
# one changes nothing; under load nothing is lost and nothing comes twice.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
LOG=$RIG_DIR/relay.log
HTTP=

# route NAME [FIELD] : one of the configuration's.
route() {
  cat <<END
  - name: $1
    from: {queue: $1.in}
    to: {queue: $1.work}
    key: [message_id]
    window: 24h
    ${2:-}
END
}

# configure ROUTES... : the text of each; in one step, as an editor or a mounted volume does it.
configure() {
  {
    rig_config_head
    echo "admin: {listen: \"127.0.0.1:$HTTP\"}"
    echo "routes:"
    printf '%s\n' "$@"
  } >"$CONFIG.new"
  mv "$CONFIG.new" "$CONFIG"
}

# reloads LINE : SIGHUP, and then the log has one more line that says so.
reloads() {
  local before
  before=$(grep -c "$1" "$LOG")
  rig_relay_signal relay HUP
  rig_wait_until "[ \$(grep -c '$1' '$LOG') -gt $before ]" 60
}

IN_FORCE='the changed configuration is in force'

# has_started ROUTE COUNT
has_started() {
  local n
  n=$(grep -E '(^| )(event|msg)="?route"? ' "$LOG" | grep -c " route=$1 ")
  [ "$n" = "$2" ] || { echo "$1 was started $n times, not $2"; return 1; }
}

counter() {
  curl -sf "http://127.0.0.1:$HTTP/metrics" | awk -v r="route=\"$1\"" \
    '/^onlyonce_deliveries_total/ && index($0, r) { print $2 }'
}

passes() {
  rig_post --queue "$1.in" --message-id "$2" && rig_takes "$1.work" 1 ".[0].message_id == \"$2\""
}

rig_redis_start --appendonly no
rig_rabbit_start
rig_port
HTTP=$RIG_PORT
configure "$(route a)" "$(route b)"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay a.in
rig_relay_ready relay b.in
rig_check "a relays" passes a 1
rig_check "b relays" passes b 1

rig_check "the same configuration changes nothing" reloads 'the configuration has not changed'
rig_check "a was started once" has_started a 1

configure "$(route a 'sliding: yes')" "$(route b)"
rig_check "a faulty one changes nothing, and says so" reloads 'nothing is changed'
rig_check "the fault is named" grep -q 'routes\[0\].sliding' "$LOG"
rig_check "a goes on" passes a 2

configure "$(route a 'sliding: true')" "$(route b)" "$(route c)"
rig_check "another field, and another route" reloads "$IN_FORCE"
rig_relay_ready relay c.in
rig_relay_ready relay a.in
rig_check "a was started again" has_started a 2
rig_check "b was not" has_started b 1
rig_check "c is new" passes c 1
rig_check "a relays again" passes a 3
rig_check "a still knows its keys" rig_post --queue a.in --message-id 1
rig_check "a drops the duplicate" passes a 4
rig_check "a's counters went on" [ "$(counter a)" -ge 5 ]
rig_check "b's too" [ "$(counter b)" = 1 ]

configure "$(route c)" "$(route a 'sliding: true')"
rig_check "a route is removed, and the others change places" reloads "$IN_FORCE"
rig_check "nobody consumes for b" rig_wait_until "[ \"\$(rig_queue_consumers b.in)\" = 0 ]" 30
rig_check "c was not started again" has_started c 1
rig_check "b's counters are gone" [ -z "$(counter b)" ]
rig_check "c relays" passes c 2

# A changed log level concerns no route.
configure "$(route c)" "$(route a 'sliding: true')"
sed -i 's/^admin:/log: {level: debug}\n&/' "$CONFIG"
rig_check "the log's level" reloads "$IN_FORCE"
rig_check "c was not started again for that" has_started c 1

# An address that somebody else has: the routes go on, and HTTP comes once it can be had.
rig_port
NEW=$RIG_PORT
socat TCP-LISTEN:"$NEW",bind=127.0.0.1,fork SYSTEM:true &
TAKEN=$!
rig_wait_until "rig_port_answers $NEW" 30
sed -i "s/127.0.0.1:$HTTP/127.0.0.1:$NEW/" "$CONFIG"
rig_check "an address that is taken" reloads 'cannot serve HTTP at admin.listen'
rig_check "c goes on" passes c 3
rig_check "c was not started again for that, either" has_started c 1
kill $TAKEN
wait $TAKEN 2>/dev/null
HTTP=$NEW
rig_check "HTTP is served once it is free" rig_wait_until "curl -sf http://127.0.0.1:$HTTP/healthz" 60

# A renewed secret: the file's name is the same, its content is not.
echo first-secret >"$RIG_DIR/password"
rig_redis_cli config set requirepass first-secret >/dev/null
sed -i "s|^    session:|    password: \${file:$RIG_DIR/password}\n&|" "$CONFIG"
rig_check "a password from a file" reloads "$IN_FORCE"
rig_check "a relays with it" passes a 5
echo second-secret >"$RIG_DIR/password"
rig_redis_cli -a first-secret --no-auth-warning config set requirepass second-secret >/dev/null
rig_check "the file has another password" reloads "$IN_FORCE"
rig_redis_cli -a second-secret --no-auth-warning client kill type normal >/dev/null
rig_check "a relays with that" passes a 6
rig_redis_cli -a second-secret --no-auth-warning config set requirepass '' >/dev/null

# Under load, again and again.
rig_load --queue a.in --count 12000 --duplicates 30 --rate 1500 --prefix load- >"$RIG_DIR/load.out" 2>&1 &
LOAD=$!
for i in 1 2 3 4 5 6; do
  configure "$(route c)" "$(route a "hold_limit: ${i}m")"
  rig_check "change $i under load" reloads "$IN_FORCE"
done
rig_check "the load was published" wait $LOAD
rig_check "all of it was taken" rig_wait_empty a.in 60
rig_check "and arrived" rig_wait_depth a.work 12000 60
rig_check "nothing is missing, nothing came twice" rig_account --work a.work --prefix load- --count 12000
rig_check "the relay stops" rig_relay_stop relay

rig_relay_start relay "$CONFIG"
rig_relay_ready relay a.in
configure "$(route c)" "$(route a "hold_limit: 9m")"
rig_relay_signal relay HUP
rig_check "SIGTERM in the middle of a change" rig_relay_stop relay
