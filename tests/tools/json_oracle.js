// json_oracle - a judge of JSON that is not ours: the parser of JavaScript.
//
//   node json_oracle.js make SEED COUNT         documents, one a line, good and bad ones
//   node json_oracle.js compare DOCUMENTS OURS  our canonical form of each ("invalid": it is none)
//
// compare prints what they differ about; it fails if they do, or if a kind of document is missing.
// JSON.parse takes more than we do on purpose, and that is judged here: names that occur twice, lone
// surrogates, depth, long exponents. Its numbers are doubles, which say all about a decimal of at
// most 15 digits; of a document with a longer one we only ask whether it is valid.
'use strict';

const fs = require('fs');

const DEPTH_MAX = 512;
const SHOWN = 20; // differences
const SHARE = 4000; // of so many documents at least one is of each kind

// ---- Making documents ----

function makeRandom(seed) { // below n; by Marsaglia's xorshift
  let state = (seed * 2654435761 + 1) >>> 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

function maker(seed) {
  const below = makeRandom(seed);
  const pick = (list) => list[below(list.length)];
  const times = (n, make) => Array.from({ length: n }, make);

  const blanks = () => (below(4) ? '' : times(1 + below(2), () => pick([' ', '\t', '\r'])).join(''));

  function codePoint() {
    switch (below(12)) {
      case 0: return below(0x20);
      case 1: return pick([0x22, 0x2f, 0x5c, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff]);
      case 2: return 0x80 + below(0x780);
      case 3: return 0x800 + below(0xd000);
      case 4: return 0xe000 + below(0x2000);
      case 5: return 0x10000 + below(0x100000);
      default: return 0x61 + below(4);
    }
  }

  function escaped(unit) {
    const hex = unit.toString(16).padStart(4, '0');
    return '\\u' + (below(2) ? hex : hex.toUpperCase());
  }

  function character() {
    const code = codePoint();
    const text = String.fromCodePoint(code);
    const short = JSON.stringify(text).slice(1, -1);
    if (below(4) === 0) return times(text.length, (_, i) => escaped(text.charCodeAt(i))).join('');
    return code === 0x2f && below(2) ? '\\/' : short;
  }

  function string() {
    const surrogates = below(1000) ? 0 : 1 + below(2);
    const odd = times(surrogates, () => escaped(0xd800 + below(0x800)));
    return '"' + times(below(6), character).concat(odd).join('') + '"';
  }

  function digits(n) {
    return times(n, () => below(10)).join('');
  }

  function number() {
    const whole = below(3) ? 1 + below(9) + digits(below(below(20) ? 8 : 25)) : '0';
    const fraction = below(3) ? '' : '.' + digits(1 + below(6));
    const exponent = below(4) ? '' : pick(['e', 'E']) + pick(['', '+', '-']) + digits(1 + below(2));
    const long = below(500) ? '' : (exponent || 'e') + digits(14 + below(4));
    return pick(['', '-']) + whole + fraction + (long || exponent);
  }

  function array(depth) {
    return '[' + times(below(4), () => blanks() + value(depth - 1) + blanks()).join(',') + ']';
  }

  function members(depth) {
    const names = times(below(60) ? below(5) : below(60), string);
    const once = below(20) ? [...new Map(names.map((n) => [JSON.parse(n), n])).values()] : names;
    return once.map((name) => blanks() + name + blanks() + ':' + value(depth - 1));
  }

  function value(depth) {
    switch (below(depth > 0 ? 9 : 4)) {
      case 0: return string();
      case 1:
      case 2: return number();
      case 3: return pick(['true', 'false', 'null']);
      case 4:
      case 5: return array(depth);
      default: return blanks() + '{' + members(depth).join(',') + '}' + blanks();
    }
  }

  // Around the deepest that is allowed, half of it objects that are to be sorted.
  function deep() {
    let text = value(1);
    for (let n = DEPTH_MAX - 4 + below(6); n > 0; n--)
      text = below(2) ? '[' + text + ']' : '{"b":' + text + ',"a":' + below(9) + '}';
    return text;
  }

  // Control characters, and UTF-8 that is cut, too long, a surrogate, or beyond U+10FFFF.
  const odd = ['00', '09', '1f', '80', 'c3', 'ff', 'c080', 'c1bf', 'e09fbf', 'eda080', 'edbfbf',
    'efbbbf', 'f08fbfbf', 'f09f98', 'f4908080'].map((hex) => Buffer.from(hex, 'hex'));
  const usual = [...'{}[],:"\\0 1-+.eEutrn/'].map((c) => Buffer.from(c));

  function damage(bytes) {
    const at = below(bytes.length + 1);
    const put = below(3) ? pick(below(3) ? usual : odd) : Buffer.alloc(0);
    return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + below(2))]);
  }

  return () => {
    let bytes = Buffer.from(blanks() + (below(200) ? value(4) : deep()) + blanks());
    if (below(500) === 0) bytes = Buffer.concat([Buffer.from('\ufeff'), bytes]);
    return below(3) ? bytes : damage(bytes);
  };
}

function make(seed, count) {
  const document = maker(seed);
  let lines = [];
  for (let i = 0; i < count; i++) {
    lines.push(document(), Buffer.from('\n'));
    if (lines.length > 10000 || i === count - 1) {
      process.stdout.write(Buffer.concat(lines));
      lines = [];
    }
  }
}

// ---- Judging them ----

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// Why we do not take what JSON.parse takes.
class Refusal extends Error {}

function checkText(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Refusal('lone surrogate');
}

// Their canonical form, and in `seen` how many members there are.
function canonical(value, depth, seen) {
  if (typeof value === 'string') checkText(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depth === DEPTH_MAX) throw new Refusal('too deep');
  if (Array.isArray(value))
    return '[' + value.map((each) => canonical(each, depth + 1, seen)).join(',') + ']';
  const names = Object.keys(value);
  names.forEach(checkText);
  seen.members += names.length;
  return '{' + names.map((name) => [Buffer.from(name), name])
    .sort((a, b) => Buffer.compare(a[0], b[0]))
    .map(([, name]) => JSON.stringify(name) + ':' + canonical(value[name], depth + 1, seen))
    .join(',') + '}';
}

// Does a double say all about this decimal?
function isExact(number) {
  const digits = number.replace(/[eE].*/, '').replace(/[-.]/g, '').replace(/^0+|0+$/g, '');
  const size = Math.abs(Number(number));
  return digits === '' || (digits.length <= 15 && size > 1e-300 && size < 1e300);
}

// Of a document that JSON.parse takes. No form: no more can be said than that it is valid.
function judgeValue(value, text) {
  const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, '""'); // It is valid, so this finds all strings.
  const numbers = bare.match(/-?\d[\d.eE+-]*/g) || [];
  const seen = { members: 0 };
  const form = canonical(value, 0, seen);
  if (seen.members < (bare.match(/:/g) || []).length) throw new Refusal('name twice');
  if (numbers.some((number) => /[eE][+-]?0*[1-9]\d{15}/.test(number)))
    throw new Refusal('long exponent');
  return numbers.every(isExact) ? { kind: 'same form', form } : { kind: 'only valid' };
}

function judge(bytes) {
  try {
    const text = utf8.decode(bytes);
    return judgeValue(JSON.parse(text), text);
  } catch (error) {
    if (error instanceof Refusal) return { kind: error.message, form: 'invalid' };
    if (error instanceof SyntaxError) return { kind: 'no JSON', form: 'invalid' };
    if (error.code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      return { kind: 'no UTF-8', form: 'invalid' };
    throw error;
  }
}

function* linesOf(file) {
  const bytes = fs.readFileSync(file);
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(10, at);
    yield bytes.subarray(at, end);
    at = end + 1;
  }
}

function compare(documents, ours) {
  const kinds = ['no UTF-8', 'no JSON', 'lone surrogate', 'too deep', 'name twice', 'long exponent',
    'only valid', 'same form'];
  const count = Object.fromEntries(kinds.map((kind) => [kind, 0]));
  const answers = linesOf(ours);
  let total = 0;
  let differences = 0;
  for (const document of linesOf(documents)) {
    const answer = String(answers.next().value ?? 'nothing');
    const { kind, form } = judge(document);
    total++;
    count[kind]++;
    if (form === undefined ? answer !== 'invalid' : answer === form) continue;
    if (differences++ < SHOWN) console.log(`${document}\n  ours: ${answer}\n  theirs: ${form ?? kind}`);
  }
  console.log(`${total} documents, ${differences} differences`, count);
  return differences === 0 && answers.next().done && kinds.every((kind) => count[kind] * SHARE > total);
}

const [what, a, b] = process.argv.slice(2);
if (what === 'make') make(Number(a), Number(b));
else if (what === 'compare') process.exitCode = compare(a, b) ? 0 : 1;
else process.exitCode = 2;
