#!/bin/bash
# The rig itself: what the caller's environment says of servers leads no test to one that is not its own.

set -u

# Nobody serves this port, and nothing may be written there.
OTHERS=$(mktemp -d)
export RABBITMQ_NODE_PORT=1 RABBITMQ_NODENAME=other@localhost RABBITMQ_MNESIA_DIR=$OTHERS/data RABBITMQ_CONFIG_FILES=$OTHERS
export RABBITMQ_PID_FILE=$OTHERS/pid RABBITMQ_LOGS=$OTHERS/log ERL_EPMD_PORT=1 ERL_FLAGS=none ERL_CRASH_DUMP=$OTHERS/dump
export RIG_RABBIT_NAME=other RIG_REDIS_PORT=1 RIG_POSTGRES_PORT=1 PGHOST=$OTHERS PGPORT=1 PGDATA=$OTHERS PGUSER=other
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

# is_ours VARIABLE... : none has what the caller gave it.
is_ours() {
  local name
  for name; do
    case ${!name:-} in
    1 | *other* | "$OTHERS"*)
      echo "$name is ${!name}"
      return 1
      ;;
    esac
  done
}

rig_redis_start --appendonly no
rig_postgres_start
rig_rabbit_start
rig_check "no variable is the caller's" is_ours "${!RABBITMQ_@}" "${!ERL_@}" "${!PG@}" RIG_RABBIT_NAME RIG_REDIS_PORT RIG_POSTGRES_PORT
rig_check "Redis is the rig's" test "$(rig_redis_cli config get dir | tail -n 1)" = "$RIG_DIR/redis"
rig_check "PostgreSQL is the rig's" test "$(rig_psql 'SHOW data_directory')" = "$RIG_DIR/postgres"
rig_check "RabbitMQ is the rig's" grep -qF "$RIG_DIR/rabbit/data" <(rig_rabbitctl eval 'rabbit_mnesia:dir().')
rig_check "and the caller's folder is empty" rmdir "$OTHERS"
