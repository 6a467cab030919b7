#!/bin/bash
# The account of scripts/chaos notices what it is there to notice: its judge is given runs that were
# made up, each with one fault or one exception.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

# judges WANT OPTION LINE... : the account of these lines has every name=value of WANT, and 0
# missing, unmarked, strange, wrongly_marked and unreadable where WANT says nothing else.
judges() {
  local want=$1 forgetful=$2 name got
  shift 2
  got=" $(printf '%s\n' "$@" | awk -v forgetful="$forgetful" -f "$RIG_SOURCE/tests/lib/chaos.awk" | tail -n 1) "
  for name in missing unmarked strange wrongly_marked unreadable; do
    [[ " $want" == *" $name="* ]] || want="$want $name=0"
  done
  for name in $want; do
    [[ $got == *" $name "* ]] || {
      echo "not $name in:$got"
      return 1
    }
  done
}

# Confirmed once each: with a key, without one.
SENT=("p a-1" "c a-1" "p a-n1" "c a-n1")
ONCE=("x.work a-1 -" "x.work a-n1 n")

rig_check "once each" judges "published=2 ids=2 forwarded=2 duplicates=0" 0 "${SENT[@]}" "${ONCE[@]}"
rig_check "one is missing" judges "missing=1" 0 "${SENT[@]}" "x.work a-n1 n"
rig_check "one without a key is missing" judges "missing=1" 0 "${SENT[@]}" "x.work a-1 -"
rig_check "none is missing that was not confirmed" judges "published=3 ids=3" 0 "${SENT[@]}" "p a-2" \
  "${ONCE[@]}"
rig_check "one that was not confirmed arrived" judges "forwarded=3" 0 "${SENT[@]}" "p a-2" "${ONCE[@]}" \
  "x.work a-2 -"
rig_check "and twice: a fault" judges "unmarked=1" 0 "${SENT[@]}" "p a-2" "${ONCE[@]}" "x.work a-2 -" \
  "x.work a-2 -"
rig_check "twice, unmarked" judges "unmarked=1 twice=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.work a-1 -"
rig_check "twice, and one marked" judges "in_doubt=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.work a-1 d"
rig_check "twice, and both marked" judges "in_doubt=2" 0 "${SENT[@]}" "x.work a-1 d" "x.work a-1 d" \
  "x.work a-n1 n"
rig_check "three times, and one marked" judges "unmarked=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.work a-1 d" \
  "x.work a-1 -"
rig_check "delivered again to the collector, it counts" judges "unmarked=1 redelivered=1" 0 "${SENT[@]}" \
  "${ONCE[@]}" "x.work a-1 r"
rig_check "without a key, any number" judges "forwarded=3" 0 "${SENT[@]}" "${ONCE[@]}" "x.work a-n1 n"
rig_check "without a key, and no mark" judges "wrongly_marked=1" 0 "${SENT[@]}" "x.work a-1 -" "x.work a-n1 -"
rig_check "with a key, and marked as if not" judges "wrongly_marked=1" 0 "${SENT[@]}" "x.work a-1 n" \
  "x.work a-n1 n"
rig_check "unchecked, which no route allows" judges "wrongly_marked=1" 0 "${SENT[@]}" "x.work a-1 u" \
  "x.work a-n1 n"
rig_check "parked" judges "parked=1" 0 "${SENT[@]}" "x.parked a-1 -" "x.work a-n1 n"
rig_check "parked, and forwarded later" judges "parked=1 both=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.parked a-1 -"
rig_check "one that nobody sent" judges "strange=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.work b-1 -"
rig_check "released: twice" judges "forwarded=2 twice=0" 0 "p r-1" "p r-1" "e r-1 2 2" "x.work r-1 -" "x.work r-1 -"
rig_check "released: three times" judges "unmarked=1" 0 "p r-1" "e r-1 2 2" "x.work r-1 -" "x.work r-1 -" \
  "x.work r-1 -"
rig_check "released: once, where twice is due" judges "missing=1" 0 "p r-1" "e r-1 2 2" "x.work r-1 -"
rig_check "Redis forgot: twice" judges "twice=1" 1 "${SENT[@]}" "${ONCE[@]}" "x.work a-1 -"
rig_check "Redis forgot: one is missing" judges "missing=1" 1 "${SENT[@]}" "x.work a-n1 n"
rig_check "half a line" judges "unreadable=1" 0 "${SENT[@]}" "${ONCE[@]}" "x.work a"
