#!/bin/bash
# Canonical JSON against two oracles that are not ours: jq, which sorts, compacts and unescapes by itself,
# and the parser of JavaScript.
#
# Documents are made by awk from a seed: the same value each time it is spelled, in other words. For
# what jq can do (no number beyond 2^53, no exotic spelling of one), our canonical form must be what
# jq -cS prints, and the key of body:json its digest; and what we take for JSON, jq must take, too.
#
# tests/tools/json_oracle.js makes wilder ones, good and bad, and judges them: we must agree about what
# is valid, to the byte, and about the canonical form where doubles can say what it is.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

DOCUMENTS=20000
[ -z "${ONLYONCE_LONG:-}" ] || DOCUMENTS=1000000
KEYS=40 # documents that the program itself is asked about: each is a process
CONFIG=$RIG_DIR/relay.yaml
ORACLE=$RIG_SOURCE/tests/tools/json_oracle.js

cat >"$CONFIG" <<'EOF'
broker: {urls: ["amqp://127.0.0.1"]}
stores: [{name: none, url: "memory:"}]
routes:
  - {name: value, from: {queue: v.in}, to: {queue: v.work}, key: ["body:json"], window: 24h}
  - {name: part, from: {queue: p.in}, to: {queue: p.work}, key: ["body:json:/a/1"], window: 24h}
EOF

# documents SEED COUNT : one a line.
documents() {
  awk -v seed="$1" -v count="$2" '
    function pick(n) { return int(rand() * n) }
    function blank() { return pick(4) ? "" : substr(" \t  ", 1 + pick(3), 1 + pick(2)) }
    function text(  n, s, c) {
      s = ""
      for (n = pick(6); n > 0; n--) {
        c = pick(6) ? substr("abzA09 -_.:/~", 1 + pick(13), 1) : pick(2) ? "é" : "€"
        s = s (pick(5) ? c : pick(2) ? "\\u00" (pick(2) ? "e9" : "E9") : "\\n")
      }
      return "\"" s "\""
    }
    function number(  n) {
      n = pick(2000000) - 1000000
      if (pick(3) == 0) return n "." (1 + pick(9)) (pick(2) ? "0" : "")
      return pick(3) ? n : n ".0"
    }
    function value(depth,  n, i, s, names) {
      i = pick(depth > 0 ? 8 : 5)
      if (i == 0) return text()
      if (i == 1) return number()
      if (i == 2) return "true"
      if (i == 3) return pick(2) ? "false" : "null"
      if (i == 4) return pick(2) ? "[]" : "{}"
      n = 1 + pick(4)
      s = ""
      if (i == 5) {
        while (n-- > 0) s = s (s ? "," : "") blank() value(depth - 1) blank()
        return "[" s "]"
      }
      split("a bb c_1 A é", names, " ")
      i = pick(5)
      while (n-- > 0) {
        s = s (s ? "," : "") blank() "\"" names[1 + (i++ % 5)] "\"" blank() ":" value(depth - 1)
      }
      return "{" s "}"
    }
    BEGIN { srand(seed); for (k = 0; k < count; k++) print blank() value(4) blank() }'
}

key_of() {
  "$RIG_BUILD/onlyonce" key "$1" -c "$CONFIG" 2>/dev/null | cut -f1
}

digest() {
  printf 'sha256:%s' "$(sha256sum | cut -d' ' -f1)"
}

# jq writes a number that it calculated in the shortest way; from 1.7 on, one that it read as it was.
sorted_by_jq() {
  jq -cS 'walk(if type == "number" then . + 0 else . end)'
}

agrees_with_jq() {
  documents 7 "$DOCUMENTS" >"$RIG_DIR/documents"
  "$RIG_BUILD/tests/canonical" <"$RIG_DIR/documents" >"$RIG_DIR/ours" &&
    sorted_by_jq <"$RIG_DIR/documents" >"$RIG_DIR/theirs" &&
    [ "$(wc -l <"$RIG_DIR/ours")" = "$DOCUMENTS" ] &&
    diff "$RIG_DIR/ours" "$RIG_DIR/theirs" | head -n 20 && cmp "$RIG_DIR/ours" "$RIG_DIR/theirs"
}

keys_are_digests() {
  local document want
  while IFS= read -r document; do
    want=$(sorted_by_jq <<<"$document" | tr -d '\n' | digest)
    [ "$(printf '%s' "$document" | key_of value)" = "$want" ] || {
      echo "they differ about: $document"
      return 1
    }
  done < <(documents 9 "$KEYS")
}

# Cut and changed documents: what is JSON for us is JSON for jq as well. jq stops at what is none, so
# what we refuse is left out.
takes_no_more_than_jq() {
  documents 8 "$DOCUMENTS" | awk 'BEGIN { srand(8) } {
    n = length($0)
    at = 1 + int(rand() * n)
    c = substr("{}[],:\"\\0 ", 1 + int(rand() * 10), 1)
    print substr($0, 1, at - 1) (rand() < 0.7 ? c : "") substr($0, at + 1)
  }' >"$RIG_DIR/broken"
  "$RIG_BUILD/tests/canonical" <"$RIG_DIR/broken" >"$RIG_DIR/ours"
  paste -d '\n' "$RIG_DIR/ours" "$RIG_DIR/broken" |
    awk 'NR % 2 { taken = $0 != "invalid" } NR % 2 == 0 && taken' >"$RIG_DIR/taken"
  jq -c . "$RIG_DIR/taken" >/dev/null &&
    [ -s "$RIG_DIR/taken" ] && grep -q invalid "$RIG_DIR/ours"
}

agrees_with_javascript() {
  node "$ORACLE" make 3 "$DOCUMENTS" >"$RIG_DIR/wild" &&
    "$RIG_BUILD/tests/canonical" <"$RIG_DIR/wild" >"$RIG_DIR/ours" &&
    node "$ORACLE" compare "$RIG_DIR/wild" "$RIG_DIR/ours"
}

same_part() {
  local a b
  a=$(printf '%s' '{"a":[0,{"y":[1,2.50],"x":"\u00e9"}]}' | key_of part)
  b=$(printf '%s' '[{"x":"é","y":[1.0,25e-1]}]' | jq -c '{z:1,a:[7,.[0]]}' | key_of part)
  [ -n "$a" ] && [ "$a" = "$b" ]
}

rig_check "canonical JSON is what jq sorts and compacts: $DOCUMENTS documents" agrees_with_jq
rig_check "and the key is its digest" keys_are_digests
rig_check "what is JSON for us is JSON for jq" takes_no_more_than_jq
rig_check "JavaScript agrees about what is valid, and how it is written: $DOCUMENTS documents" agrees_with_javascript
rig_check "a part's digest is that of its value" same_part
