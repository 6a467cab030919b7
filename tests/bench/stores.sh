#!/bin/bash
# How many keys a second each store takes, side by side: claimed and recorded in batches of 500 by one
# connection, with private servers on this machine. A round measures every store once; printed are the
# median of the rounds, the least and the most, and the median's share of that of Redis which syncs
# each batch. Compare figures of one run only.
#
# Set before: ROUNDS (5), KEYS (30000).

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/sentinel.sh
. "$(dirname "$0")/../lib/sentinel.sh"

ROUNDS=${ROUNDS:-5}
KEYS=${KEYS:-30000}
RUNS=0 # so that no key was there before

# measure NAME OPTION... URL : a line "NAME, tab, keys a second" in $RIG_DIR/measured.
measure() {
  local name=$1
  shift
  "$RIG_BUILD/tests/store_speed" --keys "$KEYS" --name "run$((++RUNS))" "$@" >"$RIG_DIR/speed" || rig_die "$name"
  printf '%s\t%s\n' "$name" "$(sed -n 's/.* ms, \([0-9]*\)\/s.*/\1/p' "$RIG_DIR/speed")" >>"$RIG_DIR/measured"
}

redis_syncs() {
  rig_redis_cli config set appendfsync "$1" >/dev/null
}

round() {
  measure "memory" memory:
  redis_syncs everysec
  measure "Redis, appendfsync everysec" "$RIG_REDIS_URL"
  redis_syncs always
  measure "Redis, appendfsync always" "$RIG_REDIS_URL"
  measure "Redis and a replica, both always, wait_replicas 1" --replicas 1 "$SENTINEL_URL"
  measure "SQLite, synchronous normal" --normal "sqlite:$RIG_DIR/data/normal.db"
  measure "SQLite, synchronous full" "sqlite:$RIG_DIR/data/full.db"
  measure "PostgreSQL" "$RIG_POSTGRES_URL"
}

table() {
  sort -t$'\t' -k1,1 -k2,2n "$RIG_DIR/measured" | awk -F'\t' '
    { n[$1]++; rate[$1, n[$1]] = $2 }
    END {
      base = rate["Redis, appendfsync always", int((n["Redis, appendfsync always"] + 1) / 2)]
      for (name in n) {
        middle = rate[name, int((n[name] + 1) / 2)]
        printf "%d\t| %s | %d | %d to %d | %.2f |\n", middle, name, middle, rate[name, 1], rate[name, n[name]], middle / base
      }
    }' | sort -rn | cut -f2
}

SENTINEL_REPLICAS=1
rig_redis_start --appendonly yes --appendfsync always
sentinel_start --appendonly yes --appendfsync always
rig_postgres_start
mkdir "$RIG_DIR/data"
for ((i = 0; i < ROUNDS; i++)); do
  round
done
table
