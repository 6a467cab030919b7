#!/bin/bash
# The Debian package, for real: built in a fresh Debian of its own release, installed by apt into another, run by a
# booted systemd beside a RabbitMQ and a Redis, upgraded, removed and purged.
#
# ONLYONCE_SUITE: bookworm (which is the default) or trixie. For root. Systems are kept in build/packages, and the
# packages that were built.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"
# shellcheck source=tests/lib/debian.sh
. "$(dirname "$0")/../lib/debian.sh"
cd "$RIG_SOURCE" || exit 1

SUITE=${ONLYONCE_SUITE:-bookworm}
KEPT=$RIG_SOURCE/build/packages/$SUITE
TOOLS=$RIG_DIR/tools
FRESH=$RIG_DIR/fresh
BOOTED=$RIG_DIR/booted
CONFIG=/etc/onlyonce/onlyonce.yaml
DROP_INS=/etc/systemd/system/onlyonce.service.d
VERSION=$(sed -n 's/^project(onlyonce VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
NEXT=${VERSION%.*}.$((${VERSION##*.} + 1))
MOST_EXPOSED=15 # of systemd's points, in tenths

fails() {
  ! "$@"
}

# ---- three systems ----

systems() {
  mkdir -p "$KEPT"
  debian_tar "$KEPT/base.tar" "$SUITE" &&
    debian_tar "$KEPT/tools.tar" "$SUITE" gcc cmake make pkg-config libc6-dev librabbitmq-dev libhiredis-dev libyaml-dev libcjson-dev \
      libssl-dev libpq-dev libsqlite3-dev libmicrohttpd-dev dpkg-dev file ccache lintian &&
    debian_tar "$KEPT/servers.tar" "$SUITE" systemd-sysv dbus rabbitmq-server redis-server amqp-tools man-db zsh fish
}

# ---- building ----

# build VERSION : the package becomes $RIG_DIR/VERSION.deb.
build() {
  sed -i "s/^project(onlyonce VERSION [0-9.]*/project(onlyonce VERSION $1/" "$TOOLS/onlyonce/CMakeLists.txt"
  debian_run "$TOOLS" cmake -S . -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DONLYONCE_TESTS=OFF -DONLYONCE_WERROR=ON \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache &&
    debian_run "$TOOLS" cmake --build build/package -j2 &&
    debian_run "$TOOLS" sh -c 'rm -f build/package/*.deb && cd build/package && cpack' &&
    cp "$TOOLS"/onlyonce/build/package/*.deb "$KEPT" && cp "$TOOLS"/onlyonce/build/package/*.deb "$RIG_DIR/$1.deb"
}

# lints VERSION : its warnings are noted.
lints() {
  cp "$RIG_DIR/$1.deb" "$TOOLS/onlyonce.deb"
  debian_run "$TOOLS" lintian --fail-on error /onlyonce.deb >"$RIG_DIR/lintian" 2>"$RIG_DIR/lintian.err"
  local code=$?
  grep -E '^[EW]:' "$RIG_DIR/lintian" | sed 's/^/note lintian /'
  [ "$code" = 0 ] || cat "$RIG_DIR/lintian.err"
  return "$code"
}

# field NAME
field() {
  dpkg-deb -f "$RIG_DIR/$VERSION.deb" "$1"
}

# All of it belongs to root; nothing is in two places, or where packages may not write.
places_are_right() {
  ! dpkg-deb -c "$RIG_DIR/$VERSION.deb" | grep -vE '^[-d][-rwx]{9} root/root +[0-9]+ [-0-9]+ [0-9:]+ \./(etc|usr|lib)/' &&
    dpkg-deb -c "$RIG_DIR/$VERSION.deb" | grep -q '^-rw-r----- root/root .* \./etc/onlyonce/onlyonce.yaml$'
}

test_building() {
  debian_unpack "$KEPT/tools.tar" "$TOOLS" || rig_die "there is a Debian to build in"
  debian_copy "$TOOLS" || rig_die "the sources are there"
  rig_check "the package is built" build "$VERSION"
  rig_check "lintian finds no error" lints "$VERSION"
  rig_check "and that of the next version" build "$NEXT"
  rig_check "the libraries are worked out" grep -q 'librabbitmq4.*libssl3' <(field Depends)
  rig_check "owners, rights and folders are those of a package" places_are_right
  echo "note $(basename "$(field Package)_$(field Version)"), installed $(field Installed-Size) KiB, needs $(field Depends)"
  rm -rf "$TOOLS"
}

# ---- without systemd, in what is hardly more than nothing ----

fresh() {
  debian_run "$FRESH" "$@"
}

# What "man" keeps for a while is its own.
left_behind() {
  find "$1" -xdev -iname '*onlyonce*' ! -name 'onlyonce*.deb' ! -path '*/var/cache/man/*' | grep .
}

# user_of ROOT : as in /etc/passwd.
user_of() {
  grep '^onlyonce:' "$1/etc/passwd"
}

is_locked() {
  grep '^onlyonce:!' "$1/etc/shadow"
}

# link_gets OWNER WANT : the configuration is a link to a file of that owner; configured again, it is that one's.
# shellcheck disable=SC2016 # the inner shell expands it
link_gets() {
  fresh sh -euc 'mv "$1" /srv/relay.yaml && ln -s /srv/relay.yaml "$1" && chown "$2" /srv/relay.yaml && dpkg-reconfigure onlyonce
    stat -c %U:%G /srv/relay.yaml && rm "$1" && mv /srv/relay.yaml "$1" && chown root:onlyonce "$1"' sh "$CONFIG" "$1" >"$RIG_DIR/linked" &&
    [ "$(tail -n 1 "$RIG_DIR/linked")" = "$2" ] && return 0
  cat "$RIG_DIR/linked"
  return 1
}

test_fresh() {
  debian_unpack "$KEPT/base.tar" "$FRESH" || rig_die "there is a fresh Debian"
  cp "$RIG_DIR/$VERSION.deb" "$FRESH/onlyonce.deb"
  rig_check "apt updates" fresh apt-get -q update
  rig_check "apt installs it, and what it needs" fresh apt-get -q install -y --no-install-recommends /onlyonce.deb
  rig_check "it runs, and tells its version" grep -qx "onlyonce $VERSION" <(fresh onlyonce --version)
  rig_check "the configuration that comes with it is one" fresh onlyonce check
  rig_check "which others cannot read" test "$(fresh stat -c '%U:%G %a' /etc/onlyonce $CONFIG | tr '\n' ' ')" = "root:onlyonce 750 root:onlyonce 640 "
  rig_check "the user is there, and nobody can log in as it" grep -qE '^onlyonce:x:[0-9]{3}:[0-9]+:.*:/var/lib/onlyonce:/usr/sbin/nologin$' \
    <(fresh getent passwd onlyonce)
  rig_check "an example of every field is there" fresh onlyonce check -c /usr/share/doc/onlyonce/examples/onlyonce.yaml
  rig_check "dpkg finds every file as it was" fresh dpkg --verify onlyonce
  rig_check "a configuration that is a link keeps the group that it has" link_gets root:adm root:adm
  rig_check "and gets ours if that is root" link_gets root:root root:onlyonce
  user_of "$FRESH" >"$RIG_DIR/user"
  rig_check "apt purges it" fresh apt-get -q purge -y onlyonce
  rig_check "and nothing is left" fails left_behind "$FRESH"
  rig_check "but the user" cmp "$RIG_DIR/user" <(user_of "$FRESH")
  rig_check "which is locked" is_locked "$FRESH"
  rig_check "apt installs it again" fresh apt-get -q install -y --no-install-recommends /onlyonce.deb
  rig_check "for the same user" cmp "$RIG_DIR/user" <(user_of "$FRESH")
  rm -rf "$FRESH"
}

# ---- completion ----

# Readline's part: the words, the last one being completed.
# shellcheck disable=SC2016 # the inner shell expands it
BASH_COMPLETES='set -eu
  . /usr/share/bash-completion/completions/onlyonce
  read -ra COMP_WORDS <<<"$1"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _onlyonce
  printf "%s\n" "${COMPREPLY[@]}"'

# completes SHELL WORDS CANDIDATE
completes() {
  case $1 in
  bash) debian_run "$BOOTED" bash -c "$BASH_COMPLETES" bash "$2" ;;
  fish) debian_run "$BOOTED" fish -c "complete -C '$2'" | cut -f 1 ;;
  esac >"$RIG_DIR/completed"
  grep -qx -- "$3" "$RIG_DIR/completed"
}

test_completion() {
  local shell
  for shell in bash fish; do
    rig_check "$shell completes a command" completes "$shell" "onlyonce rel" release
    rig_check "$shell completes an option of it" completes "$shell" "onlyonce release --f" --force
    rig_check "$shell completes a state" completes "$shell" "onlyonce list --state co" completed
    rig_check "$shell offers no other's option" fails completes "$shell" "onlyonce run --f" --force
  done
  rig_check "zsh reads its own" debian_run "$BOOTED" zsh -n /usr/share/zsh/vendor-completions/_onlyonce
}

# ---- with systemd ----

show() {
  debian_in systemctl show -P "$1" onlyonce.service
}

# put_config WINDOW PASSWORD : two routes, with two stores.
put_config() {
  cat >"$BOOTED$CONFIG" <<END
broker:
  urls: ["amqp://localhost/%2f"]
  username: guest
  password: $2
stores:
  - {name: redis, url: "redis://localhost:6379/0"}
  - {name: file, url: "sqlite:/var/lib/onlyonce/keys.db"}
admin: {listen: 127.0.0.1:8080}
routes:
  - {name: one, from: {queue: one.in}, to: {queue: one.work}, key: [body], window: $1, store: redis}
  - {name: two, from: {queue: two.in}, to: {queue: two.work}, key: [body], window: $1, store: file}
END
}

# takes QUEUE TEXT : that is the next message.
takes() {
  rig_wait_until "debian_in amqp-get -q $1 >'$RIG_DIR/taken'" 20 && [ "$(<"$RIG_DIR/taken")" = "$2" ] && return 0
  echo "$1 had \"$(<"$RIG_DIR/taken")\", not \"$2\""
  return 1
}

# relays ROUTE PREFIX : of the same message twice, and another, two come.
relays() {
  local text code=0
  for text in "$2-a" "$2-a" "$2-b"; do
    debian_in amqp-publish -r "$1.in" -b "$text" || return 1
  done
  takes "$1.work" "$2-a" && takes "$1.work" "$2-b" || return 1
  debian_in amqp-get -q "$1.work" || code=$?
  [ "$code" = 2 ]
}

is_confined() {
  local status
  status=$(debian_in cat "/proc/$(show MainPID)/status") && echo "$status" | grep -E '^(Uid|Cap|NoNew|Seccomp)' &&
    grep -q '^CapBnd:.0*$' <<<"$status" && grep -qE '^NoNewPrivs:.1$' <<<"$status" && grep -qE '^Seccomp:.2$' <<<"$status" &&
    [ "$(debian_in stat -c %U "/proc/$(show MainPID)")" = onlyonce ]
}

journal() {
  debian_in journalctl --no-pager -o cat -u onlyonce.service
}

# is_new PID : the service runs, as another process, and has told that it is ready.
is_new() {
  [ "$(show ActiveState) $(show SubState)" = "active running" ] && [ "$(show MainPID)" != "$1" ]
}

test_installing() {
  local needs
  debian_unpack "$KEPT/servers.tar" "$BOOTED" || rig_die "there is a Debian to boot"
  cp "$RIG_DIR/$VERSION.deb" "$BOOTED/onlyonce.deb"
  cp "$RIG_DIR/$NEXT.deb" "$BOOTED/next.deb"
  # Booted it has no network.
  needs=$(field Depends)
  debian_run "$BOOTED" sh -c "apt-get -q update && apt-get -q satisfy -y '$needs'" >"$RIG_DIR/satisfy.log" 2>&1 ||
    rig_die "what it depends on is there"
  debian_boot "$BOOTED" >"$RIG_DIR/boot.log" 2>&1 || rig_die "systemd boots"
  rig_wait_until "debian_in amqp-declare-queue -q boot" 90 || rig_die "RabbitMQ runs"
  rig_check "apt installs it, where systemd runs" debian_in apt-get -q install -y /onlyonce.deb
  rig_check "it is not started, nor will it be" test "$(show ActiveState) $(show UnitFileState)" = "inactive disabled"
  rig_check "the unit has no fault" debian_in systemd-analyze verify onlyonce.service
  rig_check "it is well confined" debian_in systemd-analyze security --no-pager --offline=true --threshold="$MOST_EXPOSED" onlyonce.service
  echo "note systemd $(debian_in systemctl --version | awk 'NR == 1 { print $2 }'): $(debian_in systemd-analyze security --no-pager --offline=true onlyonce.service | tail -n 1)"
  rig_check "the manual page shows" grep -qE 'forwards +the +first +RabbitMQ' <(debian_in man -P cat onlyonce)
}

test_running() {
  rig_check "the example runs as it is" debian_in systemctl start onlyonce
  debian_in systemctl stop onlyonce
  put_config 24h guest
  rig_check "the configuration is good, and its servers" debian_in setpriv --reuid=onlyonce --regid=onlyonce --clear-groups onlyonce check --connect
  rig_check "it is enabled and started" debian_in systemctl enable --now onlyonce
  rig_check "when it has started, it relays" debian_in onlyonce health
  rig_check "its status says so" test "$(show StatusText)" = "relays, routes: 2"
  rig_check "messages pass once, by Redis" relays one first
  rig_check "and by SQLite" relays two first
  rig_check "whose file is the service's alone" test "$(debian_in stat -c '%U %a' /var/lib/onlyonce /var/lib/onlyonce/keys.db | tr '\n' ' ')" = \
    "onlyonce 750 onlyonce 600 "
  rig_check "a command of root's tells of a key" grep -q forwarded <(debian_in onlyonce list two)
  rig_check "and leaves the files to the service" test -z "$(debian_in find /var/lib/onlyonce ! -user onlyonce)"
  rig_check "it has no rights but its own" is_confined
}

test_reload() {
  local pid
  pid=$(show MainPID)
  put_config 36h guest
  rig_check "a changed configuration is reloaded" debian_in systemctl reload onlyonce
  rig_check "and in force" rig_wait_until "journal | grep -q 'changed configuration is in force'" 15
  put_config soon guest
  rig_check "a reload of a fault fails" fails debian_in systemctl reload onlyonce
  rig_check "the fault is in the journal" grep -q '"soon"' <(journal)
  rig_check "and the former goes on, as the same process" test "$(show ActiveState) $(show MainPID)" = "active $pid"
  put_config 36h guest
  rig_check "it relays on" relays one reloaded
}

# drop_in SETTING : as "systemctl edit" would.
drop_in() {
  mkdir -p "$BOOTED$DROP_INS"
  printf '[Service]\n%s\n' "$1" >"$BOOTED$DROP_INS/${1%%=*}.conf"
  debian_in systemctl daemon-reload
}

# Whether systemd can hand a secret over to an ordinary user at all: it needs a ramfs, or lists of access on a tmpfs.
# shellcheck disable=SC2016 # the inner shell expands it
hands_over() {
  debian_in systemd-run --wait -q -p User=onlyonce -p LoadCredential=rabbitmq:/etc/onlyonce/rabbitmq.password \
    sh -c 'cat "$CREDENTIALS_DIRECTORY/rabbitmq"'
}

# shellcheck disable=SC2016 # the program expands it
test_credential() {
  (umask 077 && echo guest >"$BOOTED/etc/onlyonce/rabbitmq.password")
  if ! hands_over >"$RIG_DIR/handed" 2>&1; then
    echo "note not run: LoadCredential=, which does not work here for any service"
    return
  fi
  drop_in LoadCredential=rabbitmq:/etc/onlyonce/rabbitmq.password
  put_config 36h '${file:/run/credentials/onlyonce.service/rabbitmq}'
  rig_check "a password that only root can read is handed over" debian_in systemctl restart onlyonce
  rig_check "it relays with it" relays one secret
  rig_check "and is reloaded" debian_in systemctl reload onlyonce
  put_config 36h guest
}

test_failures() {
  local pid restarts
  drop_in WatchdogSec=4
  debian_in systemctl restart onlyonce
  pid=$(show MainPID)
  sleep 10
  rig_check "the watchdog leaves it alone while it is well" test "$(show MainPID)" = "$pid"
  [ "$pid" -gt 0 ] || rig_die "the service runs" # 0 would be all of us
  debian_in kill -STOP "$pid"
  rig_check "when it stands still, it is started again" rig_wait_until "is_new $pid" 30
  rig_check "because of the watchdog" grep -q 'Watchdog timeout' <(journal)
  pid=$(show MainPID)
  debian_in kill -KILL "$pid"
  rig_check "after a kill, too" rig_wait_until "is_new $pid" 20
  rig_check "it relays on" relays two restarted
  put_config soon guest
  rig_check "with a fault in the configuration it does not start" fails debian_in systemctl restart onlyonce
  restarts=$(show NRestarts)
  sleep 5
  rig_check "and is not tried again" test "$(show ActiveState) $(show ExecMainStatus) $(show NRestarts)" = "failed 2 $restarts"
  put_config 36h wrong
  rig_check "with a password that is refused the start fails" fails debian_in systemctl start onlyonce
  put_config 36h guest
  rig_check "but is tried again" rig_wait_until "is_new $pid" 20
  debian_in systemctl stop rabbitmq-server
  rig_check "without the broker it starts" debian_in systemctl restart onlyonce
  rig_check "and its status says that it waits" grep -q '^2 of 2 routes wait' <(show StatusText)
  debian_in systemctl start rabbitmq-server
  rig_check "it relays when the broker is back" relays one back
}

test_upgrade() {
  local pid
  pid=$(show MainPID)
  rig_check "apt upgrades it" debian_in apt-get -q install -y /next.deb
  rig_check "the new version runs" is_new "$pid"
  rig_check "and tells so" grep -qx "onlyonce $NEXT" <(debian_in onlyonce --version)
  rig_check "with the edited configuration" grep -q 'window: 36h' "$BOOTED$CONFIG"
  rig_check "and the same rights" test "$(debian_in stat -c '%U:%G %a' $CONFIG)" = "root:onlyonce 640"
  rig_check "it knows the keys" grep -q forwarded <(debian_in onlyonce list one)
  rig_check "and relays" relays two upgraded
  BEFORE=$SECONDS
  rig_check "it stops" debian_in systemctl stop onlyonce
  rig_check "cleanly, and soon" test "$(show Result) $((SECONDS - BEFORE < 10))" = "success 1"
  debian_in systemctl start onlyonce
}

test_removing() {
  rig_check "apt removes it" debian_in apt-get -q remove -y onlyonce
  rig_check "it has ended" fails debian_in pgrep onlyonce
  rig_check "configuration and keys are still there" test -s "$BOOTED$CONFIG" -a -s "$BOOTED/var/lib/onlyonce/keys.db"
  rig_check "apt installs it again" debian_in apt-get -q install -y /next.deb
  rig_check "enabled, as it was" test "$(show UnitFileState)" = enabled
  rig_check "apt purges it" debian_in apt-get -q purge -y onlyonce
  rm -r "$BOOTED$DROP_INS"
  rig_check "and nothing is left" fails left_behind "$BOOTED"
  rig_check "but the user, locked" is_locked "$BOOTED"
  rig_check "systemd has no failed unit of it" fails grep onlyonce <(debian_in systemctl --failed --no-legend)
}

# ---- all together ----

end() {
  local code=$?
  if [ "$BASHPID" = "$RIG_OWNER" ]; then
    [ -z "$DEBIAN_PID" ] || [ "$RIG_FAILED" = 0 ] || journal >"$RIG_DIR/journal.log"
    debian_halt
  fi
  (exit "$code")
  rig_end
}
trap end EXIT

rig_check "the systems are made" systems
test_building
test_fresh
test_installing
test_completion
test_running
test_reload
test_credential
test_failures
test_upgrade
test_removing
