# shellcheck shell=bash
# sentinel - a master, its replicas and three Sentinels, private as all of a rig: source after rig.sh.
#
#   sentinel_start --appendonly yes
#   sentinel_kill "$(sentinel_master)"
#
# SENTINEL_URL, also in ONLYONCE_TEST_SENTINELS, is what a store's url is; the master's name is
# mymaster. The Sentinels let the user "relay", password "secret", ask what a relay needs, no more.

SENTINEL_REPLICAS=2 # to be set before sentinel_start
SENTINEL_NODES=()   # ports
SENTINEL_PORTS=()
SENTINEL_DOWN=1000  # ms of silence, after which a node is down

# sentinel_node_start PORT [SETTING...] : also one that was killed.
sentinel_node_start() {
  local port=$1
  shift
  mkdir -p "$RIG_DIR/node-$port"
  "$RIG_REDIS_SERVER" --port "$port" --bind 127.0.0.1 --dir "$RIG_DIR/node-$port" --save '' \
    --maxmemory-policy noeviction --repl-diskless-sync-delay 0 "$@" >>"$RIG_DIR/node-$port.log" 2>&1 &
  RIG_RELAYS["node $port"]=$! # to be stopped with the relays, whose names these are not
  rig_wait_until "redis-cli -p $port ping | grep -q PONG" 20 || rig_die "$RIG_REDIS_SERVER $port started"
}

sentinel_watch_start() {
  local port=$1 dir=$RIG_DIR/sentinel-$1
  mkdir -p "$dir"
  cat >"$dir/sentinel.conf" <<END
port $port
bind 127.0.0.1
dir $dir
user relay on >secret resetchannels -@all +sentinel|get-master-addr-by-name +sentinel|masters
sentinel monitor mymaster 127.0.0.1 ${SENTINEL_NODES[0]} 2
sentinel down-after-milliseconds mymaster $SENTINEL_DOWN
sentinel failover-timeout mymaster 3000
sentinel parallel-syncs mymaster $SENTINEL_REPLICAS
END
  "$RIG_REDIS_SERVER" "$dir/sentinel.conf" --sentinel >>"$RIG_DIR/sentinel-$port.log" 2>&1 &
  RIG_RELAYS["sentinel $port"]=$!
  rig_wait_until "redis-cli -p $port ping | grep -q PONG" 20 || rig_die "Sentinel $port started"
}

# Whether every Sentinel knows all replicas and both other Sentinels, and the master has its
# replicas.
sentinel_is_ready() {
  local port
  for port in "${SENTINEL_PORTS[@]}"; do
    redis-cli -p "$port" sentinel ckquorum mymaster | grep -q "^OK 3 " &&
      [ "$(redis-cli -p "$port" sentinel replicas mymaster | grep -c '^runid$')" = $SENTINEL_REPLICAS ] || return 1
  done
  [ "$(printf 'set ready 1\nwait %s 200\n' $SENTINEL_REPLICAS |
    redis-cli -p "$(sentinel_master)" | tail -n 1)" = $SENTINEL_REPLICAS ]
}

# sentinel_start [SETTING...] : of the nodes.
sentinel_start() {
  local i
  for ((i = 0; i <= SENTINEL_REPLICAS; i++)); do
    rig_port
    SENTINEL_NODES+=("$RIG_PORT")
    if [ "$i" = 0 ]; then
      sentinel_node_start "$RIG_PORT" "$@"
    else
      sentinel_node_start "$RIG_PORT" "$@" --replicaof 127.0.0.1 "${SENTINEL_NODES[0]}"
    fi
  done
  for i in 0 1 2; do
    rig_port
    SENTINEL_PORTS+=("$RIG_PORT")
    sentinel_watch_start "$RIG_PORT"
  done
  SENTINEL_URL=$(printf ',127.0.0.1:%s' "${SENTINEL_PORTS[@]}")
  SENTINEL_URL=redis+sentinel://${SENTINEL_URL#,}/mymaster/0
  export ONLYONCE_TEST_SENTINELS=$SENTINEL_URL
  rig_wait_until sentinel_is_ready 90 || rig_die "the Sentinels know each other and the replicas"
}

# sentinel_master : its port, as most of the Sentinels say.
sentinel_master() {
  local port
  for port in "${SENTINEL_PORTS[@]}"; do
    timeout 2 redis-cli -p "$port" sentinel get-master-addr-by-name mymaster 2>/dev/null | sed -n 2p
  done | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

# sentinel_signal PORT SIGNAL : to a node.
sentinel_signal() {
  kill "-$2" "${RIG_RELAYS["node $1"]}"
}

# sentinel_kill PORT : SIGKILL to a node.
sentinel_kill() {
  rig_relay_kill "node $1"
}

# sentinel_moves_from PORT [SECONDS] : waits for another master than this.
sentinel_moves_from() {
  rig_wait_until "[ \"\$(sentinel_master)\" != $1 ]" "${2:-60}"
}
