#!/bin/bash
# Unique and duplicate messages, by every kind of key, and messages without one.

set -u
# shellcheck source=tests/lib/rig.sh
. "$(dirname "$0")/../lib/rig.sh"

CONFIG=$RIG_DIR/relay.yaml

# route NAME KEY [LINE...] : a route from NAME.in to NAME.work.
route() {
  local name=$1 key=$2 line
  shift 2
  echo "  - name: $name"
  echo "    from: {queue: $name.in, queue_type: classic}"
  echo "    to: {queue: $name.work, queue_type: classic}"
  echo "    park: {queue_type: classic}"
  echo "    key: [$key]"
  echo "    window: 24h"
  for line; do
    echo "    $line"
  done
}

configure() {
  rig_config_head
  echo "routes:"
  route id message_id
  route header '"header:x-transaction-id"'
  route body body
  route json '"json:/transaction/id"'
  route canonical '"body:json"'
  route either '"txn = header:x-transaction-id"' | sed 's/\]$/, "msg = message_id"]/'
  route pair '"app_id + type + routing_key"'
  route strict message_id "on_missing_key: park"
  route many message_id "workers: 3"
  route brief message_id | sed 's/24h/6s/'
}

bodies() {
  rig_takes "$1.work" "$2" "map(.body) == $3"
}

# load NAME PLACE SEED : 1500 ids and 750 duplicates; every id arrives once, nothing else does.
load() {
  rig_load --queue "$1.in" --count 1500 --duplicates 33 --id-in "$2" --seed "$3" --prefix "$1-" &&
    rig_wait_empty "$1.in" 60 &&
    rig_wait_depth "$1.work" 1500 60 &&
    rig_account --work "$1.work" --park "$1.in.parked" --in "$1.in" --count 1500 --id-in "$2" \
      --prefix "$1-" --max-marked 0 --max-parked 0
}

rig_redis_start --appendonly no
rig_rabbit_start
configure >"$CONFIG"
rig_relay_start relay "$CONFIG"
for name in id header body json canonical either pair strict brief; do
  rig_relay_ready relay $name.in
done

rig_check "by message_id: 1500 of 2250 arrive" load id message-id 1
rig_check "by a header: 1500 of 2250 arrive" load header header:x-transaction-id 2
rig_check "by the body's digest: 1500 of 2250 arrive" load body body 3
rig_wait_until "[ \"\$(rig_queue_consumers many.in)\" = 3 ]" 60
rig_check "by three workers of one route: 1500 of 2250 arrive" load many message-id 4

rig_post --queue id.in --message-id a --body 1
rig_post --queue id.in --message-id a --body 2
rig_post --queue id.in --message-id A --body 3
rig_post --queue id.in --message-id "a " --body 4
rig_post --queue id.in --message-id a --body 5 --count 3
rig_post --queue id.in --message-id fence --body fence
rig_check "the first message of an id passes, whatever the others say" \
  bodies id 4 '["1","3","4","fence"]'

rig_post --queue header.in --header x-transaction-id=42 --body text
rig_post --queue header.in --number x-transaction-id=42 --body number
rig_post --queue header.in --header X-Transaction-Id=42 --body other-name
rig_post --queue header.in --header x-transaction-id= --body empty
rig_post --queue header.in --header x-transaction-id=fence --body fence
rig_check "a header's text and number agree; another name or empty text is no key" \
  bodies header 4 '["text","other-name","empty","fence"]'

rig_post --queue body.in --body same --message-id 1
rig_post --queue body.in --body same --message-id 2
rig_post --queue body.in --body same. --message-id 1
rig_post --queue body.in
rig_post --queue body.in
rig_post --queue body.in --body fence
rig_check "bodies are told apart by their bytes alone, the empty one included" \
  bodies body 4 '["same","same.","","fence"]'

rig_post --queue json.in --body '{"transaction": {"id": 7}, "try": 1}'
rig_post --queue json.in --body '{"try": 2, "transaction": {"id": 7}}'
rig_post --queue json.in --body '{"transaction": {"id": "7"}}'
rig_post --queue json.in --body '{"transaction": {}}'
rig_post --queue json.in --body '{"transaction": {"id": 7}'
rig_post --queue json.in --body '{"transaction": {"id": "fence"}}'
rig_check "by a JSON pointer; without it, and without JSON, there is no key" rig_takes json.work 4 \
  'map(.headers | .["x-onlyonce-key"]) == ["7",null,null,"fence"]'

rig_post --queue canonical.in --body '{"a": 1, "b": [1.0, "\u0041"]}'
rig_post --queue canonical.in --body ' {"b":[1,"A"],"a":10e-1} '
rig_post --queue canonical.in --body '{"a":1,"b":["A",1]}'
rig_post --queue canonical.in --body '"fence"'
rig_check "by the canonical form of a JSON body" bodies canonical 3 \
  '["{\"a\": 1, \"b\": [1.0, \"\\u0041\"]}","{\"a\":1,\"b\":[\"A\",1]}","\"fence\""]'

rig_post --queue either.in --header x-transaction-id=t --message-id m --body 1
rig_post --queue either.in --header x-transaction-id=t --message-id n --body 2
rig_post --queue either.in --message-id m --body 3
rig_post --queue either.in --message-id m --body 4
rig_post --queue either.in --message-id t --body 5
rig_post --queue either.in --message-id fence --body 6
rig_check "the first alternative that a message has is its key" bodies either 4 '["1","3","5","6"]'

rig_post --queue pair.in --app-id a --type b,c --body 1
rig_post --queue pair.in --app-id a,b --type c --body 2
rig_post --queue pair.in --app-id a --type b,c --body 3
rig_post --queue pair.in --app-id a --body 4
rig_post --queue pair.in --app-id a --body 5
rig_post --queue pair.in --app-id fence --type fence --body 6
rig_check "parts of a key do not run into each other, and all of them are needed" \
  bodies pair 5 '["1","2","4","5","6"]'

rig_post --queue id.in --body 1
rig_post --queue id.in --message-id "" --body 2
rig_post --queue id.in --message-id fence2 --body 3
rig_check "without a key, forwarded and marked x-onlyonce-no-key" rig_takes id.work 3 \
  'map(.body) == ["1","2","3"] and
   map(.headers["x-onlyonce-no-key"]) == [true,true,null] and
   map(.headers["x-onlyonce-key"]) == [null,null,"fence2"]'

rig_post --queue strict.in --body 1
rig_post --queue strict.in --body 1
rig_post --queue strict.in --message-id fence --body fence
rig_check "on_missing_key: park: the others pass" bodies strict 1 '["fence"]'
rig_check "and the one without a key is parked, with the reason and where it came from" \
  rig_takes strict.in.parked 2 \
  'all(.body == "1" and .headers["x-onlyonce-reason"] == "no_key" and
   .headers["x-onlyonce-route"] == "strict" and .headers["x-onlyonce-exchange"] == "" and
   .headers["x-onlyonce-routing-key"] == "strict.in")'

rig_post --queue either.in --message-id equal --body 1
rig_post --queue id.in --message-id equal --body 2
rig_post --queue either.in --message-id equal --body 3
rig_post --queue either.in --message-id fence3 --body fence
rig_check "a route's keys are its own" bodies id 1 '["2"]'
rig_check "a route's keys are its own, both ways" bodies either 2 '["1","fence"]'

rig_post --queue brief.in --message-id b --body 1
rig_post --queue brief.in --message-id b --body 2
rig_wait_depth brief.work 1 30
rig_wait_until "[ -z \"\$(rig_redis_cli get onlyonce:key:brief:b)\" ]" 30
rig_post --queue brief.in --message-id b --body 3
rig_post --queue brief.in --message-id fence --body fence
rig_check "after its window a key is new" bodies brief 3 '["1","3","fence"]'

says_what_it_is() {
  rig_post --queue id.in --message-id "~ü x" &&
    rig_takes id.work 1 ".[0].headers |
      .[\"x-onlyonce-route\"] == \"id\" and .[\"x-onlyonce-key\"] == \"~7E~C3~BC~20x\" and
      (now * 1000 - .[\"x-onlyonce-first-seen\"] | . > -1000 and . < 20000) and length == 3"
}
rig_check "a copy says its route, its key and when the key was first seen" says_what_it_is
