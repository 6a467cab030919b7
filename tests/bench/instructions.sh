#!/bin/bash
# instructions.sh [--record] - the instructions that the relay spends on a message, by callgrind,
# against the recorded ones: more than 10 % more is a failure. Servers and sockets are not in it
# (replay.c), so the figure depends on the compiler, but not on the machine or its load.
#
# ONLYONCE_BUILD: the folder of a release build by gcc (build/gcc).
set -u
cd "$(dirname "$0")/../.." || exit 1

BUILD=${ONLYONCE_BUILD:-build/gcc}
RECORD=tests/bench/instructions.txt
FEW=2000
MANY=22000

# executed COUNT KIND : the instructions of a whole run.
executed() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$BUILD/tests/replay" "$1" "$2" 2>&1 |
    awk '/Collected/ { print $NF }'
}

per_message() {
  local few many
  few=$(executed $FEW "$1")
  many=$(executed $MANY "$1")
  [ -n "$few" ] && [ -n "$many" ] || return 1
  echo $(((many - few) / (MANY - FEW)))
}

failed=0
for kind in unique duplicate; do
  now=$(per_message $kind) || {
    echo "FAIL instructions of a $kind message: callgrind did not count them"
    exit 1
  }
  if [ "${1:-}" = --record ]; then
    echo "$kind $now"
    continue
  fi
  was=$(awk -v k=$kind '$1 == k { print $2 }' $RECORD)
  if [ -n "$was" ] && [ $((now * 100)) -le $((was * 110)) ]; then
    echo "ok instructions of a $kind message: $now, recorded $was"
  else
    echo "FAIL instructions of a $kind message: $now, recorded ${was:-none}; find out why, or record it: $0 --record >$RECORD"
    failed=1
  fi
done
exit $failed
