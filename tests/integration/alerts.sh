#!/bin/bash
# Every alert of config/prometheus/onlyonce-alerts.yaml fires once its condition is real, and not before: a real
# Prometheus scrapes the relay and evaluates the rules, with their times made short. And every expression of the
# dashboard finds something.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml
RULES=$RIG_SOURCE/config/prometheus/onlyonce-alerts.yaml
DASHBOARD=$RIG_SOURCE/config/grafana/onlyonce.json
packages_install prometheus || rig_die "Prometheus is installed"

route() {
  cat <<END
  - name: $1
    from: {queue: $1.in, queue_type: classic}
    to: {queue: $1.work, queue_type: classic}
    park: {queue_type: classic}
    key: [message_id]
    window: 24h
END
}

configure() {
  rig_config_head
  echo "admin: {listen: '127.0.0.1:$PORT'}"
  echo "completions: {queue: reports}"
  echo "routes:"
  route pay
  route strict
  echo "    on_missing_key: park"
  route open
  echo "    on_store_failure: forward"
}

# What is minutes becomes seconds, and numbers that would take long to reach become small.
shorten() {
  sed -E -e 's/for: [0-9]+m/for: 1s/' -e 's/\[(5m|15m|1d)\]/[1m]/' -e 's/(oldest_message_seconds >) 120/\1 2/' \
    -e 's/(reconnects_total\[1m\]\) >) 5/\1 2/' -e 's/(relay_duration.*>) 5/\1 1/' -e 's/(duplicate_age.*>) 72000/\1 1/' "$RULES"
}

start_prometheus() {
  rig_port
  PROMETHEUS=127.0.0.1:$RIG_PORT
  mkdir -p "$RIG_DIR/prometheus"
  shorten >"$RIG_DIR/prometheus/rules.yaml"
  cat >"$RIG_DIR/prometheus/prometheus.yaml" <<END
global: {scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: onlyonce
    static_configs: [{targets: ["127.0.0.1:$PORT"]}]
END
  prometheus --config.file="$RIG_DIR/prometheus/prometheus.yaml" --storage.tsdb.path="$RIG_DIR/prometheus/data" \
    --web.listen-address="$PROMETHEUS" >"$RIG_DIR/prometheus.log" 2>&1 &
  RIG_RELAYS[prometheus]=$! # It is stopped at the end as a relay is.
  rig_wait_until "curl -sf http://$PROMETHEUS/-/ready" 30 || rig_die "Prometheus is ready"
}

alerts() {
  curl -s "http://$PROMETHEUS/api/v1/alerts" | jq -r '.data.alerts[] | select(.state == "firing")
    | [.labels.alertname, .labels.route // "", .labels.link // .labels.reason // .labels.event // ""] | join(" ")'
}

# is_firing "NAME[ ROUTE[ DETAIL]]"
is_firing() {
  alerts | grep -q "^$1"
}

# fires WHAT : it does soon.
fires() {
  rig_wait_until "is_firing '$1'" 50 && return 0
  alerts
  return 1
}

# calms WHAT : it ends.
calms() {
  rig_wait_until "! is_firing '$1'" 60 && return 0
  alerts
  return 1
}

# raises WHAT... : each was quiet so far, and fires after what was done; DONE is the command that does it.
raises() {
  local alert
  for alert; do
    rig_check "$alert is quiet" bash -c "! grep -q '^$alert' '$RIG_DIR/quiet'"
    rig_check "$alert fires" fires "$alert"
    echo "${alert%% *}" >>"$RIG_DIR/fired"
  done
}

note_alerts() {
  alerts >"$RIG_DIR/quiet"
}

is_ready() {
  curl -sf "http://127.0.0.1:$PORT/readyz"
}

# has_reconnected TIMES : route pay, to its store.
has_reconnected() {
  curl -sf "http://127.0.0.1:$PORT/metrics" | grep -qx "onlyonce_reconnects_total{route=\"pay\",link=\"store\"} $1"
}

put_record() {
  rig_redis_cli set "onlyonce:key:pay:$1" "$2" px 600000 >"$RIG_DIR/put.out"
}

# ---- what can be said without a relay ----

rig_check "promtool takes the rules" promtool check rules "$RULES"
"$RIG_BUILD/tests/json_of_yaml" <"$RULES" >"$RIG_DIR/rules.json" || rig_die "the rules are YAML"
rig_check "each has a summary, a description and a severity" jq -e '[.groups[].rules[] | (.annotations.summary | length > 0)
  and (.annotations.description | length > 0) and (.labels.severity | IN("warning", "critical"))] | all' "$RIG_DIR/rules.json"

rig_redis_start --appendonly no
rig_rabbit_start
rig_port
PORT=$RIG_PORT
configure >"$CONFIG"
start_prometheus

# ---- the alerts ----

: >"$RIG_DIR/quiet"
raises OnlyonceAbsent
rig_relay_start relay "$CONFIG"
rig_wait_until is_ready 30 || rig_die "the relay is ready"
rig_check "it ends when the relay runs" calms OnlyonceAbsent
rig_check "promtool takes the metrics" bash -c "curl -sf http://127.0.0.1:$PORT/metrics >'$RIG_DIR/metrics' &&
  promtool check metrics <'$RIG_DIR/metrics'"
raises "OnlyonceStoreEndangered pay"
sleep 3
rig_check "nothing else fires" test "$(alerts | sed "s/ .*//" | sort -u)" = OnlyonceStoreEndangered

note_alerts
put_record foreign nonsense
rig_post --queue pay.in --message-id foreign
raises "OnlyonceMessageHeld pay" "OnlyonceNotRecorded pay foreign"
note_alerts
rig_redis_cli del onlyonce:key:pay:foreign >"$RIG_DIR/del.out"
raises "OnlyonceSlow pay"
note_alerts
rig_post --queue pay.in --message-id foreign
raises "OnlyonceWindowShort pay"

note_alerts
rig_post --queue strict.in --body "no key"
rig_post --queue reports --header x-onlyonce-route=none --header x-onlyonce-key=k
# What is pending for a session that is gone may have been forwarded.
put_record doubt "2P 1 1782640800123 t0 o0123456789abcdef01234567.1"
rig_post --queue pay.in --message-id doubt
for _ in 1 2 3; do
  rig_post --queue open.in --body "no key"
done
raises "OnlyonceParked strict no_key" OnlyonceReportsParked "OnlyonceInDoubt pay" "OnlyonceKeysMissing open"


note_alerts
for i in 1 2 3 4 5; do
  rig_redis_cli client kill type normal >"$RIG_DIR/kill.out"
  rig_wait_until "has_reconnected $i" 30 || rig_die "the relay reconnects"
done
raises "OnlyonceReconnecting pay store"

# The dashboard has something to show now. Its variables are Grafana's.
dashboard() {
  local expr bad=0
  while read -r expr; do
    expr=${expr//\$__rate_interval/1m}
    expr=${expr//\$route/.*}
    if ! curl -s "http://$PROMETHEUS/api/v1/query" --data-urlencode "query=$expr" |
      jq -e '.status == "success" and (.data.result | length > 0)' >/dev/null; then
      echo "nothing for $expr"
      bad=1
    fi
  done < <(jq -r '.panels[].targets[].expr' "$DASHBOARD")
  return $bad
}

# names FILE... : metrics that are named in these.
names() {
  cat "$@" | grep -oE 'onlyonce_[a-z_]+' | sed -E 's/_(bucket|sum|count)$//' | sort -u
}

rig_wait_until dashboard 60
rig_check "every expression of the dashboard finds something" dashboard
rig_check "its panels have no two places in common" jq -e '[.panels[].gridPos | [.x, .y]] | length == (unique | length)' "$DASHBOARD"
names "$DASHBOARD" <(jq -r '.groups[].rules[].expr' "$RIG_DIR/rules.json") >"$RIG_DIR/named"
rig_check "what dashboard and rules name is there" bash -c "! grep -vxF -f <(awk '/^# TYPE/ { print \$3 }' '$RIG_DIR/metrics') '$RIG_DIR/named'"

note_alerts
rig_redis_stop
rig_post --queue open.in --message-id unchecked
raises "OnlyonceConnectionDown pay store" "OnlyonceUnchecked open"
rig_redis_start --appendonly no
rig_check "it ends when the store is back" calms "OnlyonceConnectionDown pay store"

note_alerts
rig_relay_signal relay STOP
rig_post --queue pay.in --message-id a1
rig_post --queue pay.in --message-id a2
rig_rabbitctl -q set_vm_memory_high_watermark 0.00001
rig_relay_signal relay CONT
raises "OnlyonceBlocked pay"
rig_rabbitctl -q set_vm_memory_high_watermark 0.6
rig_check "it ends with the alarm" calms OnlyonceBlocked

jq -r '.groups[].rules[].alert' "$RIG_DIR/rules.json" | sort >"$RIG_DIR/all"
rig_check "every alert has fired" diff "$RIG_DIR/all" <(sort -u "$RIG_DIR/fired")
rig_check "the relay stops" rig_relay_stop relay
