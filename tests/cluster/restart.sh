#!/bin/bash
# A cluster that pauses what is parted from the majority: a node is parted and comes back by itself; a rolling restart,
# as docs/operating.md says how; the node of a classic work queue is killed.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"

# upgrade NODE COMMAND : as people do it.
upgrade() (
  cluster_use "$1"
  HOME=$RIG_DIR/rabbit/home "$RIG_RABBIT_LIB/rabbitmq-upgrade" -q "$2" --timeout 60
)

# restart NODE : as people do it.
restart() {
  rig_check "rolling: node $1 can be spared" upgrade "$1" await_online_quorum_plus_one
  rig_check "rolling: node $1 is drained" upgrade "$1" drain
  cluster_down "$1"
  cluster_up "$1"
}

rig_redis_start --appendonly yes
cluster_start "cluster_partition_handling = pause_minority"
cluster_relay one "$(cluster_urls 1 2 3)"
cluster_relay two "$(cluster_urls 2 3 1)"
rig_wait_until "cluster_is_at one 1 && cluster_is_at two 2" 20 || rig_die "the relays are connected"

# ---- a queue on one node ----

# members QUEUE
members() {
  cluster_ask 1 "$(cluster_lookup "$1") length(maps:get(nodes, amqqueue:get_type_state(Q)))."
}

# grow QUEUE : it has one member, and then two.
grow() (
  cluster_use 1
  rig_queues declare "$1" x-queue-type=quorum x-quorum-initial-group-size=1 && [ "$(members "$1")" = 1 ] &&
    HOME=$RIG_DIR/rabbit/home "$RIG_RABBIT_LIB/rabbitmq-queues" -q grow "$(cluster_name 2)" all &&
    [ "$(members "$1")" = 2 ] && rig_queues delete "$1"
)

rig_check "a queue on one node is taken to another" grow small

# ---- a node is parted ----

cluster_flow_start parted 3
sleep 1
cluster_leads 1
sleep 2
cluster_part 1
rig_check "parted: relay one goes to another node" cluster_moves one 1 30
rig_check "parted: what is parted from the majority serves nobody" rig_wait_until "! cluster_answers 1" 20
sleep 3
cluster_mend 1
rig_check "parted: it is one of them again, by itself" rig_wait_until "cluster_has_running 3 1" 60
cluster_wait 1
sleep 2
cluster_flow_end parted 3

# ---- one after another ----

cluster_flow_start rolling 1
sleep 2
restart 3
restart 2
# The workers leave node 1 before it goes.
rig_check "rolling: the workers change over" cluster_tool_stop collector 20
cluster_collect 2
restart 1
sleep 2
cluster_flow_end rolling 2

# ---- a classic work queue, whose node dies ----

# Its messages are on one node only. What that had not confirmed RabbitMQ refuses, though some of it is on the disk.
CLUSTER_IN=classic.in
CLUSTER_WORK=classic.work
cluster_use 1
rig_queues declare $CLUSTER_WORK x-queue-type=classic || rig_die "node 1 has the classic queue"
for relay in one two; do
  rig_relay_stop $relay
done
cluster_relay one "$(cluster_urls 2 3)"
cluster_relay two "$(cluster_urls 3 2)"
rig_wait_until "cluster_is_at one 2 && cluster_is_at two 3" 20 || rig_die "the relays are connected"
cluster_flow_start classic 2
sleep 3
cluster_kill 1
sleep 1
# Their consumers of its queue were cancelled.
rig_check "classic: the workers change over" cluster_tool_stop collector 20
cluster_up 1
cluster_collect 2
cluster_flow_end classic 2 60 # while it is not there, copies are returned, and tried again after half a minute at most
for relay in one two; do
  rig_check "relay $relay ends in order" rig_relay_stop $relay
done
