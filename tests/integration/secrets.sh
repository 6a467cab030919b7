#!/bin/bash
# Secrets show nowhere: passwords and tokens, written as such, in URLs, from files and from the
# environment, are looked for in every byte that the program writes, in its arguments, its
# environment, its HTTP answers and its core.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
OUT=$RIG_DIR/everything # all that was ever written
SECRETS='br0ker-s3cret|st0re-s3cret|t0ken-s3cret|sentin3l-s3cret|p0stgres-s3cret'

# say COMMAND... : the program, whatever it exits with.
say() {
  {
    echo "\$ $*"
    timeout 30 "$RIG_BUILD/onlyonce" "$@"
  } >>"$OUT" 2>&1 </dev/null
  return 0
}

nothing_in() {
  ! grep -aE "$SECRETS" "$@"
}

# configure [BROKER-PASSWORD [STORE-PASSWORD]]
configure() {
  cat <<END
broker:
  urls: ["amqp://127.0.0.1:$RABBITMQ_NODE_PORT/%2f"]
  username: relay
  password: ${1:-\${BROKER_PASSWORD\}}
stores:
  - name: redis
    url: redis://:${2:-\${file:$RIG_DIR/store-password\}}@127.0.0.1:$RIG_REDIS_PORT/0
admin:
  listen: 127.0.0.1:$HTTP
  token: t0ken-s3cret
log: {level: debug}
completions: {queue: reports}
routes:
  - name: pay
    from: {queue: pay.in}
    to: {queue: pay.work}
    key: [message_id]
    window: 24h
END
}

# Each is a configuration with a fault close to a secret.
say_faults() {
  local edit
  for edit in 's/^  token:/  tokn:/' 's/relay$/relay\n  user: x/' 's/127.0.0.1:[0-9]*\/0/127.0.0.1:x\/0/' \
    's/redis:\/\//rediss+sentinel:\/\//' 's/redis:\/\/:/http:\/\/u:/' 's/ \/0$/\/zero/' 's/window: 24h/window: 24/' \
    's/listen: .*/listen: nowhere/' 's/name: redis/name: redis\n    sentinel: {password: sentin3l-s3cret}/' \
    's/url: .*/url: postgresql:\/\/u:p0stgres-s3cret%@h\/d/' 's/url: .*/url: postgresql:\/\/u:p0stgres-s3cret@127.0.0.1:1\/d/' \
    's/amqp:/amqps:/' 's/amqp:\/\//amqp:\/\/relay:br0ker-s3cret@/; s/\/%2f/\/%2/' 's/log:/log: [/'; do
    configure br0ker-s3cret st0re-s3cret | sed "$edit" >"$RIG_DIR/bad.yaml"
    say check -c "$RIG_DIR/bad.yaml"
    say check --connect -c "$RIG_DIR/bad.yaml"
    say status -c "$RIG_DIR/bad.yaml" pay x
  done
}

say_http() {
  local path
  for path in healthz readyz metrics v1/routes v1/routes/pay/recent v1/keys/pay/1 v1/keys/pay/2; do
    curl -si -m 10 -H 'Authorization: Bearer t0ken-s3cret' "http://127.0.0.1:$HTTP/$path"
    curl -si -m 10 -H 'Authorization: Bearer t0ken-s3cre' "http://127.0.0.1:$HTTP/$path"
  done >>"$OUT" 2>&1
}

rig_redis_start --appendonly no
rig_redis_cli config set requirepass st0re-s3cret >/dev/null
rig_rabbit_start
rig_port
HTTP=$RIG_PORT
echo st0re-s3cret >"$RIG_DIR/store-password"
rig_rabbitctl -q add_user relay br0ker-s3cret >/dev/null
rig_rabbitctl -q set_permissions relay '.*' '.*' '.*' >/dev/null
export BROKER_PASSWORD=br0ker-s3cret

configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
PID=${RIG_RELAYS[relay]}
rig_relay_ready relay pay.in
rig_post --queue pay.in --message-id 1
rig_post --queue pay.in --message-id 1
rig_post --queue reports --header x-onlyonce-route=nothing
rig_check "it relays" rig_takes pay.work 1 '.[0].message_id == "1"'
rig_check "its arguments" nothing_in "/proc/$PID/cmdline"
rig_check "its environment" nothing_in "/proc/$PID/environ"
say_http
for command in "status pay 1" "list pay" "complete pay 1" "release pay 1" "key pay --message-id 1" "check" \
  "check --connect" "health"; do
  # shellcheck disable=SC2086 # words
  say ${command%% *} -c "$CONFIG" ${command#"${command%% *}"}
done

# A broker and a store that say no, and a changed configuration with a fault.
rig_rabbitctl -q change_password relay another >/dev/null
rig_rabbitctl -q close_all_connections secrets >/dev/null
rig_redis_cli -a st0re-s3cret --no-auth-warning config set requirepass another >/dev/null
rig_redis_cli -a another --no-auth-warning client kill type normal >/dev/null
rig_check "refused logins are logged" rig_wait_until "grep -qiE 'link=(sink|source).*(refused|login|403)' $RIG_DIR/relay.log" 30
configure br0ker-s3cret | sed 's/24h/24/' >"$CONFIG"
rig_relay_signal relay HUP
rig_check "a fault is logged" rig_wait_until "grep -q 'nothing is changed' '$RIG_DIR/relay.log'" 30
say_http
say check --connect -c "$CONFIG"
say_faults
rig_relay_signal relay USR1
rig_relay_stop relay >/dev/null 2>&1
rig_check "its log" nothing_in "$RIG_DIR/relay.log"
rig_check "all that its commands and HTTP said" nothing_in "$OUT"
rig_check "they said something" [ "$(wc -l <"$OUT")" -gt 150 ]
