# shellcheck shell=bash
# shellcheck disable=SC2034 # scripts/chaos and chaos.sh use the rest
# chaos_store - the stores of scripts/chaos, and what goes wrong with each: source after chaos.sh.
#
# For each store (redis, sentinel, postgres, sqlite): start_STORE starts it, config_STORE PORT prints its
# part of a configuration, watch_STORE ends the run if it ended by itself, and FAULTS_STORE
# and FORGETFUL_STORE are lines as CHAOS_FAULTS has them. STORE_PORT, if it is set, is where the relays'
# proxies lead to.

STORE_PORT=

# Those of a store that is reached through proxies.
CHAOS_PROXIED=(
  "store_cut          3 store@           0     0"
  "store_refuse       1 store@           1000  8000"
  "store_mute         2 store@           300   12000"
  "store_mute_replies 3 store@           300   12000"
  "store_delay        1 store@           1000  10000"
)

store_cut_begin() { proxy_say "store$1" cut; }
store_refuse_begin() { proxy_say "store$1" refuse; }
store_refuse_end() { proxy_say "store$1" pass; }
store_mute_begin() { proxy_say "store$1" mute; }
store_mute_end() { proxy_say "store$1" pass; }
store_mute_replies_begin() { proxy_say "store$1" mute-replies; }
store_mute_replies_end() { proxy_say "store$1" pass; }
store_delay_begin() { proxy_say "store$1" delay 300; }
store_delay_end() { proxy_say "store$1" pass; }

# Whether the store may be away for longer than hold_limit: not often, and not when there is no time
# left to go on after it.
long_may_begin() {
  chaos_now
  [ $((NOW - CHAOS_LAST_LONG)) -gt $((CHAOS_LONG_EVERY * 1000)) ] &&
    [ $((CHAOS_UNTIL - NOW)) -gt 80000 ] || return 1
  CHAOS_LAST_LONG=$NOW
}

# ---- Redis ----

FAULTS_redis=(
  "${CHAOS_PROXIED[@]}"
  "redis_restart      1 redis            0     3000"
  "redis_kill         2 redis            0     6000"
  "redis_read_only    1 redis            500   8000"
  "redis_scripts_lost 1 redis            0     0"
  "redis_away         1 redis            62000 75000"
)
FORGETFUL_redis=(
  "redis_flushed      3 redis            0     0"
  "redis_forgot       2 redis            0     4000"
)

start_redis() {
  rig_redis_start --appendonly yes --appendfsync always
  STORE_PORT=$RIG_REDIS_PORT
}

watch_redis() { server_watch redis "${RIG_PIDS[redis]:-}"; }

config_redis() {
  cat <<END
  - name: redis
    url: redis://127.0.0.1:$1/0
    session: 5s
END
}

redis_restart_begin() { rig_redis_stop; }
redis_restart_end() { start_redis; }
redis_kill_begin() { rig_redis_kill; }
redis_kill_end() { start_redis; }
redis_read_only_begin() { rig_redis_cli config set min-replicas-to-write 1 >/dev/null; }
redis_read_only_end() { rig_redis_cli config set min-replicas-to-write 0 >/dev/null; }
redis_scripts_lost_begin() { rig_redis_cli script flush >/dev/null; }
redis_away_begin() { long_may_begin && rig_redis_kill; }
redis_away_end() { start_redis; }
redis_flushed_begin() { rig_redis_cli flushall >/dev/null; }

redis_forgot_begin() {
  rig_redis_kill
  rm -rf "$RIG_DIR/redis"
  mkdir "$RIG_DIR/redis"
}

redis_forgot_end() { start_redis; }

# ---- Sentinel: a master and its replica, and three Sentinels ----

# wait_replicas is the number of replicas: only so is nothing forgotten, whatever happens when. One
# node at a time is broken, and the next one only when the replica has all of the master again.
FAULTS_sentinel=(
  "master_kill        5 nodes            0     9000"
  "master_pause       5 nodes            1500  9000"
  "master_pause_short 2 nodes            100   900"
  "master_handed_over 4 nodes            9000  14000"
  "master_cut         3 nodes            0     0"
  "master_read_only   1 nodes            500   4000"
  "replica_kill       3 nodes            0     6000"
  "replica_pause      2 nodes            500   6000"
  "replica_cut        2 nodes            0     0"
  "nodes_away         1 nodes            62000 75000"
  "sentinel_kill      3 sentinel         1000  15000"
  "sentinel_pause     3 sentinel         1000  15000"
)
FORGETFUL_sentinel=(
  "master_flushed     3 nodes            0     0"
)

start_sentinel() {
  SENTINEL_REPLICAS=1
  sentinel_start --appendonly yes --appendfsync always
}

watch_sentinel() {
  local name
  for name in "${!RIG_RELAYS[@]}"; do
    [[ $name == relay* ]] || server_watch "$name" "${RIG_RELAYS[$name]}"
  done
}

config_sentinel() {
  cat <<END
  - name: redis
    url: $SENTINEL_URL
    sentinel: {username: relay, password: secret}
    wait_replicas: $SENTINEL_REPLICAS
    session: 5s
END
}

# Sets MASTER and REPLICA, their ports. 1 unless the replica has all of the master.
nodes_look() {
  local port
  MASTER=$(sentinel_master)
  REPLICA=
  for port in "${SENTINEL_NODES[@]}"; do
    [ "$port" = "$MASTER" ] || REPLICA=$port
  done
  [ -n "$MASTER" ] &&
    [ "$(printf 'set ready 1\nwait 1 200\n' | node_say "$MASTER" | tail -n 1)" = 1 ]
}

# node_say PORT COMMAND... : who does not answer may stand still.
node_say() {
  timeout 2 redis-cli -p "$@" 2>/dev/null
}

# What is down or stands still goes on; and then all has to be well. A replica knows its master, as it
# does where the Sentinels write its configuration.
nodes_mend() {
  local port follow
  MASTER=$(sentinel_master)
  [ -n "$MASTER" ] || return 1
  for port in "${SENTINEL_NODES[@]}"; do
    if [ -z "${RIG_RELAYS["node $port"]:-}" ]; then
      follow=()
      [ "$port" = "$MASTER" ] || follow=(--replicaof 127.0.0.1 "$MASTER")
      sentinel_node_start "$port" --appendonly yes --appendfsync always "${follow[@]}"
    else
      sentinel_signal "$port" CONT
    fi
  done
  nodes_look
}

master_kill_begin() { nodes_look && sentinel_kill "$MASTER"; }
master_kill_end() { nodes_mend; }
master_pause_begin() { nodes_look && sentinel_signal "$MASTER" STOP; }
master_pause_end() { nodes_mend; }
master_pause_short_begin() { nodes_look && sentinel_signal "$MASTER" STOP; }
master_pause_short_end() { nodes_mend; }
master_handed_over_begin() {
  nodes_look && [ "$(node_say "${SENTINEL_PORTS[$1]}" sentinel failover mymaster)" = OK ]
}
master_handed_over_end() { nodes_mend; }
master_cut_begin() { nodes_look && node_say "$MASTER" client kill type normal >/dev/null; }
master_read_only_begin() { nodes_look && node_say "$MASTER" config set min-replicas-to-write 2 >/dev/null; }
master_read_only_end() {
  node_say "$MASTER" config set min-replicas-to-write 0 >/dev/null
  nodes_mend
}
replica_kill_begin() { nodes_look && sentinel_kill "$REPLICA"; }
replica_kill_end() { nodes_mend; }
replica_pause_begin() { nodes_look && sentinel_signal "$REPLICA" STOP; }
replica_pause_end() { nodes_mend; }
replica_cut_begin() { nodes_look && node_say "$MASTER" client kill type replica >/dev/null; }

nodes_away_begin() {
  nodes_look && long_may_begin || return 1
  sentinel_kill "$MASTER"
  sentinel_kill "$REPLICA"
}

nodes_away_end() { nodes_mend; }
master_flushed_begin() { nodes_look && node_say "$MASTER" flushall >/dev/null; }

sentinel_kill_begin() {
  SENTINEL_GONE=${SENTINEL_PORTS[$1]}
  rig_relay_kill "sentinel $SENTINEL_GONE"
}

sentinel_kill_end() { sentinel_watch_start "$SENTINEL_GONE"; }

sentinel_pause_begin() {
  SENTINEL_GONE=${SENTINEL_PORTS[$1]}
  kill -STOP "${RIG_RELAYS["sentinel $SENTINEL_GONE"]}"
}

sentinel_pause_end() { kill -CONT "${RIG_RELAYS["sentinel $SENTINEL_GONE"]}"; }

# ---- PostgreSQL ----

FAULTS_postgres=(
  "${CHAOS_PROXIED[@]}"
  "postgres_restart   2 postgres         0     3000"
  "postgres_kill      4 postgres         0     6000"
  "postgres_still     4 postgres         500   12000"
  "postgres_ended     3 postgres         0     0"
  "postgres_locked    2 postgres         500   7000"
  "postgres_vacuum    1 postgres         0     0"
  "postgres_away      1 postgres         62000 75000"
)
FORGETFUL_postgres=(
  "postgres_emptied   3 postgres         0     0"
)

start_postgres() {
  rig_postgres_start
  STORE_PORT=$RIG_POSTGRES_PORT
}

watch_postgres() { server_watch postgres "${RIG_PIDS[postgres]:-}"; }

config_postgres() {
  cat <<END
  - name: database
    url: postgresql://onlyonce@127.0.0.1:$1/postgres
    session: 5s
END
}

# postgres_say SQL : waits for locks, but not for ever.
postgres_say() {
  PGOPTIONS='-c lock_timeout=2000' rig_psql "$1" >/dev/null 2>>"$RIG_DIR/psql.log"
}

postgres_restart_begin() { rig_postgres_stop; }
postgres_restart_end() { start_postgres; }
postgres_kill_begin() { rig_postgres_kill; }
postgres_kill_end() { start_postgres; }
postgres_still_begin() { rig_postgres_signal STOP; }
postgres_still_end() { rig_postgres_signal CONT; }

postgres_ended_begin() {
  postgres_say "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'onlyonce:%'"
}

# As if somebody changed the table.
postgres_locked_begin() {
  postgres_say "BEGIN; LOCK TABLE onlyonce.records; SELECT pg_sleep(60); COMMIT" &
  CHAOS_HOLDER=$!
}

postgres_locked_end() {
  rig_psql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()" >/dev/null
  wait "$CHAOS_HOLDER"
  return 0
}

postgres_vacuum_begin() { postgres_say "VACUUM FULL onlyonce.records"; }
postgres_away_begin() { long_may_begin && rig_postgres_kill; }
postgres_away_end() { start_postgres; }
postgres_emptied_begin() { postgres_say "TRUNCATE onlyonce.records, onlyonce.results, onlyonce.sessions"; }

# ---- SQLite: the relays share a file ----

FAULTS_sqlite=(
  "file_locked        6 file             300   12000"
  "file_lock_died     4 file             300   6000"
  "file_read          2 file             2000  20000"
  "file_checkpoint    3 file             0     0"
  "file_vacuum        3 file             0     0"
  "file_copied        2 file             0     0"
  "file_kept          1 file             62000 75000"
)
FORGETFUL_sqlite=(
  "file_deleted       3 file             0     0"
  "file_emptied       2 file             0     0"
)

start_sqlite() {
  mkdir "$RIG_DIR/data"
  CHAOS_FILE=$RIG_DIR/data/onlyonce.db
}

watch_sqlite() { :; }

config_sqlite() {
  cat <<END
  - name: file
    url: sqlite:$CHAOS_FILE
    session: 5s
END
}

# file_say SQL : waits for the lock, but not for ever: a relay that stands still may have it.
file_say() {
  sqlite3 -cmd '.timeout 3000' "$CHAOS_FILE" "$1" >/dev/null 2>>"$RIG_DIR/sqlite.log"
}

# file_hold SQL : a process that says this, and then nothing until file_let_go.
file_hold() {
  rm -f "$RIG_DIR/holder.fifo"
  mkfifo "$RIG_DIR/holder.fifo"
  sqlite3 -cmd '.timeout 10000' "$CHAOS_FILE" <"$RIG_DIR/holder.fifo" >/dev/null 2>>"$RIG_DIR/sqlite.log" &
  CHAOS_HOLDER=$!
  exec {CHAOS_HOLD}>"$RIG_DIR/holder.fifo"
  echo "$1" >&"$CHAOS_HOLD"
}

# It has to be told to go: processes that were started meanwhile keep its FIFO open.
file_let_go() {
  printf 'COMMIT;\n.quit\n' >&"$CHAOS_HOLD"
  file_holder_ends
}

file_holder_ends() {
  exec {CHAOS_HOLD}>&-
  wait "$CHAOS_HOLDER" 2>/dev/null
  return 0
}

FILE_WRITES='BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS others (n); INSERT INTO others VALUES (1);'

file_locked_begin() { file_hold "$FILE_WRITES"; }
file_locked_end() { file_let_go; }
file_lock_died_begin() { file_hold "$FILE_WRITES"; }

file_lock_died_end() {
  kill -KILL "$CHAOS_HOLDER"
  file_holder_ends
}

file_read_begin() { file_hold 'BEGIN; SELECT count(*) FROM onlyonce_records;'; }
file_read_end() { file_let_go; }
file_checkpoint_begin() { file_say 'PRAGMA wal_checkpoint(TRUNCATE)'; }
file_vacuum_begin() { file_say VACUUM; }
file_copied_begin() { file_say ".backup '$RIG_DIR/copy.db'"; }
file_kept_begin() { long_may_begin && file_hold "$FILE_WRITES"; }
file_kept_end() { file_let_go; }
file_deleted_begin() { rm -f "$CHAOS_FILE" "$CHAOS_FILE"-wal "$CHAOS_FILE"-shm; }
file_emptied_begin() { file_say 'DELETE FROM onlyonce_records; DELETE FROM onlyonce_sessions'; }
