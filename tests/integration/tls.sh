#!/bin/bash
# amqps://: relaying over TLS with certificates of its own authority; logging in by a certificate;
# and what is refused, each in one line: another authority, another host, an expired certificate, a
# plain port. And rediss:// where the build has it, with both servers asking for certificates, and a user of Redis
# who may do no more than is documented. In the unit test test_tls are old versions of TLS, and certificates that a server
# insists on.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/certificates.sh
. "$(dirname "$0")/../lib/certificates.sh"

CONFIG=$RIG_DIR/relay.yaml
BAD=$RIG_DIR/bad.yaml

# configure URL TLS-FIELDS [ROUTE-NAME]
configure() {
  cat <<END
broker:
  urls: ["$1"]
  tls: {$2}
stores:
  - name: redis
    url: $RIG_REDIS_URL
    session: 3s
    timeout: 900ms
routes:
  - name: ${3:-pay}
    from: {queue: ${3:-pay}.in}
    to: {queue: ${3:-pay}.work}
    key: [message_id]
    window: 24h
END
}

# in_place ROUTE COUNT PREFIX OPTION... : all ids are in the work queue, and nothing is left or pending.
in_place() {
  local route=$1 count=$2 prefix=$3
  shift 3
  rig_wait_depth "$route.work" "$count" 90 && rig_wait_until "is_done $route" 60 &&
    rig_account --work "$route.work" --in "$route.in" --park "$route.in.parked" --count "$count" --prefix "$prefix" \
      --max-parked 0 "$@"
}

is_done() {
  [ "$(rig_queue_depth "$1.in")" = 0 ] && rig_onlyonce list -c "$CONFIG" "$1" --state pending >"$RIG_DIR/pending" &&
    [ ! -s "$RIG_DIR/pending" ]
}

# refuses NAME URL TLS-FIELDS REGEX : check --connect says so, in one line.
refuses() {
  configure "$2" "$3" >"$BAD"
  rig_check "check --connect: $1: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
  rig_check "check --connect: $1: in one line" says_once "$RIG_DIR/out" "FAILED: .*$4"
}

# ends NAME URL TLS-FIELDS REGEX : so does run, which ends.
ends() {
  refuses "$@"
  rig_check "run: $1: 1" rig_exits 1 timeout 30 "$RIG_BUILD/onlyonce" run -c "$BAD"
  rig_check "run: $1: in one line" says_once "$RIG_DIR/err" "level=error .*$4"
}

# says NAME REGEX : the relay of that name does, soon.
says() {
  rig_wait_until "grep -qE '$2' '$RIG_DIR/$1.log'" 40
}

# says_once FILE REGEX
says_once() {
  [ "$(grep -cE "FAILED|level=error" "$1")" = 1 ] && grep -qE "$2" "$1" && return 0
  echo "not one line with $2:"
  cat "$1"
  return 1
}

# is_fault NAME TLS-FIELDS REGEX : a fault of the configuration, in one line.
is_fault() {
  configure "amqps://localhost" "$2" >"$BAD"
  rig_check "configuration: $1: 2" rig_exits 2 rig_onlyonce check -c "$BAD"
  rig_check "configuration: $1: in one line" eval "[ \$(wc -l <'$RIG_DIR/err') = 1 ] && grep -qE '$3' '$RIG_DIR/err'"
}

cert_authority ours
cert_authority other
cert_make good ours rabbit
cert_make late ours rabbit DNS:localhost -1
cert_make client ours relay DNS:relay
cert_make stranger other relay DNS:relay
cert_make nobody ours nobody DNS:nobody
cert_copy good server
rig_redis_start --appendonly no
rig_rabbit_tls "$CERTIFICATES/ours.pem" "$CERTIFICATES/server.pem" "$CERTIFICATES/server.key"
rig_rabbit_start
{ rig_rabbitctl -q add_user relay unused && rig_rabbitctl -q set_permissions relay '.*' '.*' '.*'; } ||
  rig_die "the user relay is made"

GUEST=guest:guest@
TLS=localhost:$RIG_TLS_PORT
OURS="ca: $CERTIFICATES/ours.pem"
AS_RELAY="cert: $CERTIFICATES/client.pem, key: $CERTIFICATES/client.key"

# ---- relaying ----

configure "amqps://$GUEST$TLS" "$OURS" >"$CONFIG"
rig_check "check --connect: 0" rig_exits 0 rig_onlyonce check --connect -c "$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay pay.in
rig_check "the connections are TLS 1.2 or newer" eval "rig_rabbitctl -q list_connections ssl_protocol |
  grep -cE 'tlsv1\.[23]' | grep -qx 2"
rig_load --queue pay.in --count 3000 --duplicates 40 --body-size 2000 --prefix a- >/dev/null
rig_check "3000 messages arrive, each once" in_place pay 3000 a- --max-marked 0
rig_load --queue pay.in --count 6 --body-size 3000000 --prefix big- >/dev/null
rig_check "large bodies, too" in_place pay 6 big- --max-marked 0
rig_load --queue pay.in --count 4000 --duplicates 20 --prefix b- >/dev/null &
loader=$!
rig_wait_depth pay.work 1000 30
rig_relay_kill relay
rig_relay_start relay "$CONFIG"
wait $loader
rig_wait_until "is_done pay" 60 # what was in doubt comes last
rig_check "killed and started again: none is lost, none comes twice unmarked" in_place pay 4000 b- --max-marked 1000
rig_load --queue pay.in --count 4000 --prefix c- >/dev/null &
loader=$!
rig_wait_depth pay.work 500 30
rig_check "SIGTERM under load: 0" rig_relay_stop relay
rig_relay_start relay "$CONFIG"
wait $loader
rig_check "stopped and started again: all arrive, each once" in_place pay 4000 c- --max-marked 0

# ---- certificates that expire and are renewed while it runs ----

cert_copy late server
rig_rabbit_restart
ends "an expired certificate" "amqps://$GUEST$TLS" "$OURS" "its certificate has expired on "
rig_check "the relay goes on" rig_relay_is_running relay
cert_copy good server
rig_rabbit_restart
rig_load --queue pay.in --count 100 --prefix d- >/dev/null
rig_check "with a renewed one: relayed, without a restart of the relay" in_place pay 100 d- --max-marked 0
rig_check "SIGTERM ends it" rig_relay_stop relay

# ---- what is refused ----

ends "another authority" "amqps://$GUEST$TLS" "ca: $CERTIFICATES/other.pem" \
  "authority that tls.ca .*other.pem. does not hold"
SSL_CERT_FILE=/dev/null ends "the system's authorities" "amqps://$GUEST$TLS" "verify: true" \
  "this system does not trust; set tls.ca"
SSL_CERT_FILE=$CERTIFICATES/ours.pem rig_check "the system's authorities may hold it" \
  rig_exits 0 rig_onlyonce check --connect -c "$BAD"
ends "another host" "amqps://${GUEST}127.0.0.1:$RIG_TLS_PORT" "$OURS" \
  "its certificate is not of host 127.0.0.1, but of localhost"
refuses "the plain port" "amqps://${GUEST}127.0.0.1:$RABBITMQ_NODE_PORT" "$OURS" \
  "does not speak TLS .is it the plain port"
configure "amqp://$GUEST$TLS" "" | sed '/tls:/d' >"$BAD"
rig_check "amqp:// to the TLS port: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
rig_check "amqp:// to the TLS port: in one line" says_once "$RIG_DIR/out" "write amqps://"
configure "amqps://${GUEST}127.0.0.1:$RIG_TLS_PORT" "verify: false" >"$BAD"
rig_check "unless nothing is verified: 0" rig_exits 0 rig_onlyonce check --connect -c "$BAD"

is_fault "a file that is missing" "ca: /no/such.pem" 'broker.tls.ca: /no/such.pem cannot be read: No such file'
is_fault "a file without a certificate" "ca: $CERTIFICATES/ours.key" 'broker.tls.ca: .*ours.key holds no certificate'
is_fault "a key of another certificate" "cert: $CERTIFICATES/client.pem, key: $CERTIFICATES/good.key" \
  'broker.tls.key: .*good.key is not the key of the certificate .*client.pem'

# ---- logging in by a certificate ----

configure "amqps://$TLS" "$OURS, $AS_RELAY" cert >"$CONFIG"
rig_check "EXTERNAL: check --connect: 0" rig_exits 0 rig_onlyonce check --connect -c "$CONFIG"
rig_relay_start cert "$CONFIG"
rig_relay_ready cert cert.in
rig_check "it is the certificate's user" eval "rig_rabbitctl -q list_connections user auth_mechanism |
  grep -cE 'relay.*EXTERNAL' | grep -qx 2"
rig_post --queue cert.in --message-id 1 --count 3
rig_post --queue cert.in --message-id 2
rig_check "it relays, and drops duplicates" rig_takes cert.work 2 'map(.message_id) == ["1","2"]'
cert_make renewed ours relay
cert_copy renewed client
rig_relay_signal cert HUP
rig_check "SIGHUP after a renewal: the route starts again with the new certificate" \
  rig_wait_until "[ \$(grep -c 'msg=route .*route=cert' '$RIG_DIR/cert.log') = 2 ]" 30
rig_relay_ready cert cert.in
rig_post --queue cert.in --message-id 3
rig_check "it relays on" rig_takes cert.work 1 '.[0].message_id == "3"'
rig_relay_signal cert HUP
rig_check "SIGHUP without a renewal: nothing changes" \
  rig_wait_until "grep -q 'the configuration has not changed' '$RIG_DIR/cert.log'" 30
rig_check "SIGTERM ends it" rig_relay_stop cert
ends "a certificate of another authority" "amqps://$TLS" \
  "$OURS, cert: $CERTIFICATES/stranger.pem, key: $CERTIFICATES/stranger.key" \
  "it refuses our certificate tls.cert .*stranger.pem"
ends "a certificate of nobody" "amqps://$TLS" "$OURS, cert: $CERTIFICATES/nobody.pem, key: $CERTIFICATES/nobody.key" \
  "as the user of certificate .*nobody.pem.*403 ACCESS_REFUSED"

# ---- a Redis with TLS and users, too: where hiredis has TLS ----

# with_redis URL TLS-FIELDS : the broker by certificate, and Redis as the documented user.
with_redis() {
  configure "amqps://$TLS" "$OURS, $AS_RELAY" both | sed "s|^    url: .*|    url: $1\n    tls: {$2}\n    username: onlyonce|
    s|^    session: .*|&\n    password: SECRET|"
}

# redis_refuses NAME URL TLS-FIELDS REGEX : check --connect and run say so, in one line.
redis_refuses() {
  with_redis "$2" "$3" >"$BAD"
  rig_check "check --connect: Redis, $1: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
  rig_check "check --connect: Redis, $1: in one line" says_once "$RIG_DIR/out" "FAILED: .*$4"
  rig_check "run: Redis, $1: 1" rig_exits 1 timeout 30 "$RIG_BUILD/onlyonce" run -c "$BAD"
  rig_check "run: Redis, $1: in one line" says_once "$RIG_DIR/err" "level=error .*$4"
}

# The connections of the relay to Redis: to the port of TLS, and as that user.
redis_connections() {
  rig_redis_cli client list | grep "user=onlyonce" | grep -c "laddr=127.0.0.1:$REDIS_TLS_PORT"
}

rig_port
REDIS_TLS_PORT=$RIG_PORT
REDIS=rediss://localhost:$REDIS_TLS_PORT/0
with_redis "$REDIS" "$OURS, $AS_RELAY" >"$CONFIG"
if rig_onlyonce check -c "$CONFIG" 2>&1 | grep -q "asks for TLS, which this build cannot"; then
  echo "-- TLS to Redis is not tested: this build's hiredis has none"
  exit 0
fi

redis_tls_start() {
  rig_redis_start --appendonly no --tls-port "$REDIS_TLS_PORT" --tls-auth-clients yes \
    --tls-ca-cert-file "$CERTIFICATES/ours.pem" --tls-cert-file "$CERTIFICATES/server.pem" \
    --tls-key-file "$CERTIFICATES/server.key"
  # What docs/stores.md says that a user needs, to the letter.
  # shellcheck disable=SC2046 # words of a command
  rig_redis_cli $(sed -n '/^ACL SETUSER onlyonce /p' "$RIG_SOURCE/docs/stores.md") | grep -qx OK ||
    rig_die "the documented user is made"
}

rig_redis_stop
redis_tls_start
rig_check "check --connect to both: 0" rig_exits 0 rig_onlyonce check --connect -c "$CONFIG"
rig_relay_start both "$CONFIG"
rig_relay_ready both both.in
rig_check "the connection to Redis is TLS, as the user onlyonce" eval "[ \"\$(redis_connections)\" = 1 ]"
rig_load --queue both.in --count 3000 --duplicates 40 --prefix e- >/dev/null
rig_check "TLS to both: 3000 messages arrive, each once" in_place both 3000 e- --max-marked 0
rig_load --queue both.in --count 4000 --duplicates 20 --prefix f- >/dev/null &
loader=$!
rig_wait_depth both.work 1000 30
rig_relay_kill both
rig_relay_start both "$CONFIG"
wait $loader
rig_check "killed and started again: none is lost, none comes twice unmarked" in_place both 4000 f- --max-marked 1000
rig_load --queue both.in --count 4000 --prefix g- >/dev/null &
loader=$!
rig_wait_depth both.work 500 30
rig_check "SIGTERM under load: 0" rig_relay_stop both
rig_relay_start both "$CONFIG"
wait $loader
rig_check "stopped and started again: all arrive, each once" in_place both 4000 g- --max-marked 0

rig_post --queue both.in --message-id one
rig_takes both.work 1 true >/dev/null
rig_wait_until "is_done both" 30
rig_check "status: 0" rig_exits 0 rig_onlyonce status -c "$CONFIG" both one
rig_check "list" eval "rig_onlyonce list -c '$CONFIG' both | grep -q '^one'"
rig_check "complete: 0" rig_exits 0 rig_onlyonce complete -c "$CONFIG" both one --result '{"a":1}'
rig_check "release: 0" rig_exits 0 rig_onlyonce release -c "$CONFIG" both one
rig_post --queue both.in --message-id one
rig_check "and then it is new" rig_takes both.work 1 '.[0].message_id == "one"'
rig_check "the documented rights were enough" eval "[ -z \"\$(rig_redis_cli acl log)\" ]"

rig_redis_stop
rig_post --queue both.in --message-id two
cert_copy late server
redis_tls_start
rig_check "Redis comes back with an expired certificate: said" says both 'link=store.*certificate has expired on '
cert_copy good server
rig_redis_stop
redis_tls_start
rig_check "with a renewed one: relayed, without a restart of the relay" \
  rig_takes both.work 1 '.[0].message_id == "two"'
rig_check "SIGTERM ends it" rig_relay_stop both

redis_refuses "another authority" "$REDIS" "ca: $CERTIFICATES/other.pem, $AS_RELAY" \
  "authority that tls.ca .*other.pem. does not hold"
redis_refuses "another host" "rediss://127.0.0.1:$REDIS_TLS_PORT/0" "$OURS, $AS_RELAY" \
  "its certificate is not of host 127.0.0.1, but of localhost"
redis_refuses "no certificate of ours" "$REDIS" "$OURS" "refuses us without a certificate"
redis_refuses "a certificate of another authority" "$REDIS" \
  "$OURS, cert: $CERTIFICATES/stranger.pem, key: $CERTIFICATES/stranger.key" \
  "it refuses our certificate tls.cert .*stranger.pem"
with_redis "rediss://127.0.0.1:$RIG_REDIS_PORT/0" "$OURS" >"$BAD"
rig_check "check --connect: Redis, the plain port: 1" rig_exits 1 rig_onlyonce check --connect -c "$BAD"
rig_check "check --connect: Redis, the plain port: in one line" says_once "$RIG_DIR/out" "is it the plain port"
