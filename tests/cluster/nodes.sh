#!/bin/bash
# Three RabbitMQ nodes with quorum queues, two relays with the URLs of all: nodes are killed and stand still, the
# quorum is lost, a relay dies with the leader. RabbitMQ does about partitions what it does unless told otherwise.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"

# moved NAME : how long the relay's links took, as it says.
moved() {
  echo "note $1: $(grep 'msg=connected.* after=' "$RIG_DIR/$1.log" | tail -n 2 |
    sed 's/.* link=\([a-z]*\).* at \(.*\)" after=\(.*\)/\1 to \2 after \3/' | paste -sd ' ')"
}

# leads_elsewhere NODE ASKED : both queues have leaders, which are others, as the one that is asked says.
leads_elsewhere() {
  local queue leader
  for queue in "$CLUSTER_WORK" "$CLUSTER_IN"; do
    leader=$(cluster_leader "$queue" "$2") && [ "$leader" != "$1" ] || return 1
  done
}

# shows_parts NODE : what people see of a partition there.
shows_parts() (
  cluster_use "$1"
  rig_rabbitctl -q cluster_status --formatter json | jq -e '.partitions | length > 0'
)

rig_redis_start --appendonly yes
cluster_start "cluster_partition_handling = ignore"
URLS=$(cluster_urls 1 2 3)

# ---- a first URL that nobody serves ----

rig_port
cluster_relay one "[\"amqp://guest:guest@127.0.0.1:$RIG_PORT/%2f\", ${URLS#[}"
cluster_relay two "$(cluster_urls 1 3 2)"
rig_check "a first URL that nobody serves is passed over" rig_wait_until "cluster_is_at one 1" 40
rig_wait_until "cluster_is_at two 1" 40 || rig_die "relay two is connected"
rig_check "the queues have members on all three nodes" [ "$(cluster_ask 1 "lists:min([length(maps:get(nodes,
  amqqueue:get_type_state(Q))) || Q <- rabbit_amqqueue:list()]).")" = 3 ]

# ---- the leader of both queues, which both relays are connected to, is killed ----

cluster_flow_start killed 2
sleep 1
cluster_leads 1
sleep 2
cluster_kill 1
rig_check "killed: relay one goes to another node" cluster_moves one 1 20
rig_check "killed: relay two goes to another node" cluster_moves two 1 20
moved one
moved two
sleep 2
cluster_up 1
sleep 2
cluster_flow_end killed 2

# ---- a relay is killed in the same moment as the leader ----

cluster_flow_start both 2
sleep 1
cluster_leads 3
sleep 2
rig_relay_kill two
cluster_kill 3
sleep 1
cluster_relay two "$(cluster_urls 3 1 2)"
rig_check "both: the relay that comes back passes the dead node over" cluster_moves two 3 20
sleep 2
cluster_up 3
sleep 2
cluster_flow_end both 2

# ---- the node that the relays are connected to stands still ----

cluster_to one 1 "$URLS"
cluster_to two 1 "$(cluster_urls 1 3 2)"
cluster_flow_start paused 2
sleep 1
cluster_leads 1
sleep 2
cluster_signal 1 STOP
cluster_relay three "$URLS"
rig_check "paused: relay one goes to another node" cluster_moves one 1 20
rig_check "paused: relay two goes to another node" cluster_moves two 1 20
moved one
moved two
rig_check "paused: a relay that starts now passes it over" rig_wait_until "cluster_is_at three 2 || cluster_is_at three 3" 40
rig_check "paused: others lead" rig_wait_until "leads_elsewhere 1 2" 30
sleep 1
cluster_signal 1 CONT
rig_check "paused: it is parted from the others" rig_wait_until "shows_parts 2" 30
rig_relay_stop three
cluster_down 1
cluster_up 1
rig_check "paused: restarted, it is one of them again" rig_wait_until "cluster_has_running 3 1" 60
cluster_flow_end paused 2

# ---- the leader stands still, and the relays are connected to others ----

cluster_to one 2 "$(cluster_urls 2 3 1)"
cluster_to two 3 "$(cluster_urls 3 2 1)"
cluster_flow_start leader 2
sleep 1
cluster_leads 1
sleep 2
cluster_signal 1 STOP
rig_check "leader: others lead" rig_wait_until "leads_elsewhere 1 2" 30
sleep 1
cluster_signal 1 CONT
sleep 3
rig_check "leader: relay one stayed where it was" [ "$(cluster_at one)" = 2 ]
cluster_down 1
cluster_up 1
cluster_flow_end leader 2

# ---- two of three nodes are gone ----

cluster_flow_start quorum 2
sleep 1
cluster_leads 1
sleep 2
cluster_kill 1
cluster_kill 3
sleep 3
collected=$(wc -l <"$RIG_DIR/collected.txt")
sleep 9
rig_check "quorum: nothing is forwarded without one" [ "$(wc -l <"$RIG_DIR/collected.txt")" = "$collected" ]
cluster_launch 1
cluster_up 3
cluster_wait 1
cluster_flow_end quorum 2 60
moved one
moved two
for relay in one two; do
  rig_check "relay $relay ends in order" rig_relay_stop $relay
done
