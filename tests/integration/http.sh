#!/bin/bash
# HTTP: every path, method, status and content type of docs/openapi.yaml is asked for, and nothing else is
# answered; who may what; slow, broken and many clients; health of a worker that hangs, readiness while servers
# are down; and metrics, which a scripted run makes exact. "onlyonce health".

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
API=$RIG_DIR/openapi.json
SEEN=$RIG_DIR/seen # METHOD PATH STATUS TYPE of every answer
LIBRARY=$RIG_SOURCE/tests/lib
TOKEN=s3cret-and-long
BEARER="Authorization: Bearer $TOKEN"

# configure LISTEN TOKEN QUEUE : token "": none
configure() {
  RIG_SESSION=15s rig_config_head
  cat <<END
    timeout: 4900ms
admin:
  listen: "$1"
  ${2:+token: $2}
completions: {queue: $3.reports}
routes:
  - name: pay
    from: {queue: $3.in, queue_type: classic}
    to: {queue: $3.work, queue_type: classic}
    park: {queue_type: classic}
    key: ["txn = header:x-transaction-id", "msg = message_id", "msg = correlation_id"]
    window: 24h
    reply: true
  - name: strict
    from: {queue: $3.strict.in, queue_type: classic}
    to: {queue: $3.strict.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    fingerprint: body
    on_conflict: drop
    on_missing_key: park
    workers: 2
END
}

# ---- asking ----

template_of() {
  sed -E 's|\?.*||; s|^(/v1/routes)/[^/]+/recent$|\1/{route}/recent|; s|^(/v1/keys)/[^/]+/[^/]*|\1/{route}/{key}|' <<<"$1"
}

# request METHOD PATH [CURL-OPTION...] : sets STATUS and TYPE; headers and body are in $RIG_DIR/head and body.
request() {
  local method=$1 path=$2 out
  shift 2
  out=$(curl -s --path-as-is -m 30 -X "$method" -D "$RIG_DIR/head" -o "$RIG_DIR/body" \
    -w '%{http_code} %{content_type}' "$@" "http://$AT$path")
  STATUS=${out%% *}
  TYPE=${out#* }
  TYPE=${TYPE%%;*}
  echo "$method $(template_of "$path") $STATUS $TYPE" >>"$SEEN"
}

# fits METHOD PATH : whether the last answer fits the schema that the document has for it.
fits() {
  local found
  [[ "$TYPE" != text/* ]] || return 0
  found=$(jq -rn -L "$LIBRARY" --slurpfile doc "$API" --slurpfile body "$RIG_DIR/body" --arg method "$1" \
    --arg path "$(template_of "$2")" --arg status "$STATUS" --arg type "$TYPE" 'include "schema"; $doc[0] as $doc
    | [$doc | schema_of($method; $path; $status; $type)] as $schema
    | if $schema == [] then "the document has no such answer"
      else $body[0] | wrong($doc; $schema[0]; "body") end') || found="jq failed"
  [ -z "$found" ] && return 0
  echo "$1 $2: $found"
  return 1
}

# gives STATUS METHOD PATH [CURL-OPTION...] : it is answered so, and as the document says.
gives() {
  local want=$1
  shift
  request "$@"
  if [ "$STATUS" = "$want" ] && fits "$1" "$2"; then
    return 0
  fi
  echo "status $STATUS ($TYPE), not $want:"
  cat "$RIG_DIR/head" "$RIG_DIR/body"
  return 1
}

# with_token STATUS METHOD PATH [CURL-OPTION...]
with_token() {
  gives "$@" -H "$BEARER"
}

# says FILTER : the last body, by jq.
says() {
  jq -e "$1" "$RIG_DIR/body" && return 0
  cat "$RIG_DIR/body"
  return 1
}

has_header() {
  grep -qiE "^$1: $2" "$RIG_DIR/head" && return 0
  cat "$RIG_DIR/head"
  return 1
}

is_ready() {
  [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "http://$AT/readyz")" = 200 ]
}

# start NAME LISTEN TOKEN QUEUE
start() {
  configure "$2" "$3" "$4" >"$RIG_DIR/$1.yaml"
  TEST_PREFIX="$RIG_BUILD/tests/freeze --allow ${TEST_PREFIX:-}" rig_relay_start "$1" "$RIG_DIR/$1.yaml"
  rig_wait_until is_ready 60 || rig_die "$1 is ready"
}

put_record() {
  rig_redis_cli set "onlyonce:key:pay:$1" "$2" px 600000
}

rig_redis_start --appendonly no
rig_rabbit_start
rig_port
PORT=$RIG_PORT
AT=127.0.0.1:$PORT
"$RIG_BUILD/tests/json_of_yaml" <"$RIG_SOURCE/docs/openapi.yaml" >"$API" || rig_die "docs/openapi.yaml is YAML"

# ---- who may what: an address, with a token or without ----

OPEN="/healthz /readyz /metrics"
READ="/v1/routes /v1/history /v1/routes/pay/recent /v1/keys/pay/msg:a"

# who NAME LISTEN TOKEN READ WRITE PAGE : the statuses without a token, of what reads, of what writes, and of the page.
who() {
  local path
  rig_redis_cli flushall >"$RIG_DIR/flush.out"
  start "$1" "$2" "$3" "$1"
  rig_post --queue "$1.in" --message-id a
  rig_takes "$1.work" 1 true || rig_fail "$1: a message is forwarded"
  rig_wait_until "rig_redis_cli get onlyonce:key:pay:msg:a | grep -q '^2F'" 10 || rig_fail "$1: that is on record"
  for path in $OPEN; do
    rig_check "$1: $path is for everybody" gives 200 GET "$path"
  done
  for path in $READ; do
    rig_check "$1: $path gives $4" gives "$4" GET "$path"
  done
  rig_check "$1: the page gives $6" gives "$6" GET /
  rig_check "$1: complete gives $5" gives "$5" POST /v1/keys/pay/msg:a/complete
  rig_check "$1: release gives $5" gives "$5" DELETE /v1/keys/pay/msg:a
  rig_check "$1: onlyonce health: 0" rig_exits 0 rig_onlyonce health -c "$RIG_DIR/$1.yaml"
  rig_check "$1: one line" grep -qx healthy "$RIG_DIR/out"
}

who loopback "127.0.0.1:$PORT" "" 200 403 200
rig_check "loopback: a token that nobody asked for changes nothing" gives 403 DELETE /v1/keys/pay/msg:a -H "$BEARER"
rig_check "loopback: says what is missing" says '.detail | test("admin.token")'
for path in / $READ; do
  rig_check "loopback: $path is not for a stranger's name" gives 403 GET "$path" -H "Host: evil.example:$PORT"
done
rig_check "loopback: says which is" says '.detail | test("localhost, 127.x.x.x or \\[::1\\]")'
for path in $OPEN; do
  rig_check "loopback: $path is for every name" gives 200 GET "$path" -H "Host: evil.example:$PORT"
done
rig_check "loopback: localhost is no stranger" gives 200 GET /v1/routes -H "Host: localhost:$PORT"
rig_check "loopback: nor is who names none" gives 200 GET /v1/routes --http1.0 -H Host:
rig_relay_stop loopback || rig_fail "loopback stops"
who everywhere "0.0.0.0:$PORT" "" 403 403 403
rig_check "everywhere: warned about at the start" grep -q 'no admin.token is set' "$RIG_DIR/everywhere.log"
rig_relay_stop everywhere || rig_fail "everywhere stops"
AT="[::1]:$PORT"
who six "[::]:$PORT" "$TOKEN" 401 401 200
rig_check "six: with the token" with_token 200 GET /v1/routes
rig_relay_stop six || rig_fail "six stops"
AT=127.0.0.1:$PORT
who main "127.0.0.1:$PORT" "$TOKEN" 401 401 200
CONFIG=$RIG_DIR/main.yaml
rig_check "401 says how" has_header WWW-Authenticate 'Bearer realm="onlyonce"'
for header in "Bearer wrong" "Bearer ${TOKEN}x" "Bearer ${TOKEN%?}" "Bearer" "Basic $TOKEN" "$TOKEN" "Bearer  $TOKEN"; do
  rig_check "\"$header\" is not the token" gives 401 GET /v1/routes -H "Authorization: $header"
done
rig_check "the scheme's case is no matter" gives 200 GET /v1/routes -H "Authorization: bearer $TOKEN"
rig_check "the token is in no log" bash -c "! grep -l '$TOKEN' '$RIG_DIR'/*.log"

# ---- keys ----

rig_check "status of a key" with_token 200 GET /v1/keys/pay/msg:a
rig_check "says what the command says" bash -c "diff <(jq -S 'del(.expires_in_ms)' '$RIG_DIR/body') \
  <('$RIG_BUILD/onlyonce' status -c '$CONFIG' pay msg:a | jq -S 'del(.expires_in_ms)')"
rig_check "percent encoding is undone" with_token 200 GET /v1/keys/p%61y/msg%3Aa
rig_check "once" with_token 400 GET /v1/keys/pay/msg%253Aa
rig_check "of an unknown key" with_token 404 GET /v1/keys/pay/msg:none
rig_check "of an unknown route" with_token 404 GET /v1/keys/none/msg:a
put_record foreign nonsense >"$RIG_DIR/put.out"
rig_check "of what is not ours" with_token 409 GET /v1/keys/pay/foreign
for key in %00 a%00 a%2Fb a%20b a%c3%a4 %zz %4 % "$(printf 'k%.0s' {1..256})"; do
  rig_check "\"${key:0:12}\" is no key" with_token 400 GET "/v1/keys/pay/$key"
done
rig_check "an empty one neither" with_token 400 GET /v1/keys/pay/
rig_check "completes, with a result" with_token 200 POST /v1/keys/pay/msg:a/complete --data-binary '{"paid": 1.0}'
rig_check "says so" says '.answer == "completed" and .key == "msg:a"'
rig_check "again" with_token 200 POST /v1/keys/pay/msg:a/complete
rig_check "the first one stays" says '.answer == "already_completed"'
rig_check "the result is kept" with_token 200 GET /v1/keys/pay/msg:a
rig_check "byte for byte" grep -qF '"result":{"paid": 1.0}' "$RIG_DIR/body"
rig_check "a result that is no JSON" with_token 400 POST /v1/keys/pay/msg:a/complete --data-binary '{"paid"'
head -c 4096 /dev/zero | tr '\0' 1 >"$RIG_DIR/4096"
{ cat "$RIG_DIR/4096" && echo 1; } >"$RIG_DIR/4098"
head -c 3000000 /dev/zero | tr '\0' 1 >"$RIG_DIR/large"
rig_check "of 4 KiB" with_token 200 POST /v1/keys/pay/msg:a/complete --data-binary "@$RIG_DIR/4096"
rig_check "of more" with_token 413 POST /v1/keys/pay/msg:a/complete --data-binary "@$RIG_DIR/4098"
rig_check "in chunks" with_token 413 POST /v1/keys/pay/msg:a/complete --data-binary "@$RIG_DIR/4098" \
  -H "Transfer-Encoding: chunked"
rig_check "of 3 MB" with_token 413 POST /v1/keys/pay/msg:a/complete --data-binary "@$RIG_DIR/large" -H "Expect:"
rig_check "completing an unknown key" with_token 404 POST /v1/keys/pay/msg:none/complete
rig_check "completing what is not ours" with_token 409 POST /v1/keys/pay/foreign/complete
rig_check "first_seen that is none" with_token 400 POST '/v1/keys/pay/msg:a/complete?first_seen=x'
rig_check "of another life" with_token 404 POST '/v1/keys/pay/msg:a/complete?first_seen=1'
rig_check "releasing of another life" with_token 404 DELETE '/v1/keys/pay/msg:a?first_seen=1'
rig_check "a guard that is misspelt" with_token 400 DELETE '/v1/keys/pay/msg:a?first-seen=1'
rig_check "a guard without a value" with_token 400 DELETE '/v1/keys/pay/msg:a?first_seen&force=true'
rig_check "force that is none" with_token 400 DELETE '/v1/keys/pay/msg:a?force=1'
rig_check "releases" with_token 200 DELETE /v1/keys/pay/msg:a
rig_check "it is gone" with_token 404 DELETE /v1/keys/pay/msg:a
put_record p "2P 1 1782640800123 t0 o0123456789abcdef01234567.1" >"$RIG_DIR/put.out"
rig_check "a pending one" with_token 409 DELETE /v1/keys/pay/p
rig_check "says how" says '.detail | test("force=true")'
rig_check "by force" with_token 200 DELETE '/v1/keys/pay/p?force=true'
rig_check "what is not ours is not released" with_token 409 DELETE /v1/keys/pay/foreign

# ---- paths and methods ----

for path in /index.html /v1 /v1/ /v1/history/ /healthz/ /healthzz /v1/routes/pay /v1/routes/pay/recent/ /v1/keys/pay /v1/keys/pay/a/b \
  //healthz /v1/keys/pay/a/../b; do
  rig_check "nothing is at $path" bash -c "[ \"\$(curl -s --path-as-is -o '$RIG_DIR/body' -w '%{http_code}' -H '$BEARER' \
    'http://$AT$path')\" = 404 ] && jq -e '.status == 404 and .title == \"Not Found\"' '$RIG_DIR/body'"
done
rig_check "recent of an unknown route" with_token 404 GET /v1/routes/none/recent

# listed METHOD PATH : whether the document has it; HEAD goes with GET.
listed() {
  jq -e --arg m "${1/HEAD/GET}" --arg p "$2" '.paths[$p] | has($m | ascii_downcase)' "$API" >"$RIG_DIR/listed.out"
}

# allows PATH : Allow of the last answer lists what is listed.
allows() {
  local method
  for method in GET DELETE POST; do
    if listed "$method" "$1" && ! grep -qE "^Allow: .*$method" "$RIG_DIR/head"; then
      echo "Allow lacks $method"
      return 1
    fi
  done
}

# methods PATH : those that are not listed get 405, and Allow lists those that are.
methods() {
  local method status path=$1
  path=${path/\{route\}/pay}
  path=${path/\{key\}/msg:a}
  for method in GET HEAD POST PUT DELETE PATCH OPTIONS TRACE FLY; do
    listed "$method" "$1" && continue
    status=$(curl -s -m 5 -X "$method" -D "$RIG_DIR/head" -o "$RIG_DIR/body" -w '%{http_code}' -H "$BEARER" "http://$AT$path")
    if [ "$status" != 405 ] || ! allows "$1"; then
      echo "$method $path: $status"
      return 1
    fi
  done
}

while read -r path; do
  rig_check "other methods at $path: 405" methods "$path"
done < <(jq -r '.paths | keys[]' "$API")
rig_check "HEAD is GET without a body" bash -c "curl -sI -m 5 'http://$AT/healthz' | tr -d '\r' >'$RIG_DIR/head'
  grep -q '^HTTP/1.1 200' '$RIG_DIR/head' && grep -qx 'Content-Length: 16' '$RIG_DIR/head'"

# ---- the page ----

# hash_of TAG : of what stands between these tags of the page, as a browser computes it.
hash_of() {
  { echo && sed -n "/^<$1>$/,/^<\/$1>$/p" "$RIG_DIR/body" | sed '1d; $d'; } | openssl dgst -sha256 -binary | base64
}

# joined : the page, from the files that it is built from.
joined() (
  cd "$RIG_SOURCE/src" || exit 1
  sed -e '/^{{page.css}}$/{r page.css' -e 'd}' -e '/^{{page_data.js}}$/{r page_data.js' -e 'd}' \
    -e '/^{{page.js}}$/{r page.js' -e 'd}' page.html
)

rig_check "the page" gives 200 GET /
rig_check "is the files that it was built from" cmp "$RIG_DIR/body" <(joined)
rig_check "is to be asked for again" has_header Cache-Control no-cache
rig_check "says nobody where it was" has_header Referrer-Policy no-referrer
rig_check "its type is not guessed" has_header X-Content-Type-Options nosniff
rig_check "may do nothing" has_header Content-Security-Policy "default-src 'none'; .*connect-src 'self'; .*frame-ancestors 'none'"
rig_check "but its script" grep -qF "script-src 'sha256-$(hash_of script)';" "$RIG_DIR/head"
rig_check "and its style" grep -qF "style-src 'sha256-$(hash_of style)';" "$RIG_DIR/head"
rig_check "asks no other server" bash -c "! grep -nE '(src|href|action)=\"?(https?:|//)|@import|url\(' '$RIG_DIR/body'"

# ---- metrics ----

# metric SERIES VALUE
metric() {
  grep -qxF "$1 $2" "$RIG_DIR/metrics" && return 0
  echo "not \"$1 $2\":"
  grep -F "${1%%\{*}{" "$RIG_DIR/metrics"
  return 1
}

scrape() {
  curl -sf -m 5 "http://$AT/metrics" >"$RIG_DIR/metrics"
}

scrape
BEFORE=$(awk '/^onlyonce_deliveries_total{route="pay"}/ { print $2 }' "$RIG_DIR/metrics")
rig_check "one message so far" [ "$BEFORE" = 1 ]
for id in m1 m2 m3 m1 m1; do
  rig_post --queue main.in --message-id "$id" --body "$id"
done
rig_post --queue main.in --header x-transaction-id=t
rig_post --queue main.in --correlation-id c
rig_post --queue main.in --body "no key"
rig_post --queue main.strict.in --message-id s --body one
rig_post --queue main.strict.in --message-id s --body one
rig_post --queue main.strict.in --message-id s --body two
rig_post --queue main.strict.in --body "no key"
# Reports are of what is on record.
rig_check "all are forwarded" rig_wait_until \
  "scrape && metric 'onlyonce_outcomes_total{route=\"pay\",outcome=\"forwarded\"}' 7" 30
rig_post --queue main.reports --header x-onlyonce-route=pay --header x-onlyonce-key=msg:m2
rig_post --queue main.reports --header x-onlyonce-route=pay --header x-onlyonce-key=msg:m3 --header x-onlyonce-action=release
rig_post --queue main.reports --header x-onlyonce-route=none --header x-onlyonce-key=msg:m3
cat >"$RIG_DIR/want" <<'END'
onlyonce_deliveries_total{route="pay"} 9
onlyonce_outcomes_total{route="pay",outcome="forwarded"} 7
onlyonce_outcomes_total{route="pay",outcome="duplicate"} 2
onlyonce_outcomes_total{route="pay",outcome="conflict"} 0
onlyonce_outcomes_total{route="pay",outcome="parked"} 0
onlyonce_deliveries_total{route="strict"} 4
onlyonce_outcomes_total{route="strict",outcome="forwarded"} 1
onlyonce_outcomes_total{route="strict",outcome="duplicate"} 1
onlyonce_outcomes_total{route="strict",outcome="conflict"} 1
onlyonce_outcomes_total{route="strict",outcome="parked"} 1
onlyonce_parked_total{route="strict",reason="no_key"} 1
onlyonce_parked_total{route="strict",reason="conflict"} 0
onlyonce_marks_total{route="pay",mark="no_key"} 1
onlyonce_marks_total{route="pay",mark="in_doubt"} 0
onlyonce_marks_total{route="pay",mark="unchecked"} 0
onlyonce_keys_total{route="pay",alternative="txn"} 1
onlyonce_keys_total{route="pay",alternative="msg"} 7
onlyonce_keys_total{route="pay",alternative="(none)"} 1
onlyonce_keys_total{route="strict",alternative="key"} 3
onlyonce_keys_total{route="strict",alternative="(none)"} 1
onlyonce_events_total{route="strict",event="conflicts"} 1
onlyonce_events_total{route="pay",event="rejected"} 0
onlyonce_messages{route="pay",place="held"} 0
onlyonce_oldest_message_seconds{route="pay"} 0.000
onlyonce_connection_up{route="pay",link="store"} 1
onlyonce_connection_up{route="pay",link="sink"} 1
onlyonce_connection_up{route="pay",link="source"} 1
onlyonce_connection_up{route="pay",link="replies"} 1
onlyonce_reconnects_total{route="pay",link="store"} 0
onlyonce_blocked{route="pay"} 0
onlyonce_confirm_duration_seconds_count{route="pay"} 7
onlyonce_relay_duration_seconds_count{route="pay"} 7
onlyonce_relay_duration_seconds_bucket{route="pay",le="+Inf"} 7
onlyonce_duplicate_age_seconds_count{route="pay"} 2
onlyonce_duplicate_age_seconds_bucket{route="pay",le="2592000"} 2
onlyonce_reports_total{answer="completed"} 1
onlyonce_reports_total{answer="released"} 1
onlyonce_reports_total{answer="parked"} 1
onlyonce_messages{route="pay",place="sent"} 0
END

# All series have the values that they shall have, in one answer.
all_is_done() {
  scrape && [ "$(grep -cxFf "$RIG_DIR/want" "$RIG_DIR/metrics")" = "$(wc -l <"$RIG_DIR/want")" ]
}
rig_wait_until all_is_done 30
while read -r series value; do
  rig_check "$series is $value" metric "$series" "$value"
done <"$RIG_DIR/want"
rig_check "the version is there" grep -qE '^onlyonce_build_info\{version="[0-9.]+"\} 1$' "$RIG_DIR/metrics"
rig_check "replies only where the route has them" bash -c "! grep 'route=\"strict\",link=\"replies\"' '$RIG_DIR/metrics'"

# Each metric is described once, and has the name that the manual gives it.
described() {
  awk '/^# HELP / { if (help[$3]++) bad = bad " twice:" $3; if (NF < 5) bad = bad " no help:" $3; next }
    /^# TYPE / { if (type[$3]) bad = bad " twice:" $3; type[$3] = $4; if (!help[$3]) bad = bad " no help:" $3
      if (($4 == "counter") != ($3 ~ /_total$/)) bad = bad " total:" $3; next }
    { name = $1; sub(/\{.*/, "", name); base = name; sub(/_(bucket|sum|count)$/, "", base)
      if (!(name in type) && type[base] != "histogram") bad = bad " no type:" name }
    END { if (bad) { print bad; exit 1 } }' "$RIG_DIR/metrics"
}

rig_check "every metric has its help and its type" described
rig_check "promtool has nothing to say" bash -c "promtool check metrics <'$RIG_DIR/metrics'"
while read -r name; do
  rig_check "the manual has $name" grep -qF "$name" "$RIG_SOURCE/docs/onlyonce.1"
done < <(awk '/^# TYPE/ { print $3 }' "$RIG_DIR/metrics")

# ---- routes, and recent messages ----

rig_check "routes" with_token 200 GET /v1/routes
rig_check "their queues and counters" says '.routes | length == 2 and (.[0] | .name == "pay" and .from.queue == "main.in"
  and .to.queue == "main.work" and .park.queue == "main.in.parked" and .counters.forwarded == 7
  and (.workers | length == 1 and (.[0].links.store.up)))
  and (.[1].workers | length == 2)'
rig_check "of the whole" says '.version and .stopping == false and .writable and .completions.links.source.up'
rig_check "the last ten minutes" with_token 200 GET /v1/history
rig_check "begin with nothing and end with what is counted" says '[.routes[].name] == ["pay", "strict"] and (.routes[0]
  | .forwarded[0] == 0 and .forwarded[-1] <= 7 and (.forwarded | length) == (.duplicates | length)
  and (.ms_ago | length) == (.forwarded | length) and .ms_ago[-1] <= 8000 and (.ms_ago | sort | reverse) == .ms_ago)'
rig_check "recent messages" with_token 200 GET /v1/routes/strict/recent
rig_check "which, why, when" says '.route == "strict" and [.messages[] | .what + ":" + (.why // "")] == ["duplicate:", "conflict:", "parked:no_key"]
  or ([.messages[].what] | sort == ["conflict", "duplicate", "parked"])'

# ---- clients that are slow, broken or many ----

# raw SECONDS : sends stdin, and prints what comes back until the server closes.
raw() {
  timeout "$1" socat -t "$1" - "TCP:$AT"
}

# between FROM TO FILE : its last number is.
between() {
  awk -v from="$1" -v to="$2" "\$NF < from || \$NF > to { exit 1 }" "$3" && return 0
  cat "$3"
  return 1
}

# survives : after all that, a request is answered.
survives() {
  [ "$(curl -s -m 10 -o /dev/null -w '%{http_code}' "http://$AT/healthz")" = 200 ]
}

# not_ok INPUT-COMMAND : what it gets is no 2xx.
not_ok() {
  bash -c "$1" | raw 15 >"$RIG_DIR/raw"
  if grep -aq '^HTTP/1.[01] 2' "$RIG_DIR/raw"; then
    head -c 300 "$RIG_DIR/raw"
    return 1
  fi
  survives
}

rig_check "garbage" not_ok "head -c 100000 /dev/urandom"
rig_check "a request line of 100 kB" not_ok "printf 'GET /'; head -c 100000 /dev/zero | tr '\0' a; printf ' HTTP/1.1\r\n\r\n'"
rig_check "headers of 100 kB" not_ok "printf 'GET /healthz HTTP/1.1\r\nHost: x\r\n'; for i in {1..2000}; do printf 'X-%s: %s\r\n' \$i \
  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done; printf '\r\n'"
rig_check "another protocol" not_ok "printf 'AMQP\0\0\11\1'; head -c 60 /dev/zero"
rig_check "a length that is none" not_ok "printf 'POST /v1/keys/pay/a/complete HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n'"
rig_check "a length beyond all numbers" not_ok \
  "printf 'POST /v1/keys/pay/a/complete HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n'"
rig_check "chunks without an end" not_ok "printf 'POST /v1/keys/pay/msg:m1/complete HTTP/1.1\r\nHost: x\r\n$BEARER\r\n'
  printf 'Transfer-Encoding: chunked\r\n\r\n'; for i in {1..60}; do printf '1000\r\n'; head -c 4096 /dev/zero | tr '\0' 1; printf '\r\n'; done"
rig_check "a header that is broken" not_ok "printf 'GET /v1/routes HTTP/1.1\r\nHost: x\r\nAuthorization Bearer\r\n\r\n'"

# Of 32 bytes a second one connection would have its 16 KiB for eight minutes.
trickle() {
  local began=$SECONDS byte
  exec 3<>"/dev/tcp/127.0.0.1/$PORT"
  printf 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ' >&3
  while [ $((SECONDS - began)) -lt 60 ]; do
    printf 'a' >&3 2>/dev/null || break
    # The end of what the server says: it hung up.
    byte=x
    read -r -t 1 -n 1 -u 3 byte
    [ $? -gt 128 ] || break
    touch "$RIG_DIR/trickling"
  done
  echo $((SECONDS - began))
}

# half a request, then nothing
silent() {
  local began=$SECONDS
  { printf 'GET /healthz HTTP/1.1\r\nHost:' && sleep 60; } | socat -t 0 - "TCP:$AT" >/dev/null 2>&1 &
  local pid=$!
  rig_wait_until "! kill -0 $pid" 40
  kill "$pid" 2>/dev/null
  echo $((SECONDS - began))
}

trickle >"$RIG_DIR/trickled" 2>/dev/null &
TRICKLE=$!
rig_wait_until "[ -e '$RIG_DIR/trickling' ]" 30 # before others take all connections of this address

descriptors() {
  find "/proc/${RIG_RELAYS[main]}/fd" -mindepth 1 -maxdepth 1 | wc -l
}

# 200 at once: 32 are taken of one address, the others are closed. The relay goes on meanwhile.
many() {
  local fds=() fd before
  before=$(descriptors)
  for _ in {1..200}; do
    exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" && fds+=("$fd")
  done 2>/dev/null
  sleep 0.5
  find "/proc/${RIG_RELAYS[main]}/task" -mindepth 1 -maxdepth 1 | wc -l >"$RIG_DIR/threads"
  descriptors >"$RIG_DIR/fds"
  rig_post --queue main.in --message-id during && rig_wait_depth main.work 7 30 || return 1
  for fd in "${fds[@]}"; do
    exec {fd}>&-
  done
  # Until it has noticed that they are gone.
  rig_wait_until "[ \"\$(descriptors)\" -le $before ] && survives" 30
}

rig_check "200 clients at once" many
rig_check "their threads are bounded" [ "$(cat "$RIG_DIR/threads")" -le 80 ]
rig_check "and so are their descriptors" [ "$(cat "$RIG_DIR/fds")" -le 120 ]
requests() {
  local pids=()
  for _ in {1..30}; do
    curl -s -m 20 -o /dev/null -w '%{http_code}\n' -H "$BEARER" "http://$AT/v1/keys/pay/msg:m1" &
    pids+=($!)
  done
  wait "${pids[@]}"
}
rig_check "30 requests at once" bash -c "$(declare -f requests); BEARER='$BEARER' AT=$AT requests >'$RIG_DIR/codes'
  [ \"\$(sort '$RIG_DIR/codes' | uniq -c | tr -s ' ')\" = ' 30 200' ]"

# A store that stands still makes who asks for keys wait, and nobody else.
kill -STOP "${RIG_PIDS[redis]}"
curl -s -m 20 -o /dev/null -w '%{http_code}' -H "$BEARER" "http://$AT/v1/keys/pay/msg:m1" >"$RIG_DIR/slow" &
SLOW=$!
sleep 0.5
rig_check "a store that stands still keeps nobody else waiting" survives
rig_check "but who asked for a key" kill -0 "$SLOW"
kill -CONT "${RIG_PIDS[redis]}"
wait "$SLOW"
rig_check "who gets an answer when it goes on" test "$(cat "$RIG_DIR/slow")" = 200

# ---- health: a worker that hangs ----

mkfifo "$RIG_DIR/thaw"
FROZEN=$SECONDS
"$RIG_BUILD/tests/freeze" "$(rig_thread main "0 pay")" <"$RIG_DIR/thaw" >"$RIG_DIR/freeze.out" 2>"$RIG_DIR/freeze.log" &
FREEZE=$!
exec 4>"$RIG_DIR/thaw"
rig_check "the thread of a worker stands still" rig_wait_until "grep -q frozen '$RIG_DIR/freeze.out'" 20
sleep 5
rig_check "healthy for a while" gives 200 GET /healthz
silent >"$RIG_DIR/silent.out"
rig_check "half a request has its connection for 10 s" between 8 15 "$RIG_DIR/silent.out"
wait "$TRICKLE"
rig_check "a request that trickles in has its connection for 20 s" between 15 30 "$RIG_DIR/trickled"
rig_check "unhealthy after 30 s" rig_wait_until "! gives 200 GET /healthz" 40
rig_check "not before" [ $((SECONDS - FROZEN)) -ge 29 ] # SECONDS are whole ones
rig_check "says which" gives 503 GET /healthz
rig_check "and for how long" says '.detail | test("^worker 0 of route pay has not turned its loop for 3[0-9] s$")'
rig_check "onlyonce health: 1" rig_exits 1 rig_onlyonce health -c "$CONFIG"
rig_check "says it in one line" grep -qx 'onlyonce: not healthy: worker 0 of route pay has not turned .*' "$RIG_DIR/err"
exec 4>&-
wait "$FREEZE"
rig_check "healthy again" rig_wait_until "gives 200 GET /healthz" 30
rig_check "ready again" rig_wait_until is_ready 60

# ---- readiness: servers that are down ----

# misses FILTER : 503, and the filter is true of those that are not reached.
misses() {
  request GET /readyz
  [ "$STATUS" = 503 ] && says "[.not_reached[] | $1] | any"
}

rig_redis_stop
rig_check "without Redis: not ready" rig_wait_until "misses '.link == \"store\" and .route == \"pay\" and .worker == 0 and (.why | length > 0)'" 40
both_miss() {
  request GET /readyz && says '[.not_reached[] | select(.route == "strict" and .link == "store")] | length == 2'
}
rig_check "nor are both workers of the other route" rig_wait_until both_miss 40
rig_check "as the document says" gives 503 GET /readyz
rig_check "but healthy" gives 200 GET /healthz
rig_check "status: 503" with_token 503 GET /v1/keys/pay/msg:m1
rig_check "says why" says '.detail | test("^store redis: Redis at .*(refused|closed|connect)")'
rig_check "complete: 503" with_token 503 POST /v1/keys/pay/msg:m1/complete
rig_check "release: 503" with_token 503 DELETE /v1/keys/pay/msg:m1
scrape
rig_check "the metric says so" metric 'onlyonce_connection_up{route="pay",link="store"}' 0
rig_redis_start --appendonly no
rig_check "with Redis: ready" rig_wait_until is_ready 60
rig_check "keys are asked for again" with_token 404 GET /v1/keys/pay/msg:m1
rig_rabbit_stop
rig_check "without RabbitMQ: not ready" rig_wait_until "misses '.link == \"sink\" and .route == \"pay\" and (.why | test(\"refused|closed|lost|shutdown\"; \"i\"))'" 40
rig_check "nor consuming" rig_wait_until "misses '.link == \"source\" and .route == \"pay\"'" 40
rig_check "nor are reports" rig_wait_until "misses '.who == \"completions\"'" 40
rig_check "nothing else is missing" says '[.not_reached[].link] | unique - ["sink", "source"] == []'
rig_check "but healthy, too" gives 200 GET /healthz
rig_rabbit_start
rig_check "with RabbitMQ: ready" rig_wait_until is_ready 90
scrape
rig_check "reconnects are counted" grep -qE '^onlyonce_reconnects_total\{route="pay",link="sink"\} [1-9]' "$RIG_DIR/metrics"

# ---- onlyonce health ----

sed '/^admin:/,/^completions:/{/^completions:/!d}' "$CONFIG" >"$RIG_DIR/off.yaml"
rig_check "health without admin.listen: 2" rig_exits 2 rig_onlyonce health -c "$RIG_DIR/off.yaml"
rig_check "says so in one line" grep -qx 'onlyonce: .* has no admin.listen, .*' "$RIG_DIR/err"
rig_port
sed "s/127.0.0.1:$PORT/127.0.0.1:$RIG_PORT/" "$CONFIG" >"$RIG_DIR/nobody.yaml"
rig_check "health of nobody: 1" rig_exits 1 rig_onlyonce health -c "$RIG_DIR/nobody.yaml"
rig_check "says why" grep -qx "onlyonce: not healthy: 127.0.0.1:$RIG_PORT: Connection refused" "$RIG_DIR/err"
socat -u "TCP-LISTEN:$RIG_PORT,bind=127.0.0.1,reuseaddr,fork" OPEN:/dev/null &
SILENT=$!
rig_wait_until "rig_port_answers $RIG_PORT" 20
BEGAN=$SECONDS
rig_check "health of somebody silent: 1" rig_exits 1 rig_onlyonce health -c "$RIG_DIR/nobody.yaml"
rig_check "within 5 s" [ $((SECONDS - BEGAN)) -le 9 ]
kill "$SILENT" 2>/dev/null
rig_check "health with an argument: 2" rig_exits 2 rig_onlyonce health now -c "$CONFIG"
sed "s/main/second/" "$CONFIG" >"$RIG_DIR/second.yaml"
rig_check "an address that is taken: 1" rig_exits 1 rig_onlyonce run -c "$RIG_DIR/second.yaml"
rig_check "says so" grep -q "cannot serve HTTP at admin.listen.*127.0.0.1:$PORT.*Address already in use" "$RIG_DIR/err"

# ---- the end ----

rig_check "stops" rig_relay_stop main 15

# ---- the document: all that it lists was answered, and only that ----

jq -r '. as $doc | .paths | to_entries[] | .key as $path | .value | to_entries[] | select(.key | test("get|post|delete"))
  | (.key | ascii_upcase) as $method | .value.responses | to_entries[] | .key as $status
  | (.value | if has("$ref") then .["$ref"] as $r | $doc | getpath($r | ltrimstr("#/") | split("/")) else . end)
  | .content | keys[] | "\($method) \($path) \($status) \(.)"' "$API" | sort -u >"$RIG_DIR/promised"
grep -v ' 000 ' "$SEEN" | sort -u >"$RIG_DIR/answered"
rig_check "the document promises something" [ "$(wc -l <"$RIG_DIR/promised")" -gt 30 ]
rig_check "every answer of docs/openapi.yaml was given, and no other" diff "$RIG_DIR/promised" "$RIG_DIR/answered"
