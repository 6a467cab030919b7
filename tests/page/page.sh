#!/bin/bash
# The status page, in a headless Chromium: what it shows is what /v1 says, hostile texts are shown as texts, keys are
# looked up, completed and released, a keyboard and a phone do, and servers that go away and come back. What is done
# with the browser stands in page.mjs, which asks this script for what is done with servers and messages.
#
# PAGE_SHOTS: a folder for screenshots.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

HERE=$RIG_SOURCE/tests/page
MODULES=$RIG_BUILD/page
TOKEN=s3cret-and-long
HOSTILE='<img src=x onerror=hacked=1>"'\'

# configure LISTEN TOKEN QUEUE : token "": none
configure() {
  rig_config_head
  cat <<END2
admin:
  listen: "$1"
  ${2:+token: $2}
completions: {queue: $3.reports}
routes:
  - name: pay
    from: {queue: $3.pay.in, queue_type: classic}
    to: {queue: '$3.pay.work ${HOSTILE//\'/\'\'}', queue_type: classic}
    park: {queue_type: classic}
    key: ["txn = header:x-transaction-id", "msg = message_id"]
    window: 24h
    on_missing_key: park
  - name: mail
    from: {queue: $3.mail.in, queue_type: classic}
    to: {queue: $3.mail.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    reply: true
    workers: 2
END2
}

# start NAME
start() {
  rig_relay_start "$1" "$RIG_DIR/$1.yaml"
  rig_wait_until "[ \"\$(curl -s -m 5 -o /dev/null -w '%{http_code}' 'http://${AT[$1]}/readyz')\" = 200 ]" 60
}

# make NAME TOKEN
declare -A AT
make() {
  rig_port
  AT[$1]=127.0.0.1:$RIG_PORT
  configure "${AT[$1]}" "$2" "$1" >"$RIG_DIR/$1.yaml"
  start "$1"
}

install_modules() {
  mkdir -p "$MODULES"
  cp "$HERE/package.json" "$HERE/package-lock.json" "$HERE/.npmrc" "$MODULES/" && npm --prefix "$MODULES" ci --silent
}

# act WHAT... : what the browser's side asks for.
act() {
  case $1 in
  post) rig_post --queue "main.$2.in" "${@:3}" ;;
  redis-stop) rig_redis_stop ;;
  redis-start) rig_redis_start --appendonly yes --appendfsync always ;;
  relay-stop) rig_relay_stop main ;;
  relay-start) start main ;;
  delete) rig_queues delete "main.$2.work" ;;
  declare) rig_queues declare "main.$2.work" x-queue-type=classic ;;
  put) rig_redis_cli set "onlyonce:key:$2:$3" "$4" px 600000 ;;
  *) false ;;
  esac >"$RIG_DIR/act.log" 2>&1
}

packages_for_page || rig_die "chromium and node are installed"
rig_check "playwright is installed" install_modules
rig_redis_start --appendonly yes --appendfsync always
rig_rabbit_start
make main "$TOKEN" || rig_die "the relay is ready"
make open "" || rig_die "the relay without a token is ready"

export PAGE_MAIN=http://${AT[main]} PAGE_OPEN=http://${AT[open]} PAGE_TOKEN=$TOKEN PAGE_HOSTILE=$HOSTILE
export PAGE_MODULES=$MODULES PAGE_SHOTS=${PAGE_SHOTS:-}
coproc BROWSER { exec node "$HERE/page.mjs" 2>"$RIG_DIR/browser.log"; }
PID=$BROWSER_PID
exec {FROM}<&"${BROWSER[0]}" {TO}>&"${BROWSER[1]}"
while IFS=$'\t' read -r -u "$FROM" -a line; do
  case ${line[0]} in
  do)
    act "${line[@]:1}"
    echo "$?" >&"$TO"
    ;;
  ok) rig_ok "${line[1]}" ;;
  FAIL) rig_fail "${line[1]}" ;;
  *) echo "    ${line[*]}" ;;
  esac
done
wait "$PID"
rig_check "the browser's side ran to its end" [ "$?" = 0 ]
rig_check "the relay stops" rig_relay_stop main
