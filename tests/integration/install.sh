#!/bin/bash
# What "cmake --install" puts where, and that it works from there.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

ROOT=$RIG_DIR/root
EXAMPLES=$ROOT/usr/share/doc/onlyonce/examples

installed() {
  DESTDIR=$ROOT cmake --install "$RIG_BUILD" --prefix /usr
}

# Programs and libraries besides the one.
others() {
  find "$ROOT" -type f \( -perm -u+x -o -name '*.a' -o -name '*.h' \) ! -path "$ROOT/usr/bin/onlyonce"
}

is_empty() {
  [ ! -s "$1" ]
}

rig_check "it installs" installed
rig_check "the program" rig_exits 0 "$ROOT/usr/bin/onlyonce" --version
cp "$RIG_DIR/out" "$RIG_DIR/version"
rig_check "it is the one that was built" rig_exits 0 rig_onlyonce --version
rig_check "and says the same version" cmp "$RIG_DIR/out" "$RIG_DIR/version"
rig_check "the manual page" grep -q '^.TH ONLYONCE 1' "$ROOT/usr/share/man/man1/onlyonce.1"
if command -v groff >/dev/null; then
  groff -man -Tutf8 -ww "$ROOT/usr/share/man/man1/onlyonce.1" >/dev/null 2>"$RIG_DIR/groff"
  rig_check "the manual page has no fault" is_empty "$RIG_DIR/groff"
fi
rig_check "the schema that editors take" cmp "$RIG_SOURCE/docs/onlyonce.schema.json" "$ROOT/usr/share/onlyonce/onlyonce.schema.json"
rig_check "the example is a good configuration" \
  rig_exits 0 "$ROOT/usr/bin/onlyonce" check -c "$EXAMPLES/onlyonce.yaml"
others >"$RIG_DIR/others"
rig_check "no tests, no tools, no libraries" is_empty "$RIG_DIR/others"
