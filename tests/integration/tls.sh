#!/bin/bash
# amqps://: relaying over TLS with certificates of its own authority; logging in by a certificate;
# and what is refused, each in one line: another authority, another host, an expired certificate, a
# plain port. In the unit test test_tls are old versions of TLS, and certificates that a server
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

# in_place COUNT PREFIX OPTION... : all ids are in the work queue, and the inbound one is empty.
in_place() {
  local count=$1 prefix=$2
  shift 2
  rig_wait_depth pay.work "$count" 60 && rig_wait_empty pay.in 10 &&
    rig_account --work pay.work --in pay.in --park pay.in.parked --count "$count" --prefix "$prefix" \
      --max-parked 0 "$@"
}

none_pending() {
  rig_onlyonce list -c "$CONFIG" pay --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
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
  rig_check "run: $1: 1" rig_exits 1 timeout 10 "$RIG_BUILD/onlyonce" run -c "$BAD"
  rig_check "run: $1: in one line" says_once "$RIG_DIR/err" "level=error .*$4"
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
rig_check "3000 messages arrive, each once" in_place 3000 a- --max-marked 0
rig_load --queue pay.in --count 6 --body-size 3000000 --prefix big- >/dev/null
rig_check "large bodies, too" in_place 6 big- --max-marked 0
rig_load --queue pay.in --count 4000 --duplicates 20 --prefix b- >/dev/null &
loader=$!
rig_wait_depth pay.work 1000 30
rig_relay_kill relay
rig_relay_start relay "$CONFIG"
wait $loader
rig_wait_until none_pending 30 # what was in doubt comes last
rig_check "killed and started again: none is lost, none comes twice unmarked" in_place 4000 b- --max-marked 1000
rig_load --queue pay.in --count 4000 --prefix c- >/dev/null &
loader=$!
rig_wait_depth pay.work 500 30
rig_check "SIGTERM under load: 0" rig_relay_stop relay
rig_relay_start relay "$CONFIG"
wait $loader
rig_check "stopped and started again: all arrive, each once" in_place 4000 c- --max-marked 0

# ---- certificates that expire and are renewed while it runs ----

cert_copy late server
rig_rabbit_restart
ends "an expired certificate" "amqps://$GUEST$TLS" "$OURS" "its certificate has expired on "
rig_check "the relay goes on" rig_relay_is_running relay
cert_copy good server
rig_rabbit_restart
rig_load --queue pay.in --count 100 --prefix d- >/dev/null
rig_check "with a renewed one: relayed, without a restart of the relay" in_place 100 d- --max-marked 0
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
rig_check "SIGTERM ends it" rig_relay_stop cert
ends "a certificate of another authority" "amqps://$TLS" \
  "$OURS, cert: $CERTIFICATES/stranger.pem, key: $CERTIFICATES/stranger.key" \
  "it refuses our certificate tls.cert .*stranger.pem"
ends "a certificate of nobody" "amqps://$TLS" "$OURS, cert: $CERTIFICATES/nobody.pem, key: $CERTIFICATES/nobody.key" \
  "as the user of certificate .*nobody.pem.*403 ACCESS_REFUSED"
