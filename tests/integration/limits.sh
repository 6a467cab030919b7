#!/bin/bash
# What comes back again and again: RabbitMQ gives quorum queues a delivery limit of 20 from 4.0 on, and had none.
# An inbound queue that the relay makes has none with any of them; one that it made with an older broker is used, and
# warned about.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
RETURNS=25 # more than the limit

configure() {
  local name
  rig_config_head
  echo "routes:"
  for name in new old; do
    cat <<END
  - name: $name
    from: {queue: $name.in}
    to: {queue: $name.work}
    key: [message_id]
    window: 24h
END
  done
}

# comes_back QUEUE : its only message is taken and given back, more often than the limit.
comes_back() {
  rig_take "$1" --count $RETURNS --wait 3000 --settle requeue >/dev/null
}

# limit_is QUEUE REGEX : its delivery limit, as the broker has it, or "none".
limit_is() {
  local all limit
  all=$(rig_rabbitctl -q list_queues --no-table-headers name arguments | sed -n "s/^$1\t//p")
  limit=$(grep -o "x-delivery-limit[^}]*" <<<"$all" || echo none)
  grep -q x-dead-letter <<<"$all" && grep -qx -- "$2" <<<"$limit" && return 0
  echo "$1: $all"
  return 1
}

said() {
  grep -c "level=warning.*without x-delivery-limit.*route=$1 " "$RIG_DIR/relay.log"
}

rig_redis_start --appendonly no
rig_rabbit_start
MAJOR=$(rig_rabbit_major)
# As the relay made it with RabbitMQ 3.
rig_queues declare old.in x-queue-type=quorum x-dead-letter-exchange= x-dead-letter-routing-key=old.in.parked ||
  rig_die "the inbound queue is made"
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay new.in
rig_relay_ready relay old.in

if [ "$MAJOR" -ge 4 ]; then
  rig_check "RabbitMQ $MAJOR: the queue that it makes has no limit" limit_is new.in "x-delivery-limit.*-1"
  rig_check "the queue from before may have one: said once" [ "$(said old)" = 1 ]
else
  rig_check "RabbitMQ $MAJOR: the queue that it makes has no limit" limit_is new.in none
  rig_check "nor had the queue from before: nothing is said" [ "$(said old)" = 0 ]
fi
rig_check "nothing is said of the other" [ "$(said new)" = 0 ]

# What the relay rejects, as it cannot be copied, is set aside by both.
for name in new old; do
  rig_post --queue $name.in --message-id full --header "big=$(head -c 131010 /dev/zero | tr '\0' h)"
  rig_check "$name: what is rejected is set aside" rig_wait_depth $name.in.parked 1 20
  rig_queues purge $name.in.parked
done
rig_check "SIGTERM ends it" rig_relay_stop relay

rig_post --queue new.in --message-id again
rig_post --queue old.in --message-id again
rig_check "a message may come back $RETURNS times" comes_back new.in
if [ "$MAJOR" -ge 4 ]; then
  rig_check "the queue from before sets it aside earlier" eval "! comes_back old.in"
  rig_check "where it is found" rig_takes old.in.parked 1 \
    '.[0] | .message_id == "again" and .headers["x-first-death-reason"] == "delivery_limit"'
  rig_rabbitctl -q set_policy none "^old.in$" '{"delivery-limit":-1}' --apply-to quorum_queues >/dev/null
  rig_post --queue old.in --message-id again
  rig_check "by policy it has no limit either" comes_back old.in
else
  rig_check "in the queue from before, too" comes_back old.in
fi
rig_relay_start relay "$CONFIG"
rig_check "and then is forwarded" rig_takes new.work 1 '.[0].message_id == "again"'
rig_check "from the queue from before, too" rig_takes old.work 1 '.[0].message_id == "again"'
rig_check "SIGTERM ends it" rig_relay_stop relay
