#!/bin/bash
# docs/patterns.md: every route of it runs as it stands, and does what the page says.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

# The routes between the fences of the page.
routes() {
  awk '/^```yaml$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$RIG_SOURCE/docs/patterns.md"
}

names() {
  routes | sed -n 's/^  - name: //p'
}

post() {
  local name=$1
  shift
  rig_post --queue "$name.in" "$@"
}

# arrives NAME COUNT : so many copies reach the work queue, and nothing else waits.
arrives() {
  rig_wait_depth "$1.work" "$2" 60 && rig_wait_empty "$1.in" 60 && [ "$(rig_queue_depth "$1.work")" = "$2" ]
}

is_parked() {
  rig_takes "$1.in.parked" 1 ".[0].headers[\"x-onlyonce-reason\"] == \"$2\""
}

rig_redis_start --appendonly no
rig_rabbit_start
{
  rig_queues declare mails.work x-dead-letter-exchange= x-dead-letter-routing-key=mails.delay &&
    rig_queues declare mails.delay x-message-ttl=200 x-dead-letter-exchange=mails
} || rig_die "the queues are made"
{
  rig_config_head
  echo "routes:"
  routes
} >"$CONFIG"
rig_check "the page has nine patterns" test "$(names | wc -l)" = 9
rig_relay_start relay "$CONFIG"
for name in $(names); do
  rig_relay_ready relay "$name.in"
done

post payments --header x-transaction-id=1
post payments --body '{"transaction":{"id":"1"}}'
post payments --message-id 1
post payments --body '{}'
rig_check "payments: an id in two places is one; another kind of id is not" arrives payments 2
rig_check "payments: without an id, parked" is_parked payments no_key

post webhooks --header x-event-id=e1 --body '{"a":1}'
post webhooks --header x-event-id=e1 --body '{"a":2}'
post webhooks --body '{"a":3,"b":4}'
post webhooks --body '{"b":4.0, "a":3}'
rig_check "webhooks: by event id, else by content" arrives webhooks 2

post scans --body '{"document":"d1","by":"a"}'
post scans --body '{"document":"d1","by":"b"}'
post scans --body '{"document":"d2"}'
rig_check "scans: one for each document" arrives scans 2

post reports --body '{"total":9007199254740993}'
post reports --body '{"total":9007199254740992}'
post reports --body ' {"total": 9007199254740993.0}'
rig_check "reports: equal by exact value" arrives reports 2

post orders --header idempotency-key=k --body '{"sum":1}'
post orders --header idempotency-key=k --body '{ "sum": 1.0 }'
post orders --header idempotency-key=k --body '{"sum":2}'
rig_check "orders: a retry is dropped" arrives orders 1
rig_check "orders: another content is parked" is_parked orders conflict

rig_relay_start second "$CONFIG"
rig_wait_until "[ \"\$(rig_queue_consumers invoices.in)\" = 2 ]" 60
post invoices --message-id i1 --count 2
rig_check "invoices: two relays share their keys" arrives invoices 1
rig_relay_stop second

post rebuilds --body '{"project":"p"}' --count 2
rig_check "rebuilds: one at a time" arrives rebuilds 1
rig_onlyonce complete -c "$CONFIG" rebuilds p >/dev/null
post rebuilds --body '{"project":"p"}'
rig_check "rebuilds: and the next one once it is completed" arrives rebuilds 2

post mails --message-id m1 --count 2
rig_check "mails: once" arrives mails 1
rig_take mails.work --count 1 --settle reject >/dev/null
rig_check "mails: a failed one comes round, with its attempt" rig_takes mails.work 1 \
  '.[0].headers["x-onlyonce-attempt"] == 2'

post imports --header tenant=a --message-id 1
post imports --header tenant=b --message-id 1
post imports --header tenant=a --message-id 1
rig_check "imports: each tenant's ids for themselves" arrives imports 2
