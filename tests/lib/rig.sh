# shellcheck shell=bash
# rig - private servers for a test: source this file, start what you need, and check.
#
#   . "$(dirname "$0")/../lib/rig.sh"
#   rig_redis_start; rig_rabbit_start
#   rig_relay_start one "$RIG_DIR/relay.yaml"
#   rig_check "all arrived" rig_account --work w --in i
#
# Everything lives in one folder, RIG_DIR, and listens on loopback ports of its own, so several
# rigs run side by side and beside the machine's own servers. It works as any user: no server is
# installed, started or stopped outside the folder. On exit all that was started is stopped, by its
# process id; after a failed check the logs' ends are printed, and the exit code is 1.
#
# Set before: ONLYONCE_BUILD, the folder with the built program (build/gcc of this checkout);
# RIG_KEEP_LOGS, a folder into which a failed rig's logs are copied; RIG_REDIS_SERVER, another program than
# redis-server.

# What the caller's environment says of servers is of others: they would be taken for ours.
unset "${!RABBITMQ_@}" "${!ERL_@}" "${!PG@}" REDISCLI_AUTH RIG_RABBIT_NAME RIG_REDIS_PORT RIG_POSTGRES_PORT

RIG_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$RIG_SOURCE/tests/lib/packages.sh"
RIG_BUILD=${ONLYONCE_BUILD:-$RIG_SOURCE/build/gcc}
RIG_DIR=$(mktemp -d "${TMPDIR:-/tmp}/onlyonce-rig.XXXXXX")
RIG_PORTS=${TMPDIR:-/tmp}/onlyonce-ports.$(id -u) # one empty folder for each port in use
RIG_RESERVED=()
RIG_TLS_PORT='' # the broker's, by rig_rabbit_tls
RIG_FAILED=0
RIG_OWNER=$BASHPID # the shell whose end stops everything
RIG_REDIS_SERVER=${RIG_REDIS_SERVER:-redis-server} # or valkey-server
RIG_RABBIT_LIB=/usr/lib/rabbitmq/bin # behind Debian's wrappers, which insist on a user
declare -A RIG_RELAYS=()
declare -A RIG_PIDS=()

# ---- checks ----

rig_ok() {
  echo "ok $1"
}

rig_fail() {
  echo "FAIL $1"
  RIG_FAILED=$((RIG_FAILED + 1))
}

# rig_check NAME COMMAND... : runs it, and prints ok or FAIL; its output only if it failed.
rig_check() {
  local name=$1
  shift
  if "$@" >"$RIG_DIR/check.out" 2>&1; then
    rig_ok "$name"
  else
    rig_fail "$name"
    sed 's/^/    /' "$RIG_DIR/check.out"
  fi
}

# rig_die REASON : the test cannot go on.
rig_die() {
  rig_fail "$1"
  exit 1
}

# rig_wait_until COMMAND SECONDS : evaluates it until it succeeds; 1 if it does not in so many seconds, which are whole
# ones: it may wait for one more, and never for less.
rig_wait_until() {
  local deadline=$((SECONDS + $2))
  until eval "$1" >/dev/null 2>&1; do
    [ "$SECONDS" -le "$deadline" ] || return 1
    sleep 0.1
  done
}

# ---- ports and processes ----

rig_port_answers() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# rig_port : sets RIG_PORT to a free port below the range that the kernel hands out.
rig_port() {
  while :; do
    mkdir -p "$RIG_PORTS" # each time: whoever ends takes it away if it is empty
    RIG_PORT=$((20000 + RANDOM % 12000))
    if mkdir "$RIG_PORTS/$RIG_PORT" 2>/dev/null; then
      RIG_RESERVED+=("$RIG_PORT")
      rig_port_answers "$RIG_PORT" || return 0
    fi
  done
}

# rig_stop_pid PID SECONDS : SIGTERM, and SIGKILL if that was not enough.
rig_stop_pid() {
  kill -TERM "$1" 2>/dev/null || return 0
  rig_wait_until "! kill -0 $1" "$2" || kill -KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
  return 0
}

# ---- Redis ----

# rig_redis_start [SETTING...] : for instance --appendonly yes. Exports ONLYONCE_TEST_REDIS, RIG_REDIS_URL.
rig_redis_start() {
  if [ -z "${RIG_REDIS_PORT:-}" ]; then
    rig_port
    RIG_REDIS_PORT=$RIG_PORT
    mkdir -p "$RIG_DIR/redis"
  fi
  "$RIG_REDIS_SERVER" --port "$RIG_REDIS_PORT" --bind 127.0.0.1 --dir "$RIG_DIR/redis" --save '' \
    --maxmemory-policy noeviction "$@" >>"$RIG_DIR/redis.log" 2>&1 &
  RIG_PIDS[redis]=$!
  export ONLYONCE_TEST_REDIS=127.0.0.1:$RIG_REDIS_PORT
  export RIG_REDIS_URL=redis://127.0.0.1:$RIG_REDIS_PORT/0
  rig_wait_until "rig_redis_cli ping | grep -q PONG" 20 || rig_die "$RIG_REDIS_SERVER did not start"
}

rig_redis_stop() {
  rig_stop_pid "${RIG_PIDS[redis]}" 10
  unset 'RIG_PIDS[redis]'
}

rig_redis_kill() {
  kill -KILL "${RIG_PIDS[redis]}"
  wait "${RIG_PIDS[redis]}" 2>/dev/null
  unset 'RIG_PIDS[redis]'
}

rig_redis_cli() {
  redis-cli -h 127.0.0.1 -p "$RIG_REDIS_PORT" "$@"
}

# ---- PostgreSQL ----

# PostgreSQL's programs refuse to work for root.
RIG_AS_POSTGRES=()
[ "$(id -u)" != 0 ] || RIG_AS_POSTGRES=(setpriv --reuid=postgres --regid=postgres --clear-groups)

rig_postgres_init() {
  rig_port
  RIG_POSTGRES_PORT=$RIG_PORT
  RIG_POSTGRES_BIN=$(pg_config --bindir)
  export RIG_POSTGRES_URL=postgresql://onlyonce@127.0.0.1:$RIG_POSTGRES_PORT/postgres
  export ONLYONCE_TEST_POSTGRES=$RIG_POSTGRES_URL
  mkdir "$RIG_DIR/postgres"
  if [ "$(id -u)" = 0 ]; then
    chmod 711 "$RIG_DIR"
    chown postgres: "$RIG_DIR/postgres"
  fi
  (cd / && "${RIG_AS_POSTGRES[@]}" "$RIG_POSTGRES_BIN/initdb" -D "$RIG_DIR/postgres" -U onlyonce -A trust \
    -E UTF8 --locale=C --no-sync) >>"$RIG_DIR/postgres.log" 2>&1 || rig_die "initdb"
}

# rig_postgres_start : also after rig_postgres_stop or _kill, with the same port and data. Exports
# ONLYONCE_TEST_POSTGRES, RIG_POSTGRES_URL.
rig_postgres_start() {
  [ -n "${RIG_POSTGRES_PORT:-}" ] || rig_postgres_init
  # exec, so that the process id is the server's.
  (cd / && exec "${RIG_AS_POSTGRES[@]}" "$RIG_POSTGRES_BIN/postgres" -D "$RIG_DIR/postgres" -p "$RIG_POSTGRES_PORT" \
    -h 127.0.0.1 -k "$RIG_DIR/postgres") >>"$RIG_DIR/postgres.log" 2>&1 </dev/null &
  RIG_PIDS[postgres]=$!
  rig_wait_until "rig_psql 'SELECT 1'" 30 || rig_die "the PostgreSQL server did not start"
}

# rig_postgres_stop : its connections end, too.
rig_postgres_stop() {
  kill -INT "${RIG_PIDS[postgres]}"
  rig_stop_pid "${RIG_PIDS[postgres]}" 20
  unset 'RIG_PIDS[postgres]'
}

# rig_postgres_signal SIGNAL : to the server and its children, as if their machine were.
rig_postgres_signal() {
  local pid=${RIG_PIDS[postgres]}
  # shellcheck disable=SC2046 # process ids are several words
  kill "-$1" "$pid" $(cat "/proc/$pid/task/$pid/children") 2>/dev/null
}

# rig_postgres_kill : the next server starts only once the children are gone.
rig_postgres_kill() {
  local pid=${RIG_PIDS[postgres]} children
  children=$(cat "/proc/$pid/task/$pid/children")
  rig_postgres_signal KILL
  wait "$pid" 2>/dev/null
  rig_wait_until "! kill -0 $children" 10
  unset 'RIG_PIDS[postgres]'
}

# rig_psql SQL : the rows, their columns parted by |.
rig_psql() {
  psql -XqAt -v ON_ERROR_STOP=1 -d "$RIG_POSTGRES_URL" -c "$1"
}

# ---- RabbitMQ ----

# rig_rabbit_node NAME AMQP-PORT DIST-PORT : from now on this node is meant: its files are in $RIG_DIR/NAME.
rig_rabbit_node() {
  local dir=$RIG_DIR/$1
  RIG_RABBIT_NAME=$1
  export RABBITMQ_NODE_PORT=$2 RABBITMQ_DIST_PORT=$3 RABBITMQ_NODENAME=onlyonce-$2@localhost
  export RABBITMQ_MNESIA_BASE=$dir/data RABBITMQ_LOG_BASE=$dir/log
  export RABBITMQ_PID_FILE=$dir/pid RABBITMQ_ENABLED_PLUGINS_FILE=$dir/plugins
  export RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf RABBITMQ_CONF_ENV_FILE=$dir/environment
  export RABBITMQ_ADVANCED_CONFIG_FILE=$dir/advanced.config
  export RIG_AMQP_URL=amqp://guest:guest@127.0.0.1:$2/%2f
  export ONLYONCE_TEST_AMQP=$RIG_AMQP_URL
}

# rig_rabbit_files : makes them, of the node that is meant.
rig_rabbit_files() {
  local dir=$RIG_DIR/$RIG_RABBIT_NAME
  mkdir -p "$RIG_DIR/rabbit/home" "$dir/data" "$dir/log"
  echo '[].' >"$dir/plugins"
  echo '[].' >"$dir/advanced.config"
  : >"$dir/environment"
  cat >"$dir/rabbitmq.conf" <<END
log.console = true
log.console.level = info
log.file = false
log.connection.level = warning
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = 67108864
END
}

# rig_rabbit_common : what all nodes have in common.
rig_rabbit_common() {
  rig_port
  export ERL_EPMD_PORT=$RIG_PORT ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
  export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
}

rig_rabbit_environment() {
  local dist
  rig_rabbit_common
  rig_port
  dist=$RIG_PORT
  rig_port
  rig_rabbit_node rabbit "$RIG_PORT" "$dist"
  rig_rabbit_files
}

rig_rabbit_answers() {
  local byte
  byte=$(exec 3<>"/dev/tcp/127.0.0.1/$RABBITMQ_NODE_PORT" &&
    printf 'AMQP\0\0\011\001' >&3 && timeout 2 head -c 1 <&3 | od -An -tu1) 2>/dev/null
  [ "${byte// /}" = 1 ]
}

# rig_rabbit_launch : sets RIG_PIDS[rabbit]; it does not answer yet.
rig_rabbit_launch() {
  if [ -z "${RIG_PIDS[epmd]:-}" ]; then
    epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 >>"$RIG_DIR/epmd.log" 2>&1 &
    RIG_PIDS[epmd]=$!
    rig_wait_until "rig_port_answers $ERL_EPMD_PORT" 10 || rig_die "epmd did not start"
  fi
  # RUNNING_UNDER_SYSTEMD makes the script become the server, so that its process id is ours. If it crashes, its dump
  # shall not be in the folder that the test was started from.
  (cd "$RIG_DIR/$RIG_RABBIT_NAME" && HOME=$RIG_DIR/rabbit/home RUNNING_UNDER_SYSTEMD=true NOTIFY_SOCKET='' \
    exec "$RIG_RABBIT_LIB/rabbitmq-server") >>"$RIG_DIR/$RIG_RABBIT_NAME.log" 2>&1 </dev/null &
  RIG_PIDS[rabbit]=$!
}

# rig_rabbit_start : also after rig_rabbit_stop, with the same ports and data.
rig_rabbit_start() {
  [ -n "${RIG_RABBIT_NAME:-}" ] || rig_rabbit_environment
  rig_rabbit_launch
  rig_wait_until "rig_rabbit_answers || ! kill -0 ${RIG_PIDS[rabbit]}" 90
  rig_rabbit_answers || rig_die "rabbitmq-server did not start"
  # RabbitMQ 4 opens the one port after the other.
  [ -z "$RIG_TLS_PORT" ] || rig_wait_until "rig_port_answers $RIG_TLS_PORT" 30 || rig_die "rabbitmq-server listens with TLS"
}

rig_rabbit_stop() {
  rig_stop_pid "${RIG_PIDS[rabbit]}" 30
  unset 'RIG_PIDS[rabbit]'
}

rig_rabbit_kill() {
  kill -KILL "${RIG_PIDS[rabbit]}"
  wait "${RIG_PIDS[rabbit]}" 2>/dev/null
  unset 'RIG_PIDS[rabbit]'
}

rig_rabbit_restart() {
  rig_rabbit_stop
  rig_rabbit_start
}

# Whatever it dies of, it leaves no dump in the folder that it is called from.
rig_rabbitctl() {
  HOME=$RIG_DIR/rabbit/home ERL_CRASH_DUMP_SECONDS=0 "$RIG_RABBIT_LIB/rabbitmqctl" "$@" </dev/null
}

# rig_rabbit_major : 3 for RabbitMQ 3.10.8.
rig_rabbit_major() {
  rig_rabbitctl -q version | sed "s/\..*//"
}

# rig_queue_depth QUEUE : the messages that are ready; quick.
rig_queue_depth() {
  "$RIG_BUILD/tests/depth" --amqp "$RIG_AMQP_URL" "$1"
}

rig_queue_consumers() {
  "$RIG_BUILD/tests/depth" --amqp "$RIG_AMQP_URL" --consumers "$1"
}

# rig_wait_depth QUEUE COUNT SECONDS : until so many messages, or more, are ready in it.
rig_wait_depth() {
  rig_wait_until "[ \"\$(rig_queue_depth $1)\" -ge $2 ]" "$3"
}

# rig_wait_empty QUEUE SECONDS
rig_wait_empty() {
  rig_wait_until "[ \"\$(rig_queue_depth $1)\" = 0 ]" "$2"
}

# rig_queue_total QUEUE : ready and unacknowledged ones; takes some seconds, and lags by up to five.
rig_queue_total() {
  rig_rabbitctl -q list_queues --no-table-headers name messages | awk -v q="$1" '$1 == q { print $2 }'
}

# ---- load, account and the relay ----

rig_load() {
  "$RIG_BUILD/tests/load" --amqp "$RIG_AMQP_URL" "$@"
}

rig_account() {
  "$RIG_BUILD/tests/account" --amqp "$RIG_AMQP_URL" "$@"
}

# rig_post OPTION... : one message; rig_take QUEUE OPTION... : messages as JSON, one a line.
rig_post() {
  "$RIG_BUILD/tests/post" --amqp "$RIG_AMQP_URL" "$@"
}

rig_take() {
  "$RIG_BUILD/tests/take" --amqp "$RIG_AMQP_URL" "$@"
}

# rig_queues VERB NAME... : declares, binds, empties and deletes.
rig_queues() {
  "$RIG_BUILD/tests/queues" --amqp "$RIG_AMQP_URL" "$@"
}

# rig_takes QUEUE COUNT FILTER : takes COUNT messages; the jq filter, given them as one array, has
# to be true. Put a fence behind messages that must not arrive: a last one, that does.
rig_takes() {
  if rig_take "$1" --count "$2" --wait 60000 >"$RIG_DIR/taken.json" && jq -es "$3" "$RIG_DIR/taken.json"; then
    return 0
  fi
  echo "$1 had, for $3:"
  cat "$RIG_DIR/taken.json"
  return 1
}

# rig_config_head : broker and store of a configuration. RIG_STORE_NAME, RIG_STORE_URL: the store, unless it is Redis;
# RIG_SESSION: the session's life. Fields of the store may follow.
rig_config_head() {
  cat <<END
broker:
  urls: ["$RIG_AMQP_URL"]
stores:
  - name: ${RIG_STORE_NAME:-redis}
    url: ${RIG_STORE_URL:-$RIG_REDIS_URL}
    session: ${RIG_SESSION:-6s}
END
}

# rig_onlyonce COMMAND... : the program.
rig_onlyonce() {
  "$RIG_BUILD/onlyonce" "$@"
}

# rig_relay_start NAME CONFIG : its log is $RIG_DIR/NAME.log; TEST_PREFIX may hold valgrind and the like.
rig_relay_start() {
  # shellcheck disable=SC2086 # a prefix is several words
  ${TEST_PREFIX:-} "$RIG_BUILD/onlyonce" run -c "$2" >>"$RIG_DIR/$1.log" 2>&1 </dev/null &
  RIG_RELAYS[$1]=$!
}

# rig_relay_ready NAME QUEUE : waits until the relay consumes from the queue.
rig_relay_ready() {
  rig_wait_until "[ \"\$(rig_queue_consumers $2)\" -ge 1 ] || ! rig_relay_is_running $1" 60
  rig_relay_is_running "$1" || rig_die "relay $1 runs"
  rig_wait_until "[ \"\$(rig_queue_consumers $2)\" -ge 1 ]" 5 || rig_die "relay $1 consumes from $2"
}

# rig_exits CODE COMMAND... : whether it exits with that code; its stdout and stderr are in
# $RIG_DIR/out and $RIG_DIR/err, and shown if not.
rig_exits() {
  local want=$1 code=0
  shift
  "$@" >"$RIG_DIR/out" 2>"$RIG_DIR/err" || code=$?
  [ "$code" = "$want" ] && return 0
  echo "exit code $code, not $want: $*"
  cat "$RIG_DIR/out" "$RIG_DIR/err"
  return 1
}

rig_relay_is_running() {
  kill -0 "${RIG_RELAYS[$1]}" 2>/dev/null
}

rig_relay_signal() {
  kill "-$2" "${RIG_RELAYS[$1]}"
}

# rig_thread NAME THREAD : the id of the relay's thread of that name.
rig_thread() {
  local comm
  for comm in /proc/"${RIG_RELAYS[$1]}"/task/*/comm; do
    [ "$(cat "$comm")" != "$2" ] || basename "${comm%/comm}"
  done
}

# rig_relay_kill NAME : SIGKILL, in the middle of whatever it does.
rig_relay_kill() {
  kill -KILL "${RIG_RELAYS[$1]}"
  wait "${RIG_RELAYS[$1]}" 2>/dev/null
  unset "RIG_RELAYS[$1]"
}

# rig_relay_stop NAME [SECONDS] : SIGTERM; 1 unless it exits with 0 within 12 seconds.
rig_relay_stop() {
  local pid=${RIG_RELAYS[$1]} code=0
  unset "RIG_RELAYS[$1]"
  kill -TERM "$pid" || return 1
  if ! rig_wait_until "! kill -0 $pid" "${2:-12}"; then
    echo "$1 did not stop within ${2:-12} s" >&2
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    return 1
  fi
  wait "$pid" || code=$?
  [ "$code" = 0 ] || echo "$1 exited with $code" >&2
  [ "$code" = 0 ]
}

# ---- the end ----

rig_show_logs() {
  local log
  for log in "$RIG_DIR"/*.log; do
    [ -s "$log" ] || continue
    echo "---- the end of ${log##*/}"
    tail -n 25 "$log"
  done
  if [ -n "${RIG_KEEP_LOGS:-}" ]; then
    mkdir -p "$RIG_KEEP_LOGS" && cp "$RIG_DIR"/*.log "$RIG_KEEP_LOGS" 2>/dev/null
  fi
}

rig_end() {
  local code=$? name port
  # A child that was stopped before it became another program is not the end.
  [ "$BASHPID" = "$RIG_OWNER" ] || exit "$code"
  trap '' INT TERM
  for name in "${!RIG_RELAYS[@]}"; do
    rig_stop_pid "${RIG_RELAYS[$name]}" 12
  done
  # Sanitizers and assertions speak in the log, whatever the checks said.
  if grep -lE 'AddressSanitizer|LeakSanitizer|runtime error:|Assertion .* failed' \
    "$RIG_DIR"/*.log 2>/dev/null; then
    rig_fail "no sanitizer or assertion spoke"
  fi
  for name in rabbit redis postgres epmd; do
    [ -z "${RIG_PIDS[$name]:-}" ] || rig_stop_pid "${RIG_PIDS[$name]}" 20
  done
  [ "$RIG_FAILED" = 0 ] || code=1
  [ "$code" = 0 ] || rig_show_logs
  for port in "${RIG_RESERVED[@]}"; do
    rmdir "$RIG_PORTS/$port" 2>/dev/null
  done
  rmdir "$RIG_PORTS" 2>/dev/null
  rm -rf "$RIG_DIR"
  exit "$code"
}

# rig_keep : what runs shall go on running; RIG_DIR/pids says what, in the order of stopping.
rig_keep() {
  local name port
  for name in "${!RIG_RELAYS[@]}"; do
    echo "${RIG_RELAYS[$name]}"
  done >"$RIG_DIR/pids"
  for name in rabbit redis postgres epmd; do
    [ -z "${RIG_PIDS[$name]:-}" ] || echo "${RIG_PIDS[$name]}"
  done >>"$RIG_DIR/pids"
  for port in "${RIG_RESERVED[@]}"; do
    rmdir "$RIG_PORTS/$port" 2>/dev/null
  done
  trap - EXIT INT TERM
}

# rig_rabbit_tls AUTHORITY CERTIFICATE KEY : before rig_rabbit_start: it listens with TLS, too, at
# RIG_TLS_PORT. Certificates of clients are asked for, and log in by their common name (EXTERNAL).
rig_rabbit_tls() {
  [ -n "${RIG_RABBIT_NAME:-}" ] || rig_rabbit_environment
  rig_port
  RIG_TLS_PORT=$RIG_PORT
  echo '[rabbitmq_auth_mechanism_ssl].' >"$RIG_DIR/rabbit/plugins"
  cat >>"$RIG_DIR/rabbit/rabbitmq.conf" <<END
listeners.ssl.default = 127.0.0.1:$RIG_TLS_PORT
ssl_options.cacertfile = $1
ssl_options.certfile = $2
ssl_options.keyfile = $3
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name
END
}

trap rig_end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

packages_for_servers || rig_die "the servers are installed"
