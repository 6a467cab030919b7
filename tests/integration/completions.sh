#!/bin/bash
# Workers report by AMQP: completion with a result, release, every bad report parked with its reason;
# reports that overtake the relay's own record; a store that is away; and relays killed with -9 while
# workers report, with on_in_doubt: wait, after which every job was done exactly once.
#
# Set before: ONLYONCE_KILLS (6; 100 with ONLYONCE_LONG=1).

set -u
# shellcheck source=tests/lib/fault.sh
. "$(dirname "$0")/../lib/fault.sh"

KILLS=6
! fault_long || KILLS=100
KILLS=${ONLYONCE_KILLS:-$KILLS}
FAULT_QUEUES=classic

completions() {
  echo "completions: {queue: reports}"
}

configure() {
  fault_head
  fault_route pay "queue: pay.work, queue_type: classic"
  fault_route free "queue: free.work, queue_type: classic" "window_completed: 0s"
  completions
}

# A relay whose answers from the broker are late, and one beside it that takes the reports.
configure_slow() {
  FAULT_HEARTBEAT=60s FAULT_BROKER=${FAULT_PORTS[slow]} fault_head
  fault_route pay "queue: pay.work, queue_type: classic"
}

configure_beside() {
  fault_head
  fault_route pay "queue: pay.work, queue_type: classic" "scope: pay" |
    sed 's/queue: pay\.in/queue: beside.in/'
  completions
}

configure_doubtful() {
  fault_head
  fault_route job "queue: job.work, queue_type: classic" "on_in_doubt: wait" "in_doubt_wait: 20s"
  completions
}

# forward ROUTE ID : the message's copy, which stays in $RIG_DIR/taken.json, and is on record.
forward() {
  rig_post --queue "$1.in" --message-id "$2" && rig_takes "$1.work" 1 ".[0].message_id == \"$2\"" &&
    becomes "$1" "$2" '.state == "forwarded"'
}

first_seen() {
  jq -r '.headers["x-onlyonce-first-seen"]' "$RIG_DIR/taken.json"
}

# report ROUTE KEY BODY [OPTION...]
report() {
  rig_post --queue reports --header "x-onlyonce-route=$1" --header "x-onlyonce-key=$2" --body "$3" \
    "${@:4}"
}

status() {
  rig_onlyonce status -c "$CONFIG" "$1" "$2" >"$RIG_DIR/status" || [ $? = 1 ]
}

is() {
  status "$1" "$2" && jq -e "$3" "$RIG_DIR/status"
}

# becomes ROUTE KEY FILTER : its status does, in some seconds.
becomes() {
  rig_wait_until "is '$1' '$2' '$3'" 60 && return 0
  cat "$RIG_DIR/status"
  return 1
}

# parks REASON ROUTE KEY BODY [OPTION...] : such a report is parked for that reason, as it was.
parks() {
  local reason=$1
  shift
  report "$@" || return 1
  rig_takes reports.parked 1 ".[0] | .headers[\"x-onlyonce-reason\"] == \"$reason\" and
    .headers[\"x-onlyonce-route\"] == \"$1\" and .headers[\"x-onlyonce-key\"] == \"$2\" and
    .headers[\"x-onlyonce-routing-key\"] == \"reports\"" && jq -r .body "$RIG_DIR/taken.json" |
    cmp - <(printf '%s\n' "$3")
}

put_record() {
  rig_redis_cli set "onlyonce:key:pay:$1" "$2" px 600000
}

# are_completed KEY... : in some seconds.
are_completed() {
  local key
  for key; do
    rig_wait_until "is pay $key '.state == \"completed\" and .result == \"$key\"'" 60 || return 1
  done
}

# A pending record of a session that nobody knows.
make_pending() {
  put_record "$1" "2P 1 1782640800123 t0 o0123456789abcdef01234567.1"
}

none_left() {
  rig_wait_empty reports 30 && nothing_unacknowledged
}

# Whatever the relay held unacknowledged would be in the queue again.
nothing_unacknowledged() {
  rig_relay_stop relay && [ "$(rig_queue_depth reports)" = 0 ] &&
    [ "$(rig_queue_depth reports.parked)" = 0 ]
}

rig_redis_start --appendonly no
rig_rabbit_start
fault_proxy store "$RIG_REDIS_PORT"
fault_proxy slow "$RABBITMQ_NODE_PORT"
rig_queues declare reports || rig_die "the queue of reports is made"
rig_queues declare reports.parked || rig_die "its parking queue is made"
FAULT_STORE=${FAULT_PORTS[store]} configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
rig_relay_ready relay pay.in
rig_relay_ready relay reports

rig_check "check --connect: 0" rig_exits 0 rig_onlyonce check --connect -c "$CONFIG"
rig_check "it looks at both queues" [ "$(grep -cE '^completions: queue reports(\.parked)? \(' "$RIG_DIR/out")" = 2 ]

# ---- completion ----

forward pay c1 >/dev/null
seen=$(first_seen)
result='{"total": 1.50,  "text":"\u00e9"}'
report pay c1 "$result"
rig_check "a report completes its key" becomes pay c1 '.state == "completed" and .completed_at'
rig_check "its result is kept byte for byte" grep -qF "\"result\":$result" "$RIG_DIR/status"
report pay c1 '"another"' --number "x-onlyonce-first-seen=$seen" --header x-onlyonce-action=complete
forward pay c2 >/dev/null
report pay c2 '' --number "x-onlyonce-first-seen=$(first_seen)"
rig_check "one without a result, too" becomes pay c2 '.state == "completed" and (has("result") | not)'
rig_check "the first completion stays" is pay c1 '.result.total == 1.5'
rig_post --queue pay.in --message-id c1
rig_check "a completed key's message is a duplicate" forward pay c3
rig_check "which is counted" becomes pay c1 '.duplicates == 1 and .result.total == 1.5'
longest="\"$(printf '%4094s' '' | tr ' ' x)\""
report pay c3 "$longest"
rig_check "a result of 4 KiB" becomes pay c3 '.result | length == 4094'

forward free f1 >/dev/null
rig_post --queue free.in --message-id f1
rig_check "window_completed: 0s: until it is complete, a key blocks" forward free f2
report free f1 1
rig_check "then it is completed" becomes free f1 '.state == "completed" and .duplicates == 1'
rig_check "and its next message is let through" forward free f1
rig_check "as a new one" is free f1 '.state == "forwarded" and .duplicates == 0 and (has("result") | not)'

# ---- release ----

forward pay r1 >/dev/null
report pay r1 'what it says does not matter' --header x-onlyonce-action=release
rig_check "a report releases its key" becomes pay r1 '.state == "not_found"'
rig_check "whose next message is new" forward pay r1
report pay r1 '' --header x-onlyonce-action=release --number "x-onlyonce-first-seen=$(first_seen)"
rig_check "and again, with its first-seen" becomes pay r1 '.state == "not_found"'

# ---- bad reports ----

forward pay b1 >/dev/null
put_record b2 "something else" >/dev/null
make_pending b3 >/dev/null
rig_check "of an unknown route" parks unknown_route nobody b1 '1'
rig_check "of an unknown key" parks not_found pay nothing '1'
rig_check "of another first-seen" parks not_found pay b1 '1' --number x-onlyonce-first-seen=17
rig_check "of a first-seen that is none" parks bad_header pay b1 '1' --header x-onlyonce-first-seen=x
rig_check "of an empty key" parks no_key pay '' '1'
rig_check "of an unknown action" parks bad_action pay b1 '1' --header x-onlyonce-action=delete
rig_check "of a result that is no JSON" parks bad_result pay b1 'done'
rig_check "of one above 4 KiB" parks bad_result pay b1 "${longest%?}x\""
rig_check "of what is not ours" parks foreign pay b2 '1'
rig_check "a release of a pending key" parks pending pay b3 '' --header x-onlyonce-action=release
rig_check "a release of an unknown key" parks not_found pay nothing '' --header x-onlyonce-action=release
rig_post --queue reports --body 1
rig_check "without headers" rig_takes reports.parked 1 '.[0].headers["x-onlyonce-reason"] == "unknown_route"'
rig_check "none of them changed anything" is pay b1 '.state == "forwarded"'
report pay nothing '"later"'
rig_wait_depth reports.parked 1 30
forward pay nothing >/dev/null
rig_take reports.parked --count 1 --move-to reports >/dev/null
rig_check "a parked report can be put back" becomes pay nothing '.state == "completed" and .result == "later"'

# ---- the store is away ----

forward pay s1 >/dev/null
forward pay s2 >/dev/null
fault_forget relay
fault_tell store refuse
report pay s1 '"s1"'
report nobody s1 ''
rig_check "without the store, bad reports are parked all the same" rig_takes reports.parked 1 \
  '.[0].headers["x-onlyonce-reason"] == "unknown_route"'
report pay s2 '"s2"'
rig_check "the outage is said" fault_is_said relay 'link="completions store".* why='
rig_check "once, and waited for in peace" fault_is_calm relay 4 3
rig_check "it was said once" [ "$(fault_said relay 'reconnecting.*completions store|completions store.*reconnecting')" -le 1 ]
fault_tell store pass
rig_check "when it is back, they are applied" are_completed s1 s2
rig_check "and none is left" none_left

# ---- the broker is restarted, and SIGTERM while nothing can be done ----

CONFIG=$RIG_DIR/beside.yaml
configure_beside >"$CONFIG"
sed -i "s/:$RIG_REDIS_PORT\//:${FAULT_PORTS[store]}\//" "$CONFIG"
rig_relay_start again "$CONFIG"
rig_relay_ready again reports
rig_rabbit_restart
put_record t1 "2F 1 1782640800123 t0 e9000000000000" >/dev/null
report pay t1 '"t1"'
rig_check "after a restart of the broker, reports are taken again" are_completed t1
rig_check "the outage was said once" [ "$(fault_said again 'connection lost.*completions source')" = 1 ]
fault_tell store mute
put_record t2 "2F 1 1782640800123 t0 e9000000000000" >/dev/null
report pay t2 '"t2"'
sleep 1
rig_check "SIGTERM while the store is silent: it ends in time" rig_relay_stop again
fault_tell store pass
rig_relay_start again "$CONFIG"
rig_check "the report is not lost" are_completed t2
rig_relay_stop again

# ---- a report that overtakes the relay's record ----

configure_slow >"$RIG_DIR/slow.yaml"
configure_beside >"$RIG_DIR/beside.yaml"
CONFIG=$RIG_DIR/slow.yaml
rig_relay_start slowly "$CONFIG"
rig_relay_ready slowly pay.in
rig_relay_start beside "$RIG_DIR/beside.yaml"
rig_relay_ready beside reports
fault_tell slow "delay 2500"
# The confirm is 2.5 s behind the copy, which is 2.5 s behind the claim: time to keep the confirm away altogether.
overtakes() {
  rig_post --queue pay.in --message-id o1 && rig_wait_until "is pay o1 '.state == \"pending\"'" 30 &&
    fault_tell slow mute-replies && rig_takes pay.work 1 '.[0].message_id == "o1"'
}
rig_check "a copy arrives before its confirm" overtakes
report pay o1 '{"early": true}' --number "x-onlyonce-first-seen=$(first_seen)"
rig_check "its completion is noted" becomes pay o1 '.state == "pending" and .completed_at and .result.early'
fault_tell slow pass
rig_check "and wins when the confirm is there" becomes pay o1 '.state == "completed" and .result.early'
rig_relay_stop slowly
rig_relay_stop beside

# ---- kills under load ----

configure_doubtful >"$RIG_DIR/doubtful.yaml"
CONFIG=$RIG_DIR/doubtful.yaml
COUNT=$((KILLS * 400))
rig_queues declare job.in || rig_die "the inbound queue is made"
rig_queues declare job.work || rig_die "the work queue is made"
"$RIG_BUILD/tests/work" --amqp "$RIG_AMQP_URL" --out "$RIG_DIR/jobs" --report reports job.work \
  >"$RIG_DIR/work.log" 2>&1 &
RIG_RELAYS[worker]=$!
rig_load --queue job.in --count "$COUNT" --duplicates 33 --prefix job- --rate 600 >"$RIG_DIR/load.log" 2>&1 &
loader=$!
for ((i = 0; i < KILLS; i++)); do
  rig_relay_start relay "$CONFIG"
  ((i % 5 == 4)) || rig_relay_ready relay job.in
  sleep "0.$((RANDOM % 80 + 10))"
  rig_relay_kill relay
done
rig_relay_start relay "$CONFIG"
wait $loader || rig_fail "the load was taken"
is_done() {
  rig_wait_empty job.in 1 && rig_wait_empty job.work 1 && rig_wait_empty reports 1 &&
    [ "$(sort -u "$RIG_DIR/jobs" | wc -l)" = "$COUNT" ] && fault_none_pending job
}
rig_check "after $KILLS kills the last relay finishes the work" rig_wait_until is_done 90
sleep 2
rig_check "every job was done once" [ "$(wc -l <"$RIG_DIR/jobs")" = "$COUNT" ]
rig_check "no report was refused" [ "$(rig_queue_depth reports.parked)" = 0 ]
all_completed() {
  [ "$(rig_onlyonce list -c "$CONFIG" job --state completed | wc -l)" = "$COUNT" ]
}
rig_check "and every key is completed" rig_wait_until all_completed 30
rig_check "SIGTERM ends the worker" rig_relay_stop worker
rig_check "nothing is left behind" none_left
