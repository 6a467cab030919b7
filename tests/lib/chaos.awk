# chaos.awk - accounts for the ids of a chaos run. -v forgetful=1: unmarked copies are no fault. -v again=1: workers may
# get a copy twice, the second time with the broker's word for it (r).
#
# Reads journals (p ID: published; c ID: confirmed to the producer), expectations (e ID LEAST MOST)
# and what the collector wrote down (QUEUE ID FLAGS). Prints each fault's first ids, and last one
# line of name=value. An id whose confirm the producer saw must have arrived, in a work queue or
# parked; one whose confirm it did not see may have. Whatever arrived, at most one
# forwarded copy (or MOST) has no mark. Ids without a key have an n before their number, and the mark on every copy.

function fault(what, id) {
  if (++faults[what] <= 10)
    print what ": " id
}

NF == 2 && $1 == "p" { if (!($2 in publishes)) ids++; publishes[$2]++; published++; next }
NF == 2 && $1 == "c" { confirmed[$2] = 1; next }
NF == 4 && $1 == "e" { least[$2] = $3; most[$2] = $4; next }
NF == 3 {
  if (again && $3 ~ /r/ && $2 in copies) {
    redelivered++
    next
  }
  parking = $1 ~ /parked$/
  copies[$2]++
  if (parking) parked++; else forwarded++
  if ($3 ~ /d/) doubt++
  if ($3 ~ /r/) redelivered++
  keyless = $2 ~ /-n[0-9]+$/
  if (keyless != ($3 ~ /n/))
    fault("wrongly_marked", $2 " " $3)
  if (keyless) keyless_copies++
  if ($3 ~ /a/ || $3 ~ /u/)
    fault("wrongly_marked", $2 " " $3)
  # One that no queue took is parked without a record: a later message of its id may pass.
  if (parking) parked_ids[$2] = 1
  else if (!keyless && $3 !~ /d/) unmarked[$2]++
  if (!($2 in publishes))
    fault("strange", $2)
  next
}
{ fault("unreadable", $0) }

END {
  for (id in confirmed)
    if (!(id in least) && !(id in copies))
      fault("missing", id)
  for (id in least)
    if (copies[id] + 0 < least[id])
      fault("missing", id " (" copies[id] + 0 " of " least[id] ")")
  for (id in unmarked) {
    if (id in parked_ids) both++
    if (unmarked[id] > 1 && !(id in most))
      twice++
    if (!forgetful && unmarked[id] > (id in most ? most[id] : 1))
      fault("unmarked", id " (" unmarked[id] ")")
  }
  printf "published=%d ids=%d forwarded=%d duplicates=%d in_doubt=%d parked=%d both=%d keyless=%d " \
    "redelivered=%d twice=%d missing=%d unmarked=%d strange=%d wrongly_marked=%d unreadable=%d\n",
    published, ids, forwarded, published - ids, doubt, parked, both, keyless_copies, redelivered, twice,
    faults["missing"], faults["unmarked"], faults["strange"], faults["wrongly_marked"],
    faults["unreadable"]
}
