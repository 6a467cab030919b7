// documents - takes the documentation apart for tests/integration/docs.sh and drift.sh.
//
//   node documents.js blocks FOLDER FILE...     each fenced block to FOLDER/NUMBER; prints "NUMBER WORD FILE:LINE"
//   node documents.js commands BLOCK            of a block "console": each command to BLOCK.N, what it prints to BLOCK.N.want
//   node documents.js matches WANT GOT          whether they are the same, but for numbers; "..." is anything, as a line
//                                               of its own any lines; the differences are printed
//   node documents.js schema SCHEMA             of lines "NAME<tab>JSON": prints the names of those that it refuses, and why
//   node documents.js links FILE...             prints links that lead nowhere
//   node documents.js log FILE.c...             all that these can log
//   node documents.js table FILE HEADING        the words in backquotes in the first column of the tables under it
'use strict';

const fs = require('fs');
const path = require('path');

const read = (file) => fs.readFileSync(file, 'utf8');
const linesOf = (text) => text.replace(/\n$/, '').split('\n');

// ---- Blocks ----

function blocksOf(file) {
  const blocks = [];
  let open = null;
  linesOf(read(file)).forEach((line, i) => {
    const fence = /^```(.*)$/.exec(line);
    if (!fence) {
      if (open) open.lines.push(line);
    } else if (open) {
      blocks.push(open);
      open = null;
    } else {
      open = { word: fence[1] || '-', at: `${file}:${i + 1}`, lines: [] };
    }
  });
  if (open) throw new Error(`${open.at}: the block has no end`);
  return blocks;
}

function blocks(folder, ...files) {
  files.flatMap(blocksOf).forEach((block, i) => {
    fs.writeFileSync(path.join(folder, String(i)), block.lines.join('\n') + '\n');
    console.log(i, block.word, block.at);
  });
}

function commands(block) {
  const found = [];
  for (const line of linesOf(read(block))) {
    if (line.startsWith('$ ')) found.push({ command: line.slice(2), want: [] });
    else if (found.length === 0) throw new Error(`"${line}" is before any "$ command"`);
    else found[found.length - 1].want.push(line);
  }
  found.forEach(({ command, want }, i) => {
    while (want.length && want[want.length - 1] === '') want.pop();
    fs.writeFileSync(`${block}.${i}`, command + '\n');
    fs.writeFileSync(`${block}.${i}.want`, want.map((line) => line + '\n').join(''));
    console.log(`${block}.${i}`);
  });
}

// ---- Comparing ----

function patternOf(line) {
  const escaped = line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return escaped.replace(/(\\\.){3}/g, '.*').replace(/[0-9]+/g, '[0-9]+').replace(/ +/g, ' +');
}

function matches(wantFile, gotFile) {
  const want = linesOf(read(wantFile)).map((line) => (line === '...' ? '(.*\n)*' : `${patternOf(line)} *\n`));
  const got = linesOf(read(gotFile).replace(/\n+$/, '\n')).map((line) => line + '\n').join('');
  if (new RegExp(`^${want.join('')}$`).test(got)) return true;
  console.log(`wanted:\n${read(wantFile)}got:\n${got}`);
  return false;
}

// ---- JSON Schema, by somebody else's validator ----

function schema(file) {
  const Ajv = require('ajv'); // Debian's node-ajv, in its NODE_PATH
  const document = JSON.parse(read(file));
  delete document.$schema; // Its versions know the keywords, but not all drafts by name.
  const validate = new Ajv({ strict: false, logger: false }).compile(document);
  for (const line of linesOf(fs.readFileSync(0, 'utf8'))) {
    const [name, json] = line.split('\t');
    if (!validate(JSON.parse(json))) {
      const e = validate.errors[0];
      console.log(`${name}: ${e.instancePath ?? e.dataPath} ${e.message} ${JSON.stringify(e.params)}`);
    }
  }
}

// ---- Links ----

const anchorOf = (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, '').replace(/ /g, '-');

function anchorsOf(file) {
  return linesOf(read(file)).filter((line) => /^#+ /.test(line)).map((line) => anchorOf(line.replace(/^#+ /, '')));
}

function links(...files) {
  let good = true;
  for (const file of files) {
    for (const [, target] of read(file).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [name, anchor] = target.split('#');
      const to = name ? path.join(path.dirname(file), name) : file;
      if (!fs.existsSync(to) || (anchor && !anchorsOf(to).includes(anchor))) {
        console.log(`${file}: ${target}`);
        good = false;
      }
    }
  }
  return good;
}

// ---- What the program can log ----

const STRING = /"((?:[^"\\]|\\.)*)"/g;

// The arguments of a call whose "(" is at `start`, split at its own commas.
function argumentsAt(text, start) {
  const found = [''];
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const string = text[i] === '"' ? /^"(?:[^"\\]|\\.)*"/.exec(text.slice(i))[0] : null;
    if (string) {
      found[found.length - 1] += string;
      i += string.length - 1;
      continue;
    }
    if (text[i] === ')' && --depth === 0) return found;
    if (text[i] === ',' && depth === 1) found.push('');
    else if (depth > 0) found[found.length - 1] += text[i];
    if (text[i] === '(') depth++;
  }
  throw new Error('a call has no end');
}

// Which argument is the event. Functions that are given one by others are listed, too.
const EVENT = {
  LOG_DEBUG: 0, LOG_INFO: 0, LOG_WARNING: 0, LOG_ERROR: 0, log_line: 1, log_pairs: 1, say_configuration: 1,
  say_counts: 2, fleet_say_counts: 2,
};

// Texts that stand beside each other are one; those between "?" and ":" are several.
const textsIn = (code) => code.split(/[?:](?=(?:[^"]*"[^"]*")*[^"]*$)/)
  .map((part) => [...part.matchAll(STRING)].map((m) => m[1]).join('')).filter((text) => text);

function log(...files) {
  const found = new Set();
  for (const file of files) {
    const text = read(file);
    for (const m of text.matchAll(/\b(\w+)\(/g)) {
      if (!(m[1] in EVENT)) continue;
      const event = argumentsAt(text, m.index + m[1].length)[EVENT[m[1]]] || '';
      const texts = textsIn(event);
      texts.forEach((t) => found.add(t));
      // A variable: whoever has it is listed above, or is source_warning().
      if (!texts.length && !/^\s*(const char \*)?(event|warning|fmt)$/.test(event) && !/^\s*\.{3}$/.test(event)) {
        throw new Error(`${file}: what does ${m[1]}(${event}) log?`);
      }
    }
    const warning = /source_warning\([^)]*\)\s*{([^}]*)}/.exec(text);
    if (warning) textsIn(warning[1]).forEach((t) => found.add(t));
  }
  [...found].sort().forEach((t) => console.log(t));
}

// ---- Tables ----

function table(file, heading) {
  const lines = linesOf(read(file));
  const begin = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (begin < 0) throw new Error(`${file} has no heading "${heading}"`);
  for (const line of lines.slice(begin + 1)) {
    if (/^#+ /.test(line)) break;
    const cell = /^\| (.*?) \|/.exec(line);
    if (cell) [...cell[1].matchAll(/`([^`]*)`/g)].forEach((m) => console.log(m[1]));
  }
}

const verbs = { blocks, commands, matches, schema, links, log, table };
const [verb, ...rest] = process.argv.slice(2);
if (!(verb in verbs)) throw new Error(`"${verb}" is none of ${Object.keys(verbs).join(', ')}`);
process.exitCode = verbs[verb](...rest) === false ? 1 : 0;
