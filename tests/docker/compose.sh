#!/bin/bash
# The image and compose.yaml, for real: built, started, used, killed and stopped by a Docker daemon. No registry is
# asked: the base images are made from Debian's packages, and bear the names that Dockerfile and compose.yaml use.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/certificates.sh
. "$(dirname "$0")/../lib/certificates.sh"
# shellcheck source=tests/lib/docker.sh
. "$(dirname "$0")/../lib/docker.sh"

COUNT=5000
MOST_MB=40 # the image

packages_install jq curl || rig_die "jq and curl are installed"

# ---- the image ----

inspected() {
  docker image inspect onlyonce | jq -e ".[0] | $1"
}

# What is in it, one path a line.
contents() {
  local id
  id=$(docker create onlyonce) && docker export "$id" | tar -tv && docker rm "$id" >/dev/null
}

# Nobody can run another program in it: files that may be executed are the program, the loader and the C library. Empty
# ones are where Docker mounts its own.
has_no_shell() {
  ! awk '$1 ~ /^-.*x/ && $3 > 0 && $6 !~ /^(usr\/bin\/onlyonce|lib(64)?\/(.*\/)?(ld-linux.*|libc)\.so\.[0-9]+)$/' "$RIG_DIR/contents" | grep . &&
    ! docker run --rm --network none --entrypoint sh onlyonce -c true
}

has_no_setuid() {
  ! awk '$1 ~ /s/' "$RIG_DIR/contents" | grep .
}

# Each library's package has its licence there.
has_licences() {
  grep -q usr/share/doc/onlyonce/copyright "$RIG_DIR/contents" && grep -q usr/share/doc/libpq5/copyright "$RIG_DIR/contents"
}

test_image() {
  local size
  contents >"$RIG_DIR/contents"
  size=$(inspected '.Size / 1e6 | floor')
  echo "note the image has $size MB, in $(inspected '.RootFS.Layers | length') layers"
  rig_check "the image is small" test "$size" -le "$MOST_MB"
  rig_check "there is no shell, nor another program" has_no_shell
  rig_check "no file gives its user's rights away" has_no_setuid
  rig_check "there are the licences of what is inside" has_licences
  rig_check "the user is ordinary, and a number" inspected '.Config.User == "65532:65532"'
  rig_check "there is a health check" inspected '.Config.Healthcheck.Test == ["CMD", "/usr/bin/onlyonce", "health"]'
  docker run --rm --network none onlyonce --version >"$RIG_DIR/version"
  rig_check "the program runs" grep -q '^onlyonce [0-9]' "$RIG_DIR/version"
  rig_check "the labels tell what it is, and its version" inspected ".Config.Labels
    | (.\"org.opencontainers.image.title\" == \"onlyonce\") and .\"org.opencontainers.image.licenses\" == \"MIT\"
    and \"onlyonce \" + .\"org.opencontainers.image.version\" == \"$(<"$RIG_DIR/version")\""
}

# ---- compose ----

# healthy SERVICE SECONDS
healthy() {
  rig_wait_until "[ \"\$(state $1 .Health.Status)\" = healthy ]" "$2" && return 0
  docker inspect -f '{{json .State}}' "$(container "$1")"
  return 1
}

start() {
  rig_port
  export BROKER_PORT=$RIG_PORT
  rig_port
  export BROKER_PAGES_PORT=$RIG_PORT
  rig_port
  export ADMIN_PORT=$RIG_PORT
  rig_port
  export PROMETHEUS_PORT=$RIG_PORT
  RIG_AMQP_URL=amqp://relay:for-trying-out@127.0.0.1:$BROKER_PORT/%2f
  rig_check "compose starts broker, store and relay" compose up -d rabbitmq redis relay
  rig_check "the relay gets healthy" healthy relay 60
  rig_check "it is ready" rig_wait_until "curl -sf http://127.0.0.1:$ADMIN_PORT/readyz" 30
}

# load PREFIX : as a producer on the host.
load() {
  rig_load --exchange payments --count "$COUNT" --duplicates 30 --prefix "$1"
}

# arrived PREFIX : each id is in the work queue, once, unless it is marked. Empties it.
arrived() {
  rig_wait_depth payments.work "$COUNT" 60 && rig_wait_empty payments.in 20 &&
    rig_account --work payments.work --in payments.in --park payments.in.parked --count "$COUNT" --prefix "$1" --max-parked 0
}

# metric NAME : the sum of its samples.
metric() {
  curl -s "http://127.0.0.1:$ADMIN_PORT/metrics" | awk -v name="$1" 'index($0, name) == 1 { sum += $NF } END { print sum + 0 }'
}

test_messages() {
  rig_check "messages are published" load first-
  rig_check "each arrives once" arrived first-
  rig_check "the metrics tell how many were forwarded" test "$(metric 'onlyonce_outcomes_total{route="payments",outcome="forwarded"}')" = "$COUNT"
  rig_check "and how many were not" test "$(metric 'onlyonce_outcomes_total{route="payments",outcome="duplicate"}')" -gt 0
  rig_check "nobody changes keys without the token" test 401 = \
    "$(curl -s -o "$RIG_DIR/answer" -w '%{http_code}' -X DELETE "http://127.0.0.1:$ADMIN_PORT/v1/keys/payments/msg:first-1")"
  docker exec "$(container relay)" onlyonce status payments msg:first-1 >"$RIG_DIR/status"
  rig_check "a command inside tells of a key" jq -e '.state == "forwarded"' "$RIG_DIR/status"
}

# The process itself dies, as by a crash; Docker starts it again.
test_kill() {
  local loading before
  before=$(state relay .StartedAt)
  load killed- >"$RIG_DIR/load.log" 2>&1 &
  loading=$!
  rig_wait_depth payments.work 500 30
  kill -KILL "$(state relay .Pid)"
  rig_check "it is started again after a kill" rig_wait_until "[ \"\$(state relay .StartedAt)\" != $before ] && [ \"\$(state relay .Running)\" = true ]" 30
  rig_check "messages are published meanwhile" wait "$loading"
  rig_check "each arrives, and twice only if it is marked" arrived_in_doubt killed-
}

# As arrived; what was in flight at the kill may be there twice, and marked.
arrived_in_doubt() {
  rig_wait_depth payments.work "$COUNT" 60 && rig_wait_empty payments.in 30 && sleep 2 && rig_wait_empty payments.in 30 &&
    rig_account --work payments.work --in payments.in --park payments.in.parked --count "$COUNT" --prefix "$1" --max-parked 0 \
      --max-marked 1000 --max-unmarked 0
}

test_reload() {
  sed -i 's/window: 24h/window: 36h/' "$DOCKER_PROJECT/config/compose/onlyonce.yaml"
  compose kill -s HUP relay >"$RIG_DIR/hup.log" 2>&1
  rig_check "SIGHUP reads the edited configuration" rig_wait_until "docker logs $(container relay) 2>&1 | grep -q 'changed configuration is in force'" 15
  rig_check "and it relays on" rig_wait_until "curl -sf http://127.0.0.1:$ADMIN_PORT/readyz" 30
}

# stops_cleanly CONTAINER : within the 10 s that Docker gives, with exit code 0.
stops_cleanly() {
  local before=$SECONDS
  docker stop "$1" >/dev/null && [ $((SECONDS - before)) -lt 10 ] && [ "$(docker inspect -f '{{.State.ExitCode}}' "$1")" = 0 ]
}

test_stop() {
  rig_check "it stops cleanly" stops_cleanly "$(container relay)"
  compose start relay >"$RIG_DIR/start.log" 2>&1
  rig_check "and starts again" healthy relay 30
  compose stop rabbitmq >"$RIG_DIR/stop.log" 2>&1
  rig_check "with the broker away it is healthy, and not ready" rig_wait_until \
    "[ \"\$(state relay .Health.Status)\" = healthy ] && [ \"\$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:$ADMIN_PORT/readyz)\" = 503 ]" 30
  docker restart "$(container relay)" >"$RIG_DIR/restart.log"
  rig_check "it stops cleanly while it waits for the broker" stops_cleanly "$(container relay)"
  compose start rabbitmq relay >>"$RIG_DIR/start.log" 2>&1
  rig_check "and relays when both are back" rig_wait_until "curl -sf http://127.0.0.1:$ADMIN_PORT/readyz" 60
}

# ---- a store in SQLite, on a volume ----

sqlite_run() {
  docker run -d --name sqlite --network onlyonce_default --read-only --cap-drop ALL --security-opt no-new-privileges \
    -v "$RIG_DIR/sqlite:/etc/onlyonce:ro" -v keys:/var/lib/onlyonce onlyonce
}

test_sqlite() {
  mkdir -p "$RIG_DIR/sqlite"
  cat >"$RIG_DIR/sqlite/onlyonce.yaml" <<'END'
broker: {urls: ["amqp://relay:for-trying-out@rabbitmq:5672/%2f"]}
stores: [{name: file, url: "sqlite:/var/lib/onlyonce/keys.db"}]
routes:
  - {name: jobs, from: {queue: jobs.in}, to: {queue: jobs.work}, key: [message_id], window: 24h}
END
  sqlite_run >"$RIG_DIR/run.log"
  rig_wait_until "[ \"\$(rig_queue_consumers jobs.in)\" -ge 1 ]" 30
  rig_load --queue jobs.in --count 500 --prefix file- >"$RIG_DIR/load.log"
  rig_wait_depth jobs.work 500 30
  docker rm -f sqlite >"$RIG_DIR/rm.log"
  sqlite_run >"$RIG_DIR/run.log"
  rig_load --queue jobs.in --count 500 --prefix file- >"$RIG_DIR/load.log"
  rig_wait_empty jobs.in 30
  rig_check "with SQLite on a volume, another container knows the keys" rig_account --work jobs.work --in jobs.in \
    --count 500 --prefix file-
  rig_check "without admin.listen the health check says what to set" bash -c "! docker exec sqlite onlyonce health >'$RIG_DIR/health' 2>&1 &&
    grep -q 'no admin.listen.*set it to' '$RIG_DIR/health'"
  docker rm -f sqlite >"$RIG_DIR/rm.log"
}

# ---- TLS ----

# tls_check [AUTHORITIES] : whether the image reaches the Redis named secure.
tls_check() {
  docker run --rm --network onlyonce_default -v "$RIG_DIR/tls:/etc/onlyonce:ro" ${1:+-e "SSL_CERT_FILE=$1"} onlyonce check --connect
}

test_tls() {
  mkdir -p "$RIG_DIR/tls"
  cert_authority authority
  cert_make secure authority secure DNS:secure
  cp "$CERTIFICATES/authority.pem" "$RIG_DIR/tls"
  sed 's|sqlite:.*db"|rediss://secure:6379/0"|' "$RIG_DIR/sqlite/onlyonce.yaml" >"$RIG_DIR/tls/onlyonce.yaml"
  docker run -d --name secure --network onlyonce_default --user 0 -v "$CERTIFICATES:/certificates:ro" "$(docker_named redis)" \
    redis-server --protected-mode no --port 0 --tls-port 6379 --tls-cert-file /certificates/secure.pem --tls-key-file /certificates/secure.key \
    --tls-auth-clients no --tls-ca-cert-file /certificates/authority.pem >"$RIG_DIR/run.log"
  rig_wait_until "tls_check /etc/onlyonce/authority.pem" 10
  rig_check "it reaches a Redis by TLS" tls_check /etc/onlyonce/authority.pem
  tls_check "" >"$RIG_DIR/distrust" 2>&1
  rig_check "the image's authorities are the public ones" grep -q 'an authority that this system does not trust' "$RIG_DIR/distrust"
  docker rm -f secure >"$RIG_DIR/rm.log"
}

# ---- monitoring ----

prometheus_says() {
  curl -sf "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/$1" | jq -e "$2"
}

# Grafana itself is not in Debian; its files are held against what it documents.
yaml_says() {
  "$RIG_BUILD/tests/json_of_yaml" <"$DOCKER_PROJECT/$1" | jq -e "$2"
}

grafana_volumes() {
  compose config | "$RIG_BUILD/tests/json_of_yaml" | jq -r '.services.grafana.volumes[]
    | if type == "string" then split(":") | "\(.[0]) \(.[1])" else "\(.source) \(.target)" end' | grep "^/"
}

# Each of its files and folders exists where compose.yaml says.
grafana_files() {
  local from into
  while read -r from into; do
    test -e "$from" || { echo "$from, for $into, is missing"; return 1; }
    echo "$into"
  done < <(grafana_volumes) | sort | diff - <(printf '%s\n' /etc/grafana/provisioning /var/lib/onlyonce/onlyonce.json)
}

test_monitoring() {
  rig_check "the profile starts Prometheus" compose up -d --no-deps prometheus
  rig_check "Prometheus scrapes the relay" rig_wait_until "prometheus_says 'query?query=up{job=\"onlyonce\"}' '.data.result[0].value[1] == \"1\"'" 60
  rig_check "and has what it counted" rig_wait_until "prometheus_says 'query?query=onlyonce_deliveries_total' '.data.result | length > 0'" 30
  rig_check "and the alerts" prometheus_says rules '[.data.groups[].rules[].health] | length > 10 and all(. != "err")'
  rig_check "Grafana's files: the source" yaml_says config/grafana/provisioning/datasources/prometheus.yaml \
    '.apiVersion == 1 and .datasources[0].type == "prometheus" and .datasources[0].url == "http://prometheus:9090"'
  rig_check "Grafana's files: the dashboard's folder" yaml_says config/grafana/provisioning/dashboards/onlyonce.yaml \
    '.apiVersion == 1 and .providers[0].type == "file" and .providers[0].options.path == "/var/lib/onlyonce"'
  rig_check "Grafana's files: what compose.yaml mounts" grafana_files
  echo "note not run: Grafana, which is not among Debian's packages; only its files were checked"
}

versions() {
  docker run --rm --network none --entrypoint dpkg-query servers -W -f '${Package} ${Version}\n' rabbitmq-server redis-server prometheus
}

# ---- all together ----

chmod 711 "$RIG_DIR" # what containers read is in there
docker_start
docker_project
docker_base debian:trixie-slim trixie
docker_servers
versions | sed 's/^/note in the place of the public image: /'
rig_check "the image is built" compose build relay
test_image
start
test_messages
test_kill
test_reload
test_stop
test_sqlite
test_tls
test_monitoring
rig_check "compose takes it all down" compose down -v
