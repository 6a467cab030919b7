# shellcheck shell=bash
# cluster - three RabbitMQ nodes, private as all of a rig, and messages that flow through two relays: source after rig.sh.
#
#   cluster_start "cluster_partition_handling = pause_minority"
#   cluster_relay one "$(cluster_urls 1 2 3)"
#   cluster_flow_start killed 2; cluster_kill 1; cluster_up 1; cluster_flow_end 2
#
# Nodes are 1, 2 and 3. They have an epmd, names, ports and data of their own. A node counts as dead after
# some 6 s of silence.

CLUSTER_TICK=5 # net_ticktime, s
CLUSTER_IN=jobs.in
CLUSTER_WORK=jobs.work
CLUSTER_RATE=170 # messages a second, for each of the three producers
declare -A CLUSTER_PORT=()
declare -A CLUSTER_DIST=()
declare -A CLUSTER_PID=() # of the nodes that run
declare -A CLUSTER_TOOL=() # producers, the collector, the watch

# ---- nodes ----

cluster_name() {
  echo "onlyonce-${CLUSTER_PORT[$1]}@localhost"
}

# cluster_use NODE : the rig's tools and rabbitmqctl go to that one.
cluster_use() {
  rig_rabbit_node "node$1" "${CLUSTER_PORT[$1]}" "${CLUSTER_DIST[$1]}"
}

# cluster_files NODE [LINE...] : of rabbitmq.conf.
cluster_files() {
  local n line
  cluster_use "$1"
  shift
  rig_rabbit_files
  echo "[{rabbit, [{quorum_tick_interval, 500}]}, {kernel, [{net_ticktime, $CLUSTER_TICK}]}]." >"$RABBITMQ_ADVANCED_CONFIG_FILE"
  {
    echo "cluster_formation.peer_discovery_backend = classic_config"
    for n in 1 2 3; do
      echo "cluster_formation.classic_config.nodes.$n = $(cluster_name "$n")"
    done
    for line; do
      echo "$line"
    done
  } >>"$RABBITMQ_CONFIG_FILE"
}

# cluster_launch NODE : does not wait for it.
cluster_launch() {
  cluster_use "$1"
  rig_rabbit_launch
  CLUSTER_PID[$1]=${RIG_PIDS[rabbit]}
  unset 'RIG_PIDS[rabbit]'
}

cluster_answers() (
  cluster_use "$1"
  rig_rabbit_answers
)

# cluster_wait NODE : until it serves clients.
cluster_wait() {
  rig_wait_until "cluster_answers $1 || ! kill -0 ${CLUSTER_PID[$1]}" 120
  cluster_answers "$1" || rig_die "node $1 did not start"
}

# cluster_up NODE : starts one that is down.
cluster_up() {
  cluster_launch "$1"
  cluster_wait "$1"
}

# cluster_kill NODE
cluster_kill() {
  kill -KILL "${CLUSTER_PID[$1]}"
  wait "${CLUSTER_PID[$1]}" 2>/dev/null
  unset "CLUSTER_PID[$1]"
}

# cluster_down NODE : in order.
cluster_down() {
  rig_stop_pid "${CLUSTER_PID[$1]}" 60
  unset "CLUSTER_PID[$1]"
}

# cluster_signal NODE SIGNAL
cluster_signal() {
  kill "-$2" "${CLUSTER_PID[$1]}"
}

# cluster_start [LINE...] : three nodes, with these lines of rabbitmq.conf.
cluster_start() {
  local n
  rig_rabbit_common
  # Idle schedulers do not spin: there are more nodes than cores.
  RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS+=" +sbwt none +sbwtdcpu none +sbwtdio none"
  for n in 1 2 3; do
    rig_port
    CLUSTER_PORT[$n]=$RIG_PORT
    rig_port
    CLUSTER_DIST[$n]=$RIG_PORT
  done
  for n in 1 2 3; do
    cluster_files "$n" "$@"
    cluster_launch "$n"
  done
  for n in 1 2 3; do
    cluster_wait "$n"
  done
  rig_wait_until "cluster_has_running 3" 60 || rig_die "the three nodes are one cluster"
}

# cluster_ask NODE ERLANG : its value there, without the seconds that rabbitmqctl takes to start.
cluster_ask() {
  local answer
  answer=$(timeout 10 erl_call -c "$(cat "$RIG_DIR/rabbit/home/.erlang.cookie")" -n "$(cluster_name "$1")" -e \
    <<<"$2" 2>>"$RIG_DIR/ask.log") && [[ $answer == "{ok, "* ]] || return 1
  answer=${answer#"{ok, "}
  echo "${answer%\}}"
}

cluster_has_running() {
  [ "$(cluster_ask "${2:-1}" 'rabbit_nodes:running_count().')" = "$1" ]
}

# cluster_others NODE : the names of the others, as a list of Erlang's.
cluster_others() {
  local n list=
  for n in 1 2 3; do
    [ "$n" = "$1" ] || list+=", '$(cluster_name "$n")'"
  done
  echo "[${list#, }]"
}

# cluster_part NODE : it and the others cannot speak to each other any more, since it does not know their secret.
cluster_part() {
  cluster_ask "$1" "[begin erlang:set_cookie(N, wrong), erlang:disconnect_node(N) end || N <- $(cluster_others "$1")]." \
    >/dev/null || rig_die "node $1 is parted"
}

# cluster_mend NODE : now they can.
cluster_mend() {
  cluster_ask "$1" "[erlang:set_cookie(N, erlang:get_cookie()) || N <- $(cluster_others "$1")]." >/dev/null ||
    rig_die "node $1 may speak to the others"
}

# cluster_lookup QUEUE : the beginning of an expression, in which Q is the queue.
cluster_lookup() {
  echo "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"$1\">>)),"
}

# cluster_leader QUEUE NODE : the number of its leader's node, as this one says; 1 if it has none.
cluster_leader() {
  local leader n
  leader=$(cluster_ask "$2" "$(cluster_lookup "$1") {Name, _} = amqqueue:get_pid(Q),
    {ok, _, {_, Node}} = ra:members({Name, node()}, 3000), Node.") || return 1
  for n in 1 2 3; do
    if [ "$leader" = "'$(cluster_name "$n")'" ]; then
      echo "$n"
      return
    fi
  done
  return 1
}

cluster_try_to_lead() {
  cluster_ask "$2" "$(cluster_lookup "$1") rabbit_quorum_queue:transfer_leadership(Q, node())." >/dev/null
  sleep 0.5
  [ "$(cluster_leader "$1" "$2")" = "$2" ]
}

# cluster_lead QUEUE NODE : gives it the leadership. While messages flow: after a restart a member catches up only with
# the next one, and one that is behind makes the leader of 3.10 wait for half a minute.
cluster_lead() {
  rig_wait_until "cluster_try_to_lead $1 $2" 60
}

# cluster_leads NODE : gives it the leadership of the inbound and of the work queue.
cluster_leads() {
  local queue
  for queue in "$CLUSTER_IN" "$CLUSTER_WORK"; do
    cluster_lead "$queue" "$1" || rig_die "node $1 leads $queue"
  done
}

# cluster_url NODE
cluster_url() {
  echo "amqp://guest:guest@127.0.0.1:${CLUSTER_PORT[$1]}/%2f"
}

# cluster_urls NODE... : as a list for broker.urls.
cluster_urls() {
  local n list=
  for n; do
    list+=", \"$(cluster_url "$n")\""
  done
  echo "[${list#, }]"
}

# ---- messages ----

# cluster_relay NAME URLS [LINE...] : the configuration, with these lines of its route.
cluster_relay() {
  local line name=$1
  {
    cat <<END
broker:
  urls: $2
  heartbeat: 4s
stores:
  - name: redis
    url: $RIG_REDIS_URL
    session: 6s
routes:
  - name: jobs
    from: {queue: $CLUSTER_IN}
    to: {queue: $CLUSTER_WORK}
    key: [message_id]
    window: 24h
    hold_limit: 60s
END
    for line in "${@:3}"; do
      echo "    $line"
    done
  } >"$RIG_DIR/$name.yaml"
  rig_relay_start "$name" "$RIG_DIR/$name.yaml"
}

# cluster_tool NAME COMMAND... : in the background.
cluster_tool() {
  local name=$1
  shift
  "$@" >>"$RIG_DIR/$name.log" 2>&1 </dev/null &
  CLUSTER_TOOL[$name]=$!
}

# cluster_tool_stop NAME SECONDS : SIGTERM; its exit code has to be 0.
cluster_tool_stop() {
  local code=0 pid=${CLUSTER_TOOL[$1]}
  unset "CLUSTER_TOOL[$1]"
  kill -TERM "$pid"
  rig_wait_until "! kill -0 $pid" "$2" || {
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    echo "$1 did not end within $2 s"
    return 1
  }
  wait "$pid" || code=$?
  [ "$code" = 0 ] || echo "$1: exit code $code"
  return "$code"
}

# The workers, on one connection, to a node that stays up meanwhile.
cluster_collect() {
  cluster_tool collector "$RIG_BUILD/tests/collect" --amqp "$(cluster_url "$1")" --out "$RIG_DIR/collected.txt" \
    "$CLUSTER_WORK" "$CLUSTER_IN.parked"
}

# Writes down ten times a second how much was collected.
cluster_watch() {
  local size
  while :; do
    size=$(stat -c %s "$RIG_DIR/collected.txt" 2>/dev/null)
    echo "${EPOCHREALTIME/[.,]/} ${size:-0}"
    sleep 0.1
  done
}

# cluster_flow_start NAME NODE : three producers, one to each node, and workers, at NODE. Ids begin with NAME.
cluster_flow_start() {
  local n
  : >"$RIG_DIR/collected.txt"
  cluster_collect "$2"
  for n in 1 2 3; do
    : >"$RIG_DIR/journal$n.txt"
    cluster_tool "producer$n" "$RIG_BUILD/tests/produce" --amqp "$(cluster_url "$n")" --queue "$CLUSTER_IN" \
      --prefix "$1-$n-" --rate "$CLUSTER_RATE" --seed "$n" --journal "$RIG_DIR/journal$n.txt"
  done
  cluster_watch >"$RIG_DIR/watch.txt" &
  CLUSTER_TOOL[watch]=$!
}

# cluster_stood : the longest time in which no copy arrived, in ms.
cluster_stood() {
  awk 'NR > 1 && $2 == size { next } { if (NR > 1 && size > 0 && $1 - at > most) most = $1 - at; at = $1; size = $2 }
    END { printf "%d\n", most / 1000 }' "$RIG_DIR/watch.txt"
}

# cluster_at NAME : the number of the node that the relay consumes from, or did last.
cluster_at() {
  local n port
  port=$(sed -n 's/.*msg=connected .*link=source .* at 127.0.0.1:\([0-9]*\)".*/\1/p' "$RIG_DIR/$1.log" | tail -n 1)
  for n in 1 2 3; do
    [ "${CLUSTER_PORT[$n]}" != "$port" ] || echo "$n"
  done
}

cluster_is_at() {
  [ "$(cluster_at "$1")" = "$2" ]
}

# cluster_moves NAME NODE SECONDS : until the relay consumes from another node than that.
cluster_moves() {
  rig_wait_until "! cluster_is_at $1 $2" "$3"
}

# cluster_to NAME NODE URLS : starts the relay anew, so that it is connected to that node.
cluster_to() {
  ! cluster_is_at "$1" "$2" || return 0
  rig_relay_stop "$1"
  cluster_relay "$1" "$3"
  rig_wait_until "cluster_is_at $1 $2" 40 || rig_die "relay $1 is connected to node $2"
}

# cluster_is_drained NODE : nothing is ready or unacknowledged. Of quorum queues their leaders are asked: what
# rabbitmqctl shows lags, and is 0 where the leader is not.
cluster_is_drained() {
  [ "$(cluster_ask "$1" 'lists:sum([case amqqueue:get_type(Q) of
      rabbit_quorum_queue ->
        {Name, _} = amqqueue:get_pid(Q),
        {ok, {_, N}, _} = ra:leader_query({Name, node()}, fun rabbit_fifo:query_messages_total/1), N;
      _ ->
        [{_, N}] = rabbit_amqqueue:info(Q, [messages]), N
    end || Q <- rabbit_amqqueue:list()]).')" = 0 ]
}

cluster_none_pending() {
  rig_onlyonce list -c "$RIG_DIR/one.yaml" jobs --state pending >"$RIG_DIR/pending" && [ ! -s "$RIG_DIR/pending" ]
}

# Quorum queues deliver a copy again if its acknowledgement was lost with a leader.
cluster_account() {
  local fault
  awk -v again=1 -f "$RIG_SOURCE/tests/lib/chaos.awk" "$RIG_DIR"/journal?.txt "$RIG_DIR/collected.txt" >"$RIG_DIR/account.out"
  cat "$RIG_DIR/account.out"
  for fault in missing unmarked strange wrongly_marked unreadable parked; do
    grep -q " $fault=0\b" "$RIG_DIR/account.out" || return 1
  done
  ! grep -q " forwarded=.\{0,3\} " "$RIG_DIR/account.out" # a flow that did not flow shows nothing
}

# cluster_flow_end NAME NODE [SECONDS] : all arrives within these, and each that was confirmed once, or marked.
cluster_flow_end() {
  local n
  for n in 1 2 3; do
    rig_check "$1: the producer at node $n got its confirms" cluster_tool_stop "producer$n" 60
  done
  rig_check "$1: all queues are empty" rig_wait_until "cluster_is_drained $2" "${3:-60}"
  rig_check "$1: the workers end" cluster_tool_stop collector 20
  kill "${CLUSTER_TOOL[watch]}"
  unset 'CLUSTER_TOOL[watch]'
  rig_check "$1: no key is pending" rig_wait_until cluster_none_pending 30
  rig_check "$1: nothing is missing, nothing came twice unmarked" cluster_account
  echo "note $1: $(tail -n 1 "$RIG_DIR/account.out"); no copy arrived for at most $(cluster_stood) ms; $SECONDS s"
}

# ---- the end ----

# Like rig_end, which it ends with: the tools and nodes first, by their process ids, and none of them in order, which
# takes a cluster long.
cluster_end() {
  local code=$? pid
  [ "$BASHPID" = "$RIG_OWNER" ] || exit "$code"
  trap '' INT TERM
  for pid in "${CLUSTER_TOOL[@]}" "${CLUSTER_PID[@]}"; do
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  (exit "$code")
  rig_end
}

trap cluster_end EXIT
