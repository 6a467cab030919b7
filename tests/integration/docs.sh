#!/bin/bash
# Every configuration and command of the documentation, as it stands there. The word of a block says how: "yaml" is taken by
# the program and by the JSON Schema, "sh" runs, "console" runs and prints what the page says, "sql" and "redis" are
# taken by such servers, "text" is neither. Hosts, ports and folders are those of a private rig.

# shellcheck disable=SC2016 # what is between single quotes is for others

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/certificates.sh
. "$RIG_SOURCE/tests/lib/certificates.sh"

cd "$RIG_SOURCE" || exit 1
DOCUMENTS=(README.md CONTRIBUTING.md SECURITY.md docs/*.md)
SCHEMA=$RIG_SOURCE/docs/onlyonce.schema.json
CONFIG=$RIG_DIR/relay.yaml
WORK=$RIG_DIR/work # where commands run
BIN=$RIG_DIR/bin   # what they find before the machine's own programs
BLOCKS=$RIG_DIR/blocks
mkdir -p "$WORK/scripts" "$BIN" "$BLOCKS" "$RIG_DIR"/{etc,secrets,store}
{ packages_for_tests && packages_install node-ajv; } || rig_die "the packages are installed"

documents() {
  NODE_PATH=/usr/share/nodejs node "$RIG_SOURCE/tests/tools/documents.js" "$@"
}

# not_run LINE : a command that does not run here; prints where it does.
not_run() {
  case $1 in
  "scripts/test"*) echo "it runs this test" ;;
  "scripts/demo "*) echo "the README's console block runs it" ;;
  "sudo apt-get install "*) echo "tests/lib/packages.sh installs these, and so does the Dockerfile" ;;
  "cmake -B build/release "* | "sudo cmake --install "*) echo "tests/integration/install.sh" ;;
  "cmake -S . -B build/gcc "*) echo "stage build" ;;
  "build/gcc/tests/test_"*) echo "stage unit" ;;
  "build/gcc/tests/onlyonce-sim "*) echo "stage sim" ;;
  "tests/integration/"*) echo "stage integration" ;;
  *) return 1 ;;
  esac
}

# here < TEXT : with the folders of this rig.
here() {
  sed -e "s#/run/secrets/#$RIG_DIR/secrets/#g" -e "s#/etc/onlyonce/onlyonce.yaml#$CONFIG#g" \
    -e "s#/etc/onlyonce/#$RIG_DIR/etc/#g" -e "s#/var/lib/onlyonce/#$RIG_DIR/store/#g"
}

# ---- the rig ----

# program FILE LINE... : a script that stands in front of the real program.
program() {
  printf '%s\n' '#!/bin/bash' "${@:2}" >"$1"
  chmod +x "$1"
}

make_programs() {
  program "$BIN/onlyonce" 'case " $* " in *" -c "*) config=() ;; *) config=(-c "'"$CONFIG"'") ;; esac' \
    'exec "'"$RIG_BUILD"'/onlyonce" "$@" "${config[@]}"'
  program "$BIN/curl" "exec $(command -v curl) --fail --connect-to '::127.0.0.1:$PORT' \"\$@\""
  program "$BIN/rabbitmqctl" "HOME='$RIG_DIR/rabbit/home' exec '$RIG_RABBIT_LIB/rabbitmqctl' \"\$@\""
  program "$BIN/rabbitmq-diagnostics" "HOME='$RIG_DIR/rabbit/home' exec '$RIG_RABBIT_LIB/rabbitmq-diagnostics' \"\$@\""
  # It ends with a command that the page shows as one.
  program "$WORK/scripts/demo" "'$BIN/demo' | sed '/^[$] /,\$d'"
  # It has servers of its own.
  program "$BIN/demo" "exec env -i PATH='$PATH' HOME='${HOME:-/}' TMPDIR='${TMPDIR:-/tmp}' '$RIG_SOURCE/scripts/demo' \"\$@\""
}

route() {
  cat <<'END'
routes:
  - name: payments
    from: {exchange: payments, queue: payments.in}
    to: {queue: payments.work}
    key: ["txn = header:x-transaction-id", "msg = message_id"]
    window: 24h
END
}

# What the pages tell of: txn:4711 came twice, msg:demo-17 once.
fill() {
  rig_post --queue payments.in --header x-transaction-id=4711 --count 2
  rig_post --queue payments.in --message-id demo-17
  if ! rig_wait_depth payments.work 2 20 || ! rig_wait_empty payments.in 20; then
    rig_die "the messages arrive"
  fi
}

start_rig() {
  rig_redis_start --appendonly no
  rig_rabbit_start
  rig_postgres_start
  rig_port
  PORT=$RIG_PORT
  export ONLYONCE_ADMIN_TOKEN=token ONLYONCE_SENTINEL_PASSWORD=secret RABBITMQ_PASSWORD=secret STORE_PASSWORD=secret ADMIN_TOKEN=token
  export BROKER_USERNAME=relay BROKER_PASSWORD=secret ONLYONCE_DEMO_AMQP=$RIG_AMQP_URL ONLYONCE_DEMO_REDIS=$RIG_REDIS_URL
  {
    rig_config_head
    echo "admin: {listen: \"127.0.0.1:$PORT\", token: \"\${ONLYONCE_ADMIN_TOKEN}\"}"
    route
  } >"$CONFIG"
  cp "$CONFIG" "$WORK/relay.yaml"
  echo hello >"$WORK/body"
  make_programs
  cert_authority ca
  cert_make relay ca relay
  cp "$CERTIFICATES"/{ca.pem,relay.pem,relay.key} "$RIG_DIR/etc"
  for name in rabbitmq redis postgres; do
    echo secret >"$RIG_DIR/secrets/$name"
  done
  rig_relay_start relay "$CONFIG"
  rig_relay_ready relay payments.in
  fill
  make_tables "sqlite:$WORK/onlyonce.db" >"$RIG_DIR/tables.out" 2>&1
}

# make_tables URL : a store's, by a command that needs them.
make_tables() {
  RIG_STORE_URL=$1 rig_config_head >"$RIG_DIR/tables.yaml"
  route >>"$RIG_DIR/tables.yaml"
  rig_onlyonce list payments -c "$RIG_DIR/tables.yaml"
}

# ---- yaml ----

# whole < BLOCK : with what it lacks to be a whole configuration.
whole() {
  local block first
  block=$(cat)
  first=${block%%$'\n'*}
  grep -q '^broker:' <<<"$block" || echo 'broker: {urls: ["amqp://rabbitmq"]}'
  [[ $first = *"- name: "* ]] && printf '%s\n' 'stores: [{name: redis, url: "redis://redis"}]' 'routes:'
  [[ $first = stores:* || $first = "    url: "* ]] && route
  [[ $first = "    url: "* ]] && printf '%s\n' 'stores:' '  - name: redis'
  printf '%s\n' "$block"
}

# Where hiredis has no TLS, rediss:// is refused for that, and for nothing else.
is_taken() {
  rig_exits 0 rig_onlyonce check -c "$1" >"$RIG_DIR/refused" && return 0
  grep -q "rediss" "$1" && [ "$(wc -l <"$RIG_DIR/err")" = 1 ] && grep -q "asks for TLS, which this build cannot" "$RIG_DIR/err" &&
    return 0
  cat "$RIG_DIR/refused"
  return 1
}

is_valid() {
  printf 'it\t%s\n' "$("$RIG_BUILD/tests/json_of_yaml" <"$1")" | documents schema "$SCHEMA" >"$RIG_DIR/invalid" || return 2
  cat "$RIG_DIR/invalid"
  [ ! -s "$RIG_DIR/invalid" ]
}

is_invalid() {
  local code=0
  is_valid "$1" || code=$?
  [ "$code" = 1 ]
}

# check_yaml NAME FILE : FILE.whole is what is checked; a wrong one to show faults is made of it, too.
check_yaml() {
  whole <"$2" | here >"$2.whole"
  sed 's/window: 24h/window: 24/' "$2.whole" >"$WORK/wrong.yaml"
  rig_check "$1: the program takes it" is_taken "$2.whole"
  rig_check "$1: the schema takes it" is_valid "$2.whole"
}

# ---- commands ----

# run FILE : its output is in $RIG_DIR/got.
run() {
  (cd "$WORK" && PATH=$BIN:$PATH timeout 400 bash -e -o pipefail "$1") >"$RIG_DIR/got" 2>&1 </dev/null
}

runs() {
  run "$1" && return 0
  cat "$RIG_DIR/got"
  return 1
}

check_sh() {
  local line where
  while read -r line; do
    if where=$(not_run "$line"); then
      echo "note $1: not here, as $where: $line"
    else
      echo "$line" >>"$2.lines"
    fi
  done < <(grep -v '^ *$' "$2")
  [ -e "$2.lines" ] || return 0
  here <"$2.lines" >"$2.run"
  rig_check "$1: runs" runs "$2.run"
}

# Its exit code is not looked at: a page may show what goes wrong.
prints() {
  run "$1.run" || true
  documents matches "$1.want" "$RIG_DIR/got"
}

check_console() {
  local command
  for command in $(documents commands "$2"); do
    here <"$command" >"$command.run"
    rig_check "$1: prints that: $(cat "$command")" prints "$command"
  done
}

# The rig's own user has the page's name.
takes_sql() {
  sed 's/CREATE ROLE onlyonce /CREATE ROLE another /' "$1" >"$1.sql"
  psql -XqAt -v ON_ERROR_STOP=1 -d "$RIG_POSTGRES_URL" -f "$1.sql"
}

takes_redis() {
  # shellcheck disable=SC2119 # its words are in the file
  rig_redis_cli <"$1" >"$1.out" && ! grep -vx OK "$1.out"
}

check_block() {
  local name=$1 word=$2 file=$3
  case $word in
  yaml) check_yaml "$name" "$file" ;;
  sh) check_sh "$name" "$file" ;;
  console) check_console "$name" "$file" ;;
  sql)
    rig_check "$name: PostgreSQL takes it" takes_sql "$file"
    # The first one is for before the relay comes.
    make_tables "$RIG_POSTGRES_URL" >"$RIG_DIR/tables.out" 2>&1
    ;;
  redis) rig_check "$name: Redis takes it" takes_redis "$file" ;;
  text) rig_check "$name: shows no commands" bash -c "! grep -E '^(\\$|onlyonce) ' '$file'" ;;
  *) rig_fail "$name: \"$word\" is none of yaml, sh, console, sql, redis and text" ;;
  esac
}

start_rig
documents blocks "$BLOCKS" "${DOCUMENTS[@]}" >"$RIG_DIR/list" || rig_die "the documents have blocks"
while read -r number word name; do
  check_block "$name" "$word" "$BLOCKS/$number"
done <"$RIG_DIR/list"

# ---- scripts/demo --keep: what it says that one can do ----

KEPT=$RIG_DIR/kept
rig_check "scripts/demo --keep" bash -c "'$BIN/demo' --keep >'$KEPT' 2>&1 || { cat '$KEPT' && false; }"
sed -n '/^It is still running/,/^To stop it/s/^  //p' "$KEPT" >"$KEPT.play"
sed -n '/^To stop it/,$s/^  //p' "$KEPT" >"$KEPT.stop"
rig_check "what it says to do can be done" bash -e -o pipefail "$KEPT.play"
rig_check "and it is stopped" bash -c "[ -s '$KEPT.stop' ] && bash -e '$KEPT.stop' | grep -x stopped"

# ---- the configurations of other files ----

sed -n '/^A complete configuration:/,/^\.fi/p' docs/onlyonce.1 | sed -e 1,/^.nf/d -e '/^\.fi/d' -e 's/\\-/-/g' >"$BLOCKS/manual"
rig_check "the manual page has a configuration" grep -q "^routes:" "$BLOCKS/manual"
check_yaml "docs/onlyonce.1" "$BLOCKS/manual"
for file in config/*.yaml config/compose/onlyonce.yaml; do
  cp "$file" "$BLOCKS/config"
  check_yaml "$file" "$BLOCKS/config"
done
rig_check "the example names the schema" grep -qx '# yaml-language-server: $schema=../docs/onlyonce.schema.json' config/onlyonce.yaml

# ---- the schema and the program: what one refuses, the other does ----

GOOD=$RIG_DIR/good.yaml
cat >"$GOOD" <<'END'
broker: {urls: [amqp://a], heartbeat: 10s}
stores: [{name: s, url: redis://r}]
log: {level: info}
routes:
  - {name: a, from: {queue: i, declare: true, buffer: 64MiB}, to: {queue: w}, key: [message_id], window: 24h, workers: 2,
     on_in_doubt: park, sliding: false}
END

# refused_by_both LABEL SED-EXPRESSION : of the good one.
refused_by_both() {
  sed "$2" "$GOOD" >"$RIG_DIR/bad.yaml"
  rig_check "$1: differs from the good one" bash -c "! cmp -s '$GOOD' '$RIG_DIR/bad.yaml'"
  rig_check "$1: the program refuses it" rig_exits 2 rig_onlyonce check -c "$RIG_DIR/bad.yaml"
  rig_check "$1: the schema refuses it" is_invalid "$RIG_DIR/bad.yaml"
}

# taken_by_both LABEL SED-EXPRESSION
taken_by_both() {
  sed "$2" "$GOOD" >"$RIG_DIR/other.yaml"
  rig_check "$1: the program takes it" is_taken "$RIG_DIR/other.yaml"
  rig_check "$1: the schema takes it" is_valid "$RIG_DIR/other.yaml"
}

export N=3 YES=true TIME=7d SIZE=1GiB WORD=wait PLACE=there
taken_by_both "the good one" ''
taken_by_both "variables" 's/: 2,/: "${N}",/; s/: true/: "${YES}"/; s/24h/"${TIME}"/; s/64MiB/"${SIZE}"/; s/: park/: "${WORD}"/; s/queue: w/queue: "${PLACE}"/'
taken_by_both "variables within" 's/24h/"${N}d"/; s/name: a/name: "a${N}"/; s/: 2,/: "1${N}",/; s/: info/: "${NO:-debug}"/'
taken_by_both "numbers in quotation marks" 's/: 2,/: "2",/; s/: true/: "true"/'
taken_by_both "numbers as names and texts" 's/name: a/name: 7/; s/queue: w/queue: 12.5/; s/name: s/name: true/'
taken_by_both "no time at all, where that is allowed" 's/sliding: false/window_completed: 0/'
taken_by_both "an exchange" 's/to: {queue: w}/to: {exchange: x, routing_key: ""}/'
refused_by_both "an unknown field" 's/sliding/slding/'
refused_by_both "an unknown section" 's/^log:/logs:/'
refused_by_both "a duration without a unit" 's/24h/24/'
refused_by_both "a duration of another unit" 's/24h/24w/'
refused_by_both "a size without a unit" 's/64MiB/64/'
refused_by_both "a size of another unit" 's/64MiB/64MB/'
refused_by_both "a missing window" 's/window: 24h, //'
refused_by_both "a missing key" 's/key: .message_id., //'
refused_by_both "a missing inbound queue" 's/queue: i, //'
refused_by_both "no destination" 's/to: {queue: w}, //'
refused_by_both "an empty destination" 's/to: {queue: w}/to: {declare: true}/'
refused_by_both "two destinations" 's/to: {queue: w}/to: {queue: w, exchange: x}/'
refused_by_both "too few workers" 's/workers: 2/workers: 0/'
refused_by_both "too many workers" 's/workers: 2/workers: 65/'
refused_by_both "no number" 's/workers: 2/workers: two/'
refused_by_both "half a worker" 's/workers: 2/workers: 2.5/'
refused_by_both "another word" 's/on_in_doubt: park/on_in_doubt: drop/'
refused_by_both "yes" 's/sliding: false/sliding: yes/'
refused_by_both "1" 's/sliding: false/sliding: 1/'
refused_by_both "a text for a list" 's/key: .message_id./key: message_id/'
refused_by_both "an empty list" 's/key: .message_id./key: []/'
refused_by_both "an empty text" 's/queue: w/queue: ""/'
refused_by_both "nothing" 's/queue: w/queue: /'
refused_by_both "a list for a text" 's/queue: w/queue: [w]/'
refused_by_both "a name with capitals" 's/name: a/name: A/'
refused_by_both "a name that is too long" "s/name: a/name: $(printf 'a%.0s' {1..65})/"
refused_by_both "a queue's name that is too long" "s/queue: w/queue: $(printf 'a%.0s' {1..256})/"
refused_by_both "a text for a section" 's/^log: .*/log: info/'
refused_by_both "an empty section" 's/^log: .*/log:/'
refused_by_both "a section for a list" 's/^stores: .*/stores: {name: s, url: redis:\/\/r}/'
refused_by_both "no stores" 's/^stores: .*/stores: []/'
refused_by_both "stores left out" '/^stores: .*/d'

rig_check "the relay stops" rig_relay_stop relay
