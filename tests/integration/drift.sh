#!/bin/bash
# The documentation and the program say the same: log lines, metrics, events, alerts, headers, reasons, HTTP's paths,
# commands, options, exit codes, signals, fields, files and links. What the option table says, the unit test test_config_texts compares.

# shellcheck disable=SC2016 # a backquote is the pages'

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

cd "$RIG_SOURCE" || exit 1
DOCUMENTS=(README.md CONTRIBUTING.md SECURITY.md docs/*.md)
packages_for_tests || rig_die "the packages are installed"

documents() {
  node tests/tools/documents.js "$@"
}

# The manual page as text, without troff's escapes and macros' letters.
manual() {
  sed -e 's/\\f[A-Z]//g' -e 's/\\-/-/g' -e 's/\\&//g' -e 's/^\.[A-Z][A-Z]* //' docs/onlyonce.1
}

# The words that a pattern finds.
words() {
  grep -ohE -e "$1" "${@:2}" | sort -u
}

# same NAME PROGRAM DOCUMENT : two files of lines, each found in the other; neither is empty.
same() {
  sort -u -o "$2" "$2"
  sort -u -o "$3" "$3"
  rig_check "$1: there are some" test -s "$2"
  rig_check "$1: the program's are documented" bash -c "! comm -23 '$2' '$3' | grep ."
  rig_check "$1: the documented are the program's" bash -c "! comm -13 '$2' '$3' | grep ."
}

# within NAME PART WHOLE : each line of PART is one of WHOLE.
within() {
  sort -u -o "$2" "$2"
  sort -u -o "$3" "$3"
  rig_check "$1: there are some" test -s "$2"
  rig_check "$1" bash -c "! comm -23 '$2' '$3' | grep ."
}

WANT=$RIG_DIR/program
GOT=$RIG_DIR/documented
manual >"$RIG_DIR/manual"

# ---- operating.md: what the program says ----

documents log src/*.c >"$WANT"
documents table docs/operating.md "What the log says" >"$GOT"
same "log lines" "$WANT" "$GOT"

metrics_of_program() {
  words '"onlyonce_[a-z_]+"' src/metrics.c | tr -d '"'
}

metrics_of_program >"$WANT"
documents table docs/operating.md "What the metrics say" | grep '^onlyonce_' >"$GOT"
same "metrics" "$WANT" "$GOT"
words 'onlyonce_[a-z_]+' "$RIG_DIR/manual" >"$GOT"
same "metrics in the manual page" "$WANT" "$GOT"
words '`onlyonce_[a-z_]+' "${DOCUMENTS[@]}" | tr -d '`' | grep -vE '_(records|results|sessions|version)$' >"$GOT" # tables of SQLite
within "metrics that the pages name" "$GOT" "$WANT"

sed -n '/events\[\] = {/,/}/s/^ *STAT_\([A-Z_]*\),$/\1/p' src/metrics.c |
  while read -r stat; do sed -n "s/^ *ROW($stat, \"\([a-z_]*\)\".*/\1/p" src/stats.h; done >"$WANT"
documents table docs/operating.md "What the metrics say" | grep -v '^onlyonce_' >"$GOT"
same "events" "$WANT" "$GOT"

sed -n 's/^ *- alert: //p' config/prometheus/onlyonce-alerts.yaml >"$WANT"
documents table docs/operating.md "What the alerts mean" >"$GOT"
same "alerts" "$WANT" "$GOT"
words '`Onlyonce[A-Za-z]+`' "${DOCUMENTS[@]}" | tr -d '`' >"$GOT"
within "alerts that the pages name" "$GOT" "$WANT"

sed -n '/^const char \*place_name/,/^}/p;/place_names\[/,/};/p' src/flow.c | words '"[a-z]+"' - | tr -d '"' | grep -vE 'gone|impossible' >"$WANT"
tr -c 'a-z_\n' '\n' <"$RIG_DIR/manual" | sort -u >"$GOT"
within "places are in the manual page" "$WANT" "$GOT"

# ---- messages ----

words '"x-onlyonce-[a-z-]+"' src/*.c src/*.h | tr -d '"' | grep -v -- '-$' >"$WANT"
words 'x-onlyonce-[a-z]+(-[a-z]+)*' "$RIG_DIR/manual" >"$GOT"
same "headers in the manual page" "$WANT" "$GOT"
words '`x-onlyonce-[a-z]+(-[a-z]+)*' "${DOCUMENTS[@]}" | tr -d '`' >"$GOT"
within "headers that the pages name" "$GOT" "$WANT"

sed -n '/^const char \*park_reason_text/,/^}/p;/reasons\[/,/};/p' src/copy.c | words '"[a-z_]+"' - | tr -d '"' >"$WANT"
tr -c 'a-z_\n' '\n' <"$RIG_DIR/manual" | sort -u >"$GOT"
within "reasons for parking are in the manual page" "$WANT" "$GOT"
tr -c 'a-z_\n' '\n' <docs/protocol.md | sort -u >"$GOT"
within "reasons for parking are in protocol.md" "$WANT" "$GOT"

# ---- HTTP ----

sed -n 's/^  \(\/[^:]*\):$/\1/p' docs/openapi.yaml | sed -E 's/\{[a-z]+\}/X/g' >"$WANT" # which http.sh holds against the program
sed -E 's/(ROUTE|KEY)/X/g' "$RIG_DIR/manual" | sed -n '/^HTTP$/,/^METRICS$/p' | tr -d '" ' |
  grep -oE '^(GET|POST|DELETE)?/[a-zX0-9/]*' | sed -E 's/^[A-Z]{3,}//' >"$GOT"
same "HTTP's paths in the manual page" "$WANT" "$GOT"
grep -ohE '`[^`]*`' "${DOCUMENTS[@]}" | grep -oE '(GET |POST |DELETE |:8080|`)/(v1/[a-zA-Z0-9{}/:]+|healthz|readyz|metrics)' |
  sed -E 's/^[^\/]*//; s#/(keys|routes)/[^/]+#/\1/X#; s#(/keys/X)/[^/]+#\1/X#' >"$GOT"
within "HTTP's paths that the pages name" "$GOT" "$WANT"

# ---- commands ----

rig_onlyonce --help | sed -n 's/^  \([a-z]\{3,\}\) .*/\1/p' >"$RIG_DIR/commands"
cp "$RIG_DIR/commands" "$WANT"
sed -n '/^SYNOPSIS$/,/^DESCRIPTION$/p' "$RIG_DIR/manual" | sed -n 's/^onlyonce \([a-z]*\)$/\1/p' >"$GOT"
same "commands in the manual page" "$WANT" "$GOT"
sed -n 's/^| `onlyonce \([a-z]*\).*/\1/p' README.md >"$GOT"
same "commands in the README" "$WANT" "$GOT"
words '`onlyonce [a-z]+' "${DOCUMENTS[@]}" | sed 's/.* //' | grep -vx starts >"$GOT" # which is a log line
within "commands that the pages name" "$GOT" "$WANT"

options_of() {
  local command
  while read -r command; do
    rig_onlyonce "$command" --help
  done <"$RIG_DIR/commands" | words '[- ]--[a-z-]+' - | sed 's/^.//' | grep -v -e '^--usage$'
}

options_of >"$WANT"
words '(^|[^a-z])--[a-z][a-z-]+' <(sed -n '/^SYNOPSIS$/,/^SIGNALS$/p' "$RIG_DIR/manual") | sed 's/.*--/--/' >"$GOT"
same "options in the manual page" "$WANT" "$GOT"
words '`onlyonce [^`]*`' "${DOCUMENTS[@]}" | words '[^a-z]--[a-z][a-z-]+' - | sed 's/^.//' >"$GOT"
within "options that the pages name" "$GOT" "$WANT"

sed -n '/^enum exit_code/,/^}/s/.*= \([0-9]\),.*/\1/p' src/command.h >"$WANT"
sed -n '/^EXIT STATUS$/,/^SIGNALS$/s/^\([0-9]\)$/\1/p' "$RIG_DIR/manual" >"$GOT"
same "exit codes" "$WANT" "$GOT"

words 'SIG(TERM|INT|HUP|USR[12])' src/command_run.c >"$WANT"
words 'SIG(TERM|INT|HUP|USR[12])' <(sed -n '/^SIGNALS$/,/^CONFIGURATION$/p' "$RIG_DIR/manual") >"$GOT"
same "signals" "$WANT" "$GOT"

# Commands of others within sentences: each is run by the file behind it, which has these words.
sentences() {
  cat <<'END'
scripts/demo --keep|tests/integration/docs.sh|--keep
scripts/chaos --s|scripts/test|scripts/chaos --store
docker compose up|tests/docker/compose.sh|up
docker compose --profile monitoring up|tests/docker/compose.sh|monitoring
docker build -t onlyonce .|tests/docker/compose.sh|build
docker exec CONTAINER|tests/docker/compose.sh|exec
kill -USR1|tests/integration/duplicates.sh|relay USR1
rabbitmq-queues grow|tests/cluster/restart.sh|grow "$(cluster_name 2)" all
rabbitmq-upgrade await_online_quorum_plus_one|tests/cluster/restart.sh|upgrade "$1" await_online_quorum_plus_one
rabbitmq-upgrade drain|tests/cluster/restart.sh|upgrade "$1" drain
rabbitmqctl cluster_status|tests/cluster/nodes.sh|rig_rabbitctl -q cluster_status
redis-cli client pause 6000 write|tests/fault/sentinel.sh|client pause 6000 write
redis-cli get|tests/integration/startup.sh|rig_redis_cli
sudo onlyonce status|tests/unit/test_store_sqlite_files.c|the_file_is_its_folders_owners
man docs/onlyonce.1|tests/integration/install.sh|groff -man
systemctl edit onlyonce|tests/package/package.sh|as "systemctl edit" would
systemctl reload onlyonce|tests/package/package.sh|systemctl reload onlyonce
systemctl start|tests/package/package.sh|systemctl start onlyonce
systemctl status onlyonce|tests/package/package.sh|StatusText
END
}

are_run() {
  local found prefix file needle bad=0
  while read -r found; do
    while IFS='|' read -r prefix file needle; do
      [[ $found != "$prefix"* ]] || break
    done < <(sentences)
    if [ -z "$prefix" ] || ! grep -qF -e "$needle" "$file"; then
      echo "$found"
      bad=1
    fi
  done < <(words '`(redis-cli|rabbitmqctl|rabbitmq-[a-z]+|docker|sudo|cmake|kill|sqlite3|curl|systemctl|psql|apt-get|man|scripts/(demo|chaos)) [^`]*`' \
    "${DOCUMENTS[@]}" | tr -d '`')
  return $bad
}
rig_check "commands within sentences are run" are_run

# ---- fields, files, links ----

sed -n 's/^    {"\([a-z_.\[]*\]*[a-z_.]*\)", OPTION_.*/\1/p' src/options.c | sed 's/.*[].]\.*//' | sort -u >"$WANT"
words '`(on|to|from|in_doubt|hold|window|wait)_[a-z_]+' "${DOCUMENTS[@]}" | tr -d '`' >"$GOT"
within "fields that the pages name" "$GOT" "$WANT"

words '`(tests|src|scripts|config|docs)/[A-Za-z0-9_./-]+`' "${DOCUMENTS[@]}" | tr -d '`' >"$RIG_DIR/files"
exist() {
  local file bad=0
  while read -r file; do
    [ -e "${file%/}" ] || { echo "$file" && bad=1; }
  done <"$RIG_DIR/files"
  return $bad
}
rig_check "files that the pages name are there" exist
rig_check "links lead somewhere" documents links "${DOCUMENTS[@]}"

# Each test that faults.md names is there.
tests_of_faults() {
  local name bad=0
  for name in $(words '`(fault|integration)/[a-z_]+\.sh`' docs/faults.md | tr -d '`'); do
    [ -f "tests/$name" ] || { echo "$name" && bad=1; }
  done
  for name in $(words '`test_[a-z_]+`' docs/faults.md | tr -d '`'); do
    [ -f "tests/unit/$name.c" ] || { echo "$name" && bad=1; }
  done
  return $bad
}
rig_check "tests that faults.md names are there" tests_of_faults
