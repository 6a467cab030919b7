#!/bin/bash
# Messages of every shape arrive as they were sent, byte by byte, less what is documented. The tool
# "metadata" has the shapes, and prints a line for each.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

# Classic queues, because quorum queues write into the headers themselves.
configure() {
  rig_config_head
  cat <<'END'
routes:
  - name: shapes
    from: {queue: shapes.in, queue_type: classic}
    to: {queue: shapes.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
END
}

# metadata LABEL OPTION... : the tool's lines, with the label in each name.
metadata() {
  local label=$1
  shift
  "$RIG_BUILD/tests/metadata" --in shapes.in --work shapes.work "$@" >"$RIG_DIR/metadata" 2>&1 ||
    RIG_FAILED=$((RIG_FAILED + 1))
  sed "s/^\\(ok\\|FAIL\\) /\\1 $label: /" "$RIG_DIR/metadata"
}

rig_redis_start --appendonly no
rig_rabbit_start
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay shapes.in

metadata "the relay's user" --amqp "$RIG_AMQP_URL"
rig_check "nothing is parked" [ "$(rig_queue_depth shapes.in.parked)" = 0 ]

# A user_id that is not the relay's own would make the broker close the channel.
rig_rabbitctl -q add_user other other
rig_rabbitctl -q set_permissions other '.*' '.*' '.*'
rig_redis_cli flushall >/dev/null
metadata "another user" --amqp "${RIG_AMQP_URL/guest:guest/other:other}" --user other --user-goes
