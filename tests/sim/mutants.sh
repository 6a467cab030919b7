#!/bin/bash
# tests/sim/mutants.sh [SEEDS] - does the simulation notice? Each rule of docs/protocol.md is
# broken on purpose in a copy of src/, and the simulation has to fail. Prints one line for each
# break: the rule, the first seed that failed, and what it said. The last line is
# "N caught, N missed"; exit 1 if one was missed, or could not be made.

set -u
cd "$(dirname "$0")/../.." || exit 1

SEEDS=${1:-20000}
CC=${CC:-gcc}
FLAGS=(-std=c11 -D_GNU_SOURCE '-DONLYONCE_VERSION="sim"' -O1 -g)
LIBRARIES=('-Wl,--wrap=message_free')
PACKAGES=(librabbitmq hiredis yaml-0.1 libcjson libssl libcrypto libpq sqlite3 libmicrohttpd)
read -ra found < <(pkg-config --cflags "${PACKAGES[@]}") && FLAGS+=("${found[@]}")
read -ra found < <(pkg-config --libs "${PACKAGES[@]}") && LIBRARIES+=("${found[@]}" -lpthread -lm)

DIR=$(mktemp -d) || exit 1
trap 'rm -rf "$DIR"' EXIT
caught=0
missed=0

# compile SOURCE_FOLDER FILE.c OBJECT
compile() {
  "$CC" "${FLAGS[@]}" -iquote "$1" -iquote tests/sim -c "$2" -o "$3"
}

# The simulation's objects, and a library of everything but main.c. A broken module's object comes
# before the library, so that the linker does not take the whole one.
build_all() {
  local file
  mkdir -p "$DIR/sim" "$DIR/whole"
  for file in tests/sim/*.c src/*.c; do
    [ "$file" != src/main.c ] || continue
    case $file in
    src/*) compile src "$file" "$DIR/whole/$(basename "$file" .c).o" || return 1 ;;
    *) compile src "$file" "$DIR/sim/$(basename "$file" .c).o" || return 1 ;;
    esac
  done
  ar rcs "$DIR/whole.a" "$DIR"/whole/*.o
}

report() {
  printf '%-7s %-52s %8s  %s\n' "$@"
}

miss() {
  report "$1" "$2" - "$3"
  missed=$((missed + 1))
}

# run NAME WHAT OBJECT : expects that some seed fails.
run() {
  local name=$1 what=$2 object=$3 line start
  "$CC" "$DIR"/sim/*.o "$object" "$DIR/whole.a" "${LIBRARIES[@]}" -o "$DIR/sim-$name" || {
    miss "$name" "$what" "does not link"
    return
  }
  # A thousand at a time: most breaks show within the first.
  for ((start = 1; start <= SEEDS; start += 1000)); do
    line=$("$DIR/sim-$name" --start "$start" --seeds 1000 --jobs 2 2>/dev/null |
      grep -E '^seed [0-9]+ failed' | sort -n -k2,2 | head -n 1)
    [ -z "$line" ] || break
  done
  if [ -z "$line" ]; then
    miss "$name" "$what" "not noticed in $SEEDS seeds"
    return
  fi
  read -r _ seed _ says <<<"$line"
  report "$name" "$what" "$seed" "${says:0:90}"
  caught=$((caught + 1))
}

# mutant NAME WHAT MODULE SED : breaks src/MODULE.c by a sed script over the whole file.
mutant() {
  local name=$1 what=$2 module=$3 script=$4 broken=$DIR/$1-$3
  sed -z "$script" "src/$module.c" >"$broken.c" || return
  if cmp -s "src/$module.c" "$broken.c"; then
    miss "$name" "$what" "the sed script changed nothing in $module.c"
    return
  fi
  if ! compile src "$broken.c" "$broken.o"; then
    miss "$name" "$what" "does not compile"
    return
  fi
  run "$name" "$what" "$broken.o"
}

build_all || exit 1
report rule break seed "what the simulation said"

# Without a break nothing may fail, else what follows proves nothing.
"$CC" "$DIR"/sim/*.o "$DIR/whole.a" "${LIBRARIES[@]}" -o "$DIR/sim-whole" || exit 1
whole=$("$DIR/sim-whole" --seeds 1000 | grep -E '^seed [0-9]+ failed' | head -n 1)
[ -z "$whole" ] || miss none "nothing is broken" "$whole"

mutant 1 "a claim does not look at what it met" relay_claim \
  's/case STORE_MET: relay_keep_op(r, met++, i); break;/case STORE_MET: claimed(r, m, \&op->write); break;/'
mutant 1b "claims more than it can publish at once" relay_claim \
  's/room -= r->counts\[PLACE_CLAIMED\];/room += 50;/'
mutant 1c "records only after it has published again" relay \
  's/    relay_record(r);\n//; s/    relay_publish(r);/&\n    relay_record(r);/'
mutant 2 "a fenced recording or release counts as done" relay_store \
  's/case STORE_FENCED: r->wishes.session_lost = true; break;/case STORE_FENCED: finish(r, m, \&op->write, event); break;/'
mutant 2b "a fenced claim counts as made" relay_claim \
  's/case STORE_FENCED: [^;]*;\n *relay_unclaim(r, m, NULL);/case STORE_FENCED: claimed(r, m, \&op->write);/'
mutant 3 "publishes though its session may have lapsed" session \
  's/return s->open && now - s->renewed < s->life \* 2 \/ 3;/return s->open || now < 0;/'
mutant 3b "claims are not moved to the next session" session \
  's/former, s->former_count, moves, count/former, s->former_count, moves, count * 0/'
mutant 4 "several copies of a key at a time" relay_claim \
  's/if (follows(r, m))/if (m->tag == 0 \&\& follows(r, m))/'
mutant 5 "somebody else's live claim means duplicate" claim \
  's/\.verdict = VERDICT_WAIT/.verdict = VERDICT_DUPLICATE/'
mutant 5b "a live claim is taken over" claim \
  's/if (met->session\[0\] && owner_lives && !old)/if (met->session[0] \&\& owner_lives \&\& old)/'
mutant 5c "a takeover is not in doubt" claim \
  's/next->now.in_doubt = true;\n    return out;/return out;/'
mutant 6 "releasing a claim in doubt forgets the doubt" claim \
  's/if (mine->now.in_doubt) {/if (mine->now.in_doubt \&\& now < 0) {/'
mutant 6b "a lost publishing connection leaves no doubt" relay \
  's/m->in_doubt = m->in_doubt || m->copy.target == TARGET_WORK;/m->in_doubt = m->in_doubt;/'
mutant 6c "a nack of a fan-out is certain" relay_publish \
  's/&& !sink_nack_is_certain/\&\& !r->route->to.exchange \&\& !sink_nack_is_certain/'
mutant 6c2 "a nack of a classic queue is certain" relay_publish \
  's/!sink_nack_is_certain(r->sink)/r->route->to.exchange/'
mutant 6d "releasing does not put back what was claimed over" claim \
  's/left.now = mine->before;/left.now = (struct record_life){0};/'
mutant 7 "recording writes over what is not its own" claim \
  's/if (claim_still_mine(mine, met))\n *return true;\n *return as ==[^;]*;/(void)mine; (void)as;\n    return met->now.state != RECORD_NONE;/'
mutant 7b "acknowledges before it records" flow \
  's/if (facts->claim)\n *return PLACE_CONFIRMED;//'
mutant 8 "recording drops the note of a completion" claim \
  's/mine->now.completed ? RECORD_COMPLETED : as;/as;/'
mutant 8b "a takeover drops the note of a completion" claim \
  's/if (met->now.completed)\n *return complete_noted/if (met->now.completed \&\& now < 0)\n        return complete_noted/'
mutant 9 "a lost connection's held messages are kept" flow \
  's/\(\[PLACE_HELD\] = {[^}]*\[EVENT_SOURCE_LOST\] *= \)DROP/\1TO_HELD/'
mutant 9b "a lost connection's copies in flight are forgotten" flow \
  's/\(\[PLACE_SENT\] = {[^}]*\[EVENT_SOURCE_LOST\] *= \)TO_SENT/\1IF_CLAIM_UNWIND/'
mutant 10 "a pending record lives only for the window" claim \
  's/return rules->window > DAY_MS ? rules->window : DAY_MS;/return rules->window;/'
mutant 10b "the window starts at the claim" claim \
  's/r.now.since = now;\n *r.now.ends = now + rules->window;/r.now.ends = mine->now.since + rules->window + (now - now);/'
mutant 11 "a foreign value means duplicate" relay_claim \
  's/relay_hold(r, m, EVENT_BUSY, "what is stored under its key[^;]*;/relay_duplicate(r, m, \&op->met, false);/'
mutant 11b "an unknown answer means mine" relay_claim \
  's/relay_hold(r, m, EVENT_STORE_UNKNOWN, waits_for_store, 0);/relay_move(r, m, EVENT_MINE);/'
mutant back "a retry is taken for a duplicate" claim \
  's/if (comes_back(d) && met->now.number <= d->attempt)\n *return come_back_over/if (comes_back(d) \&\& met->now.number < d->attempt)\n            return come_back_over/'
mutant back2 "a retry's number does not rise" claim \
  's/return number == UINT32_MAX ? number : number + 1;/return number;/'
mutant back3 "a stale copy is not parked" claim \
  's/return park(PARK_STALE);/return duplicate(d, met, session, number, now, rules);/'

mutant 3c "a session counts from its answer, not from its sending" session \
  's/s->renewed = sent;/s->renewed = clock_now();/g'
mutant 6e "a doubtful copy is recorded without its doubt" relay_store \
  's/mine.now.in_doubt = r->batch\[i\]->copy.in_doubt || expect->now.in_doubt;//'
mutant hold "nothing is given back after hold_limit" relay \
  's/r->wishes.give_back = true;/r->wishes.give_back = false;/'
mutant stop "a worker that stops leaves its session" worker \
  's/    session_end(&w->session, w->store);//'
mutant dup "a duplicate is acknowledged before it is published" flow \
  's/facts->sends ? PLACE_CLAIMED : PLACE_SETTLE/PLACE_SETTLE/'
mutant dup2 "a duplicate whose copy is refused is acknowledged" relay_publish \
  's/case SINK_NACKED: nacked(r, m); break;/case SINK_NACKED: confirmed(r, m); break;/'

mutant con "contents are not compared" claim \
  's/d->fingerprint != met->fingerprint;/d->fingerprint == 0;/'
mutant con2 "contents are compared with what was claimed over" claim \
  's/if (is_conflict(d, &met->now) &&/if (is_conflict(d, \&met->before) \&\&/'
mutant con3 "a conflict is dropped where it is to be parked" claim \
  's/case CONFLICT_PARK: [^;]*; break;/case CONFLICT_PARK: break;/'
mutant con4 "a conflict is forwarded where it is to be parked" claim \
  's/case CONFLICT_PARK: [^;]*; break;/case CONFLICT_PARK:/'
mutant con5 "a conflict is parked for another reason" claim \
  's/park(PARK_CONFLICT)/park(PARK_STALE)/'
mutant con6 "a conflict is parked where it is to be dropped" claim \
  's/case CONFLICT_DROP: break;/case CONFLICT_DROP:/'
mutant con7 "a conflict that is delivered again is not in doubt" claim \
  's/d->redelivered ||\n *(met->now.in_doubt/(met->now.in_doubt/'
mutant con8 "a conflict forgets the doubt of what was parked" claim \
  's/(comes_back(d) || met->now.state == RECORD_PARKED)/comes_back(d)/'
mutant con9 "a conflict that comes back forgets the doubt" claim \
  's/(comes_back(d) || met->now.state == RECORD_PARKED)/met->now.state == RECORD_PARKED/'
mutant con10 "a takeover forgets the content before it" claim \
  's/is_conflict(d, before) ? FINGERPRINT_SEVERAL : d->fingerprint/d->fingerprint/'
mutant con11 "what comes back proves another content than its own" claim \
  's/arrived.fingerprint = d->fingerprint;//'
mutant con12 "a put-back without a record is alone with its first-seen" claim \
  's/several ? FINGERPRINT_SEVERAL : d->fingerprint/several ? d->fingerprint : d->fingerprint/'
mutant con13 "another route's retry is dropped as a conflict" claim \
  's/ && !(others_retry && drops)/ \&\& (drops || !drops)/'
mutant con14 "a record says another content than its copy" relay_store \
  's/mine.now.fingerprint = r->batch\[i\]->delivery.fingerprint;/mine.now.fingerprint = expect->now.fingerprint;/'
mutant con15 "a parked record forgets the content before it" relay_store \
  's/if (recorded_as(r->batch\[i\]) == RECORD_FORWARDED)//'
mutant con16 "a conflict counts as a duplicate" relay_duplicate \
  's/m->counted =[^;]*;/m->counted = false;/'
mutant con17 "a conflict is not counted" relay_duplicate \
  's/stats_add(r->stats, STAT_CONFLICTS, 1);//'
mutant con18 "a conflict is published as a duplicate" relay_duplicate \
  's/m->facts.sends = false;\n    if (conflict)/m->facts.sends = aim_copy(r, m);\n    if (conflict)/'
mutant con19 "a parked conflict can not be put back" relay_publish \
  's/c->attempt = m->attempt;\n    }/;\n    }/'
mutant con20 "JSON is compared as it is spelled" key \
  's/if (json && json_add_canonical/if (json \&\& !json \&\& json_add_canonical/'

printf '%d caught, %d missed\n' "$caught" "$missed"
[ "$missed" -eq 0 ]
