#!/bin/bash
# An alarm of the broker, which then reads nothing that is published: the relay waits, says so, goes
# on by itself, and ends in time when it is told to.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

# configure SESSION
configure() {
  RIG_SESSION=$1 rig_config_head
  cat <<'END'
routes:
  - name: pay
    from: {queue: pay.in, queue_type: classic}
    to: {queue: pay.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
  - name: careful
    from: {queue: careful.in, queue_type: classic}
    to: {queue: careful.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
    on_in_doubt: park
END
}

says() {
  rig_wait_until "grep -q '$1' '$RIG_DIR/relay.log'" 30
}

# alarm ROUTE ID... : these messages reach the relay when the broker takes none any more, but for the
# first: it stops reading a connection after something was published there.
alarm() {
  local route=$1 id
  shift
  rig_relay_signal relay STOP
  for id; do
    rig_post --queue "$route.in" --message-id "$id"
  done
  rig_rabbitctl -q set_vm_memory_high_watermark 0.00001
  rig_relay_signal relay CONT
}

no_alarm() {
  rig_rabbitctl -q set_vm_memory_high_watermark 0.6
}

has_state() {
  rig_onlyonce status -c "$CONFIG" "$1" "$2" | jq -e ".state == \"$3\""
}

rig_redis_start --appendonly no
rig_rabbit_start
configure 2m >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay careful.in
rig_relay_ready relay pay.in
rig_post --queue pay.in --message-id known
rig_check "a message passes" rig_takes pay.work 1 '.[0].message_id == "known"'

alarm pay a1 known a2 known
rig_check "the broker blocks: said" says 'msg="the broker blocks publishing'
sleep 3
rig_check "what it does not take is pending" has_state pay a2 pending
rig_check "and not published" [ "$(rig_queue_depth pay.work)" -le 1 ]
no_alarm
rig_check "they arrive when it takes messages again, once and in no doubt" rig_takes pay.work 2 \
  'map(.message_id) == ["a1","a2"] and all(.headers | has("x-onlyonce-in-doubt") | not)'
rig_check "that is said" says 'msg="the broker takes messages again"'
rig_check "the alarm was said once" [ "$(grep -c 'the broker blocks publishing' "$RIG_DIR/relay.log")" = 1 ]

alarm pay b1 b2
rig_wait_until "[ \"\$(grep -c 'the broker blocks publishing' '$RIG_DIR/relay.log')\" = 2 ]" 30
rig_check "told to stop during an alarm: it ends in time, with 0" rig_relay_stop relay 10
rig_check "what was published stays pending" has_state pay b2 pending
no_alarm
configure 10s >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay pay.in
# Were the session not ended, it would wait for its two minutes.
rig_check "the next start takes it over at once" rig_wait_until "has_state pay b2 forwarded" 60
rig_take pay.work >"$RIG_DIR/taken.json"
# The broker may take what it had not read when the alarm is over, from a connection that is gone.
rig_check "and marks its copy, the only one or the second" jq -es 'group_by(.message_id) |
  length == 2 and all(map(select(.headers["x-onlyonce-in-doubt"] != true)) | length <= 1) and
  (.[1] | any(.headers["x-onlyonce-in-doubt"]))' "$RIG_DIR/taken.json"

# ---- on_in_doubt: park ----

alarm careful c1 c2
rig_check "a copy is on its way and not confirmed" \
  rig_wait_until "has_state careful c2 pending" 30
rig_relay_kill relay
no_alarm
rig_relay_start relay "$CONFIG"
rig_check "killed, the next start parks it" rig_wait_depth careful.in.parked 1 60
rig_check "and has that on record" rig_wait_until "has_state careful c2 parked" 10
rig_take careful.work >/dev/null
rig_take careful.in.parked --move-to careful.in >"$RIG_DIR/taken.json"
rig_check "with reason in_doubt, and marked" jq -es 'any(.message_id == "c2") and
  all(.headers["x-onlyonce-reason"] == "in_doubt" and .headers["x-onlyonce-in-doubt"])' \
  "$RIG_DIR/taken.json"
rig_check "put back, it is forwarded, marked" rig_takes careful.work "$(wc -l <"$RIG_DIR/taken.json")" \
  'any(.message_id == "c2") and all(.headers["x-onlyonce-in-doubt"] and
    .headers["x-onlyonce-attempt"] == 2)'
