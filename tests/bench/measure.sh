# shellcheck shell=bash
# shellcheck disable=SC2153 # scripts/bench sets MESSAGES
# measure - what scripts/bench measures; sourced by it, after rig.sh.
#
# Each measurement adds lines "PART VARIANT METRIC VALUE" to the file RESULTS: metrics are
# per_second, cpu_us (the relay's CPU time a message), peak_mib, and whatever a part says.

RESULTS=$RIG_DIR/results
CONFIG=$RIG_DIR/relay.yaml
TICKS=$(getconf CLK_TCK)

# took PART VARIANT METRIC VALUE
took() {
  echo "$*" >>"$RESULTS"
}

measure_start() {
  rig_rabbit_environment
  echo '[rabbitmq_shovel].' >"$RABBITMQ_ENABLED_PLUGINS_FILE"
  rig_redis_start --appendonly no --slowlog-max-len 0 # which would be memory, too
  rig_rabbit_start
  rig_postgres_start
}

# fresh TYPE : an empty inbound and work queue, and empty stores.
fresh() {
  rig_queues delete in 2>/dev/null
  rig_queues delete work 2>/dev/null
  rig_queues declare in x-queue-type="$1"
  rig_queues declare work x-queue-type="$1"
  rig_redis_cli flushall >/dev/null
  rm -f "$RIG_DIR"/onlyonce.db*
  rig_psql 'DROP SCHEMA IF EXISTS onlyonce CASCADE' >/dev/null 2>&1
}

# wait_consumed QUEUE : until somebody consumes from it.
wait_consumed() {
  rig_wait_until "[ \"\$(rig_queue_consumers $1)\" -ge 1 ]" 60 || rig_die "$1 is consumed from"
}

# ---- the variants: NAME_begins and NAME_ends; RELAY_PID is whose CPU time counts, if any ----

# configure STORE-URL [WORKERS]
configure() {
  RIG_STORE_URL=$1 rig_config_head >"$CONFIG"
  cat >>"$CONFIG" <<END
log: {level: warning}
routes:
  - name: bench
    from: {queue: in}
    to: {queue: work}
    key: [message_id]
    window: 24h
    workers: ${2:-1}
END
}

relay_begins() {
  configure "$@"
  rig_relay_start relay "$CONFIG"
  RELAY_PID=${RIG_RELAYS[relay]}
}

relay_ends() {
  rig_relay_stop relay || rig_die "the relay stops"
}

shovel_begins() {
  RELAY_PID=
  rig_rabbitctl -q set_parameter shovel bench "{\"src-protocol\": \"amqp091\",
    \"src-uri\": \"$RIG_AMQP_URL\", \"src-queue\": \"in\", \"dest-protocol\": \"amqp091\",
    \"dest-uri\": \"$RIG_AMQP_URL\", \"dest-queue\": \"work\", \"ack-mode\": \"on-confirm\",
    \"src-prefetch-count\": 2000, \"src-queue-args\": $1, \"dest-queue-args\": $1}" >/dev/null
}

shovel_ends() {
  rig_rabbitctl -q clear_parameter shovel bench >/dev/null
}

textbook_begins() {
  "$RIG_BUILD/tests/textbook" --amqp "$RIG_AMQP_URL" --redis "$ONLYONCE_TEST_REDIS" --from in \
    --to work >>"$RIG_DIR/textbook.log" 2>&1 &
  # shellcheck disable=SC2154 # a word, not a variable
  RIG_RELAYS[textbook]=$!
  RELAY_PID=$!
}

textbook_ends() {
  rig_relay_kill textbook
}

# begins VARIANT TYPE ; ends VARIANT
begins() {
  case $1 in
  shovel) shovel_begins "{\"x-queue-type\": \"$2\"}" ;;
  textbook) textbook_begins ;;
  memory) relay_begins "'memory:'" ;;
  sqlite) relay_begins "sqlite:$RIG_DIR/onlyonce.db" ;;
  postgres) relay_begins "$RIG_POSTGRES_URL" ;;
  redis-*-workers) relay_begins "$RIG_REDIS_URL" "${1//[!0-9]/}" ;;
  redis*) relay_begins "$RIG_REDIS_URL" ;;
  esac
}

ends() {
  case $1 in
  shovel | textbook) "$1_ends" ;;
  *) relay_ends ;;
  esac
}

# ---- costs ----

# cpu_ticks PID : user and system time.
cpu_ticks() {
  awk '{ print $14 + $15 }' "/proc/$1/stat"
}

peak_mib() {
  awk '/^VmHWM:/ { printf "%.1f\n", $2 / 1024 }' "/proc/$1/status"
}

# costs PART VARIANT MESSAGES : of RELAY_PID, which has handled so many.
costs() {
  [ -n "$RELAY_PID" ] || return 0
  took "$1" "$2" cpu_us "$(awk -v t="$(cpu_ticks "$RELAY_PID")" -v hz="$TICKS" -v n="$3" \
    'BEGIN { printf "%.2f", t / hz * 1e6 / n }')"
  took "$1" "$2" peak_mib "$(peak_mib "$RELAY_PID")"
}

# ---- parts ----

# move PART VARIANT TYPE MESSAGES DUPLICATES BODY : a queue that is full is emptied.
move() {
  local part=$1 variant=$2 type=$3 messages=$4 duplicates=$5 body=$6 pace
  fresh "$type"
  rig_load --queue in --count $((messages * (100 - duplicates) / 100)) --duplicates "$duplicates" \
    --pattern late --body-size "$body" --prefix "6b1d8f1e-0000-4000-8000-00000" >/dev/null ||
    rig_die "the load is published"
  # What is prefetched is no more in the queue, so without duplicates the other one tells better.
  local from=$((messages / 10)) to=$((messages * 9 / 10)) queue=work
  [ "$duplicates" = 0 ] || queue=in from=$to to=$((messages / 10))
  "$RIG_BUILD/tests/pace" --amqp "$RIG_AMQP_URL" $queue $from $to >"$RIG_DIR/pace" &
  pace=$!
  begins "$variant" "$type"
  wait $pace || rig_die "$variant moves its messages"
  took "$part" "$variant" per_second "$(awk '{ printf "%.0f", $1 / $2 }' "$RIG_DIR/pace")"
  rig_wait_empty in 60
  costs "$part" "$variant" "$messages"
  ends "$variant"
}

measure_preloaded() {
  local n=$MESSAGES
  move preloaded shovel classic "$n" 0 256
  move preloaded memory classic "$n" 0 256
  move preloaded redis classic "$n" 0 256
  move preloaded redis-50%-duplicates classic "$n" 50 256
  move preloaded redis-90%-duplicates classic "$n" 90 256
  move preloaded sqlite classic "$n" 0 256
  move preloaded postgres classic "$n" 0 256
  move preloaded textbook classic $((n / 10)) 0 256
}

# run_along VARIANT TYPE : producers publish while it relays.
run_along() {
  local variant=$1 type=$2 n=$MESSAGES pace load
  fresh "$type"
  begins "$variant" "$type"
  wait_consumed in
  "$RIG_BUILD/tests/pace" --amqp "$RIG_AMQP_URL" work $((n / 10)) $((n * 9 / 10)) >"$RIG_DIR/pace" &
  pace=$!
  rig_load --queue in --count "$n" --body-size 256 >/dev/null &
  load=$!
  wait $pace || rig_die "$variant moves its messages"
  wait $load
  took "running-$type" "$variant" per_second "$(awk '{ printf "%.0f", $1 / $2 }' "$RIG_DIR/pace")"
  rig_wait_empty in 60
  costs "running-$type" "$variant" "$n"
  ends "$variant"
}

measure_running() {
  local type variant
  for type in classic quorum; do
    for variant in shovel memory redis; do
      run_along $variant $type
    done
  done
}

measure_sizes() {
  local size variant
  for size in 256 4096 65536; do
    for variant in shovel redis; do
      move "body-$size" $variant classic $((size > 10000 ? MESSAGES / 8 : MESSAGES)) 0 $size
    done
  done
}

# latency VARIANT FROM TO
latency() {
  "$RIG_BUILD/tests/latency" --amqp "$RIG_AMQP_URL" --to "$2" --from "$3" >"$RIG_DIR/latency" ||
    rig_die "$1: the messages arrive"
  sed 's/latency_us //; s/ /\n/g' "$RIG_DIR/latency" | while IFS="=" read -r metric value; do
    took latency "$1" "${metric}_us" "$value"
  done
}

measure_latency() {
  local variant
  fresh classic
  latency straight work work
  for variant in shovel redis; do
    fresh classic
    begins $variant classic
    wait_consumed in
    latency $variant in work
    ends $variant
  done
}

measure_workers() {
  local workers
  for workers in 1 2 4; do
    move workers "redis-$workers-workers" classic "$MESSAGES" 0 256
  done
}

# configure_routes COUNT : the first is from "in" to "work", the others have queues of their own.
configure_routes() {
  local i
  configure "$RIG_REDIS_URL"
  for ((i = 2; i <= $1; i++)); do
    cat >>"$CONFIG" <<END
  - name: bench$i
    from: {queue: in$i, queue_type: classic}
    to: {queue: work$i, queue_type: classic}
    park: {queue: parked, queue_type: classic}
    key: [message_id]
    window: 24h
END
  done
}

# idle_percent PID SECONDS : of a core.
idle_percent() {
  local before
  before=$(cpu_ticks "$1")
  sleep "$2"
  awk -v a="$before" -v b="$(cpu_ticks "$1")" -v hz="$TICKS" -v s="$2" \
    'BEGIN { printf "%.2f", (b - a) / hz / s * 100 }'
}

measure_routes() {
  local count pace
  for count in 1 10 100; do
    fresh classic
    configure_routes "$count"
    rig_relay_start relay "$CONFIG"
    RELAY_PID=${RIG_RELAYS[relay]}
    wait_consumed in
    [ "$count" = 1 ] || wait_consumed "in$count"
    took routes "$count" idle_cpu_percent "$(idle_percent "$RELAY_PID" 10)"
    "$RIG_BUILD/tests/pace" --amqp "$RIG_AMQP_URL" work $((MESSAGES / 10)) $((MESSAGES * 9 / 10)) \
      >"$RIG_DIR/pace" &
    pace=$!
    rig_load --queue in --count "$MESSAGES" --body-size 256 >/dev/null
    wait $pace || rig_die "$count routes move messages"
    took routes "$count" per_second "$(awk '{ printf "%.0f", $1 / $2 }' "$RIG_DIR/pace")"
    took routes "$count" peak_mib "$(peak_mib "$RELAY_PID")"
    relay_ends
  done
}

# What the store holds, in bytes.
held() {
  case $1 in
  redis) rig_redis_cli info memory | tr -d '\r' | awk -F: '$1 == "used_memory" { print $2 }' ;;
  sqlite) stat -c %s "$RIG_DIR/onlyonce.db" 2>/dev/null || echo 0 ;;
  postgres) rig_psql "SELECT coalesce(pg_total_relation_size(to_regclass('onlyonce.records')), 0)" ;;
  esac
}

# An id is a prefix and seven digits. Redis' table doubles at powers of two, and that is in the
# figure: 49152 keys fill it to three quarters, as it is on average.
measure_keys() {
  local store width count=49152 before prefix
  # What Redis keeps of any client, and of the scripts, is no key's.
  fresh classic
  begins redis
  wait_consumed in
  rig_load --queue in --count 2000 --body-size 64 >/dev/null
  rig_wait_depth work 2000 60 || rig_die "keys are forwarded"
  relay_ends
  for store in redis sqlite postgres; do
    for width in 16 36 64; do
      fresh classic
      prefix=$(printf "%$((width - 7))s" '' | tr ' ' a)
      before=$(held $store)
      begins $store
      wait_consumed in
      rig_load --queue in --count $count --first 1000000 --prefix "$prefix" --body-size 64 >/dev/null
      rig_wait_depth work $count 120 || rig_die "all keys are forwarded"
      relay_ends # SQLite's log goes into its file then.
      took keys "$store-$width-bytes" bytes_a_key $((($(held $store) - before) / count))
    done
  done
}

# One kill, somewhere in the middle of a full queue; its copies in doubt are those that the next
# relay marks.
measure_doubt() {
  fresh classic
  rig_load --queue in --count 20000 --body-size 256 >/dev/null
  RIG_SESSION=3s configure "$RIG_REDIS_URL"
  sed -i 's/level: warning/level: info/; s/    session: 3s/&\n    timeout: 900ms/' "$CONFIG"
  rig_relay_start relay "$CONFIG"
  rig_wait_depth work $((2000 + RANDOM % 10000)) 30 || rig_die "the relay relays"
  rig_relay_kill relay
  rig_relay_start again "$CONFIG"
  rig_wait_depth work 20000 60 || rig_die "all is forwarded"
  rig_wait_empty in 30
  sleep 1
  rig_relay_stop again || rig_die "the relay stops"
  took doubt kill-9 copies "$(sed -n 's/.*route ends.* in_doubt=\([0-9]*\).*/\1/p' "$RIG_DIR/again.log" | tail -n 1)"
}

# ---- the report ----

# medians : PART VARIANT METRIC MEDIAN LEAST MOST, in the order of measuring.
medians() {
  awk '
    { key = $1 " " $2 " " $3
      if (!(key in count)) order[++keys] = key
      value[key, ++count[key]] = $4 }
    END {
      for (k = 1; k <= keys; k++) {
        key = order[k]; n = count[key]
        for (i = 1; i <= n; i++) v[i] = value[key, i] + 0
        for (i = 2; i <= n; i++) {
          x = v[i]
          for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
          v[j + 1] = x
        }
        median = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        print key, median, v[1], v[n]
      }
    }' "$RESULTS"
}

# Ratios to the shovel and to memory: of the same part.
measure_report() {
  echo "medians of $ROUNDS rounds (least to most), $MESSAGES messages, $(nproc) cores, $(uname -m)"
  medians | awk '
    { line[NR] = $0; if ($3 == "per_second") rate[$1, $2] = $4 }
    END {
      for (i = 1; i <= NR; i++) {
        split(line[i], f, " ")
        if (f[1] != part) { part = f[1]; print "\n" part }
        printf "  %-22s %-17s %10s  (%s to %s)", f[2], f[3], f[4], f[5], f[6]
        if (f[3] == "per_second" && rate[part, "shovel"] && f[2] != "shovel")
          printf "  %.2f x shovel", f[4] / rate[part, "shovel"]
        if (f[3] == "per_second" && rate[part, "memory"] && f[2] ~ /^redis|^sqlite|^postgres/)
          printf "  %.2f x memory", f[4] / rate[part, "memory"]
        print ""
      }
    }'
}

measure_json() {
  medians | jq -Rn --arg rounds "$ROUNDS" --arg messages "$MESSAGES" '
    reduce (inputs / " ") as $f ({rounds: ($rounds | tonumber), messages: ($messages | tonumber)};
      .[$f[0]][$f[1]][$f[2]] = {median: ($f[3] | tonumber), least: ($f[4] | tonumber),
                               most: ($f[5] | tonumber)})'
}

# Bars of messages a second, in the order of measuring; readable on light and dark.
measure_chart() {
  medians | awk '
    BEGIN {
      heading["preloaded"] = "A full classic queue is emptied: messages a second"
      heading["running-quorum"] = "Quorum queues, while producers publish: messages a second"
      said["shovel"] = "shovel (no deduplication)"; said["textbook"] = "textbook loop"
    }
    $3 == "per_second" && $1 in heading {
      if ($1 != part) { part = $1; row[++n] = "#" heading[part] }
      row[++n] = $2; rate[n] = $4; if ($4 > most) most = $4
    }
    END {
      printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 %d\" font-family=\"sans-serif\" font-size=\"14\" role=\"img\">\n", n * 30 + 16
      print "<title>Messages a second through onlyonce, RabbitMQ'\''s shovel and the textbook loop</title>"
      print "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
      for (i = 1; i <= n; i++) {
        y = i * 30
        if (row[i] ~ /^#/) {
          printf "<text x=\"10\" y=\"%d\" fill=\"#222222\" font-weight=\"bold\">%s</text>\n", y - 2, substr(row[i], 2)
          continue
        }
        ours = !(row[i] in said)
        label = ours ? "onlyonce, " row[i] : said[row[i]]
        if (ours) gsub(/-/, " ", label)
        printf "<text x=\"10\" y=\"%d\" fill=\"#222222\">%s</text>\n", y, label
        printf "<rect x=\"240\" y=\"%d\" width=\"%.0f\" height=\"20\" fill=\"%s\"/>\n", y - 15, rate[i] / most * 320, ours ? "#2f6fb0" : "#9a9a9a"
        printf "<text x=\"%.0f\" y=\"%d\" fill=\"#222222\">%d</text>\n", 248 + rate[i] / most * 320, y, rate[i]
      }
      print "</svg>"
    }'
}
