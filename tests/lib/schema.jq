# schema.jq - what of an answer does not fit the schema of an OpenAPI document: as much of JSON Schema as
# docs/openapi.yaml uses. Where properties are listed, others are wrong.

def deref($doc):
  if has("$ref") then .["$ref"] as $r | $doc | getpath($r | ltrimstr("#/") | split("/")) else . end;

# schema_of($method; $path; $status; $type) : of that answer; empty if the document does not list it.
def schema_of($method; $path; $status; $type):
  . as $doc | .paths[$path][$method | ascii_downcase].responses[$status] // empty
  | deref($doc) | .content[$type] // empty | .schema;

# wrong($doc; $schema; $where) : sentences, none if it fits.
def wrong($doc; $schema; $where):
  . as $value | ($schema | deref($doc)) as $s
  | if $s.type == null then empty
    elif $s.type == "integer" then
      if type == "number" and . == floor then empty else "\($where): is no integer" end
    elif type != $s.type then "\($where): is no \($s.type)"
    else
      (if $s.enum and ($s.enum | index([$value]) | not) then "\($where): \($value) is not listed" else empty end),
      (if type == "array" then range(length) as $i | .[$i] | wrong($doc; $s.items; "\($where)[\($i)]") else empty end),
      (if type == "object" then
         (($s.required // [])[] as $name | if has($name) then empty else "\($where): lacks \($name)" end),
         (keys[] as $name
          | ($s.properties[$name]? // $s.additionalProperties? // null) as $of
          | if $of != null then .[$name] | wrong($doc; $of; "\($where).\($name)")
            elif $s.properties then "\($where): has \($name), which is not listed"
            else empty end)
       else empty end)
    end;
