/* The first part of the page's script: texts, the document, the server, rates and the chart. page.js goes on. */
'use strict';

const POLL_MS = 2000;
const HISTORY_EVERY_MS = 4000; // the server adds to it every 5 s
const PATIENCE_MS = 5000;
const KEY_PATIENCE_MS = 30000; // a key is asked of the store
const RATE_OVER_MS = 10000;
const CHART_MS = 600000;
const RECENT_AT_ONCE = 8; // routes whose recent messages are asked for in one go
const RECENT_SHORT = 12;
const STILL_MS = 30000;
const $ = (id) => document.getElementById(id);

/* ---- Texts ---- */

const whole = new Intl.NumberFormat('en');
const tenths = new Intl.NumberFormat('en', {minimumFractionDigits: 1, maximumFractionDigits: 1});
const number = (n) => whole.format(n);
const perSecond = (n) => n === null ? '–' : n > 0 && n < 99.95 ? tenths.format(n) : whole.format(Math.round(n));

function two(n) {
  return String(n).padStart(2, '0');
}

function clock(date) {
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/* With the day, if that is not today. */
function moment(iso) {
  const date = new Date(iso);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? '' : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `) + clock(date);
}

function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60)
    return `${seconds} s`;
  if (seconds < 3600)
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 172800)
    return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

function plural(n, one) {
  return `${number(n)} ${one}${n === 1 ? '' : 's'}`;
}

/* ---- The document ---- */

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className)
    element.className = className;
  if (text !== undefined)
    element.textContent = text;
  return element;
}

/* Writes only what differs, so that a live region speaks of news alone. */
function say(id, text, className) {
  const element = $(id);
  if (element.textContent !== text)
    element.textContent = text;
  if (className !== undefined && element.className !== className)
    element.className = className;
}

/* A cell is a text or {text, sub, tag, title, press}: with a second line, as a tag of that colour, as a button. */
function fillCell(td, cell) {
  const shown = JSON.stringify(cell);
  if (td.shown === shown)
    return;
  td.shown = shown;
  const {text, sub, tag, title, press} = typeof cell === 'object' ? cell : {text: cell};
  const inner = make('span', '');
  if (press) {
    const button = make('button', '', text);
    button.type = 'button';
    button.addEventListener('click', press);
    inner.append(button);
  } else {
    inner.append(tag === undefined ? text : make('span', `tag ${tag}`, text));
  }
  if (sub)
    inner.append(make('small', '', sub));
  if (title)
    inner.title = title;
  td.replaceChildren(inner);
}

/* Rows are {id, cells}. A row that stays is the same element as before: it keeps focus and selection. */
function fillTable(id, rows) {
  const table = $(id);
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const wanted = new Set(rows.map((row) => row.id));
  const present = new Map();
  for (const tr of [...body.rows]) {
    if (wanted.has(tr.dataset.id))
      present.set(tr.dataset.id, tr);
    else
      tr.remove();
  }
  rows.forEach((row, i) => {
    const tr = present.get(row.id) || make('tr');
    tr.dataset.id = row.id;
    tr.setAttribute('role', 'row'); // Shown as a card it would be none to a screen reader.
    if (body.rows[i] !== tr)
      body.insertBefore(tr, body.rows[i] || null);
    row.cells.forEach((cell, k) => {
      const td = tr.cells[k] || tr.appendChild(make('td', heads[k].className));
      td.dataset.label = heads[k].textContent;
      td.setAttribute('role', 'cell');
      if (k === 0 && id === 'routes')
        td.className = 'name';
      fillCell(td, cell);
    });
  });
  table.hidden = rows.length === 0;
}

/* Keeps what is chosen, if it is still there. */
function fillSelect(id, values) {
  const select = $(id);
  const shown = JSON.stringify(values);
  if (select.shown === shown)
    return;
  const chosen = select.value;
  select.shown = shown;
  select.replaceChildren(...values.map(([value, text]) => {
    const option = make('option', '', text);
    option.value = value;
    return option;
  }));
  if (values.some(([value]) => value === chosen))
    select.value = chosen;
}

/* ---- The server ---- */

/* The token's only place is this tab's storage, which a browser may refuse. */
const keeper = {
  get() {
    try {
      return sessionStorage.getItem('token') || '';
    } catch {
      return '';
    }
  },
  set(token) {
    try {
      if (token)
        sessionStorage.setItem('token', token);
      else
        sessionStorage.removeItem('token');
    } catch {
      // It is kept by this page alone then.
    }
  },
};
let token = keeper.get();

/* An answer that says no. */
class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/* A header has bytes; those of a token are UTF-8. */
function bytesOf(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function detailOf(text, status) {
  try {
    return JSON.parse(text).detail || `status ${status}`;
  } catch {
    return `status ${status}`;
  }
}

/* The body's text. */
async function ask(method, path, {body, patience = PATIENCE_MS} = {}) {
  const headers = token ? {Authorization: `Bearer ${bytesOf(token)}`} : {};
  const response = await fetch(path, {method, headers, body, cache: 'no-store', signal: AbortSignal.timeout(patience)});
  const text = await response.text();
  if (!response.ok)
    throw new Refusal(response.status, detailOf(text, response.status));
  return text;
}

const read = async (path) => JSON.parse(await ask('GET', path));

/* ---- What is known ---- */

const known = {
  status: null, // of /v1/routes
  at: 0, // performance.now() when that came
  answered: null, // the Date of the last answer
  history: new Map(), // by route: {at: [], forwarded: [], duplicates: []}, at as performance.now()
  historyAt: -Infinity,
  recent: new Map(), // by route: {version, at, messages}
};

async function readHistory() {
  const {routes} = await read('/v1/history');
  const now = performance.now();
  known.historyAt = now;
  known.history = new Map(routes.map((r) => [r.name, {...r, at: r.ms_ago.map((ago) => now - ago)}]));
}

/* Changes whenever a message was not forwarded. */
function recentVersion(route) {
  const c = route.counters;
  return [c.duplicates, c.conflicts, c.parked, c.rejected].join();
}

async function readRecent(route) {
  const version = recentVersion(route);
  const {messages} = await read(`/v1/routes/${encodeURIComponent(route.name)}/recent`);
  known.recent.set(route.name, {version, at: performance.now(), messages});
}

function shownRoutes() {
  const name = $('shown').value;
  return known.status.routes.filter((route) => name === '' || route.name === name);
}

/* Those that have changed, or might have since they were read; the longest unread first. */
function staleRecent() {
  const age = (route) => known.recent.get(route.name)?.at ?? -Infinity;
  const isStale = (route) => known.recent.get(route.name)?.version !== recentVersion(route) ||
    performance.now() - age(route) > RATE_OVER_MS;
  return shownRoutes().filter(isStale).sort((a, b) => age(a) - age(b)).slice(0, RECENT_AT_ONCE);
}

/* ---- Rates ---- */

/* {forwarded, duplicates} a second; null: it is too early to say. */
function ratesOf(route) {
  const h = known.history.get(route.name);
  let i = h ? h.at.length - 1 : -1;
  while (i > 0 && known.at - h.at[i] < RATE_OVER_MS)
    i--;
  const seconds = i < 0 ? 0 : (known.at - h.at[i]) / 1000;
  if (seconds < 1)
    return {forwarded: null, duplicates: null};
  const rate = (name) => Math.max(0, (route.counters[name] - h[name][i]) / seconds);
  return {forwarded: rate('forwarded'), duplicates: rate('duplicates')};
}

/* What happened between each two samples, the oldest first: {from, to, forwarded, duplicates}. All routes are
   sampled at the same moments, so their sums are made from the end on. */
function stepsOf(routes) {
  const sums = [];
  for (const route of routes) {
    const h = known.history.get(route.name);
    const count = h ? h.at.length : 0;
    for (let back = 0; back < count - 1; back++) {
      const i = count - 1 - back;
      const step = sums[back] ||= {from: h.at[i - 1], to: h.at[i], forwarded: 0, duplicates: 0};
      step.forwarded += Math.max(0, h.forwarded[i] - h.forwarded[i - 1]);
      step.duplicates += Math.max(0, h.duplicates[i] - h.duplicates[i - 1]);
    }
  }
  return sums.reverse();
}

/* ---- The chart ---- */

function draw(parent, tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, value);
  if (text !== undefined)
    element.textContent = text;
  parent.append(element);
}

/* The next of 1, 2, 5, 10, 20... */
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

function drawGrid(svg, box, top) {
  for (const part of [0, .5, 1]) {
    const y = box.bottom - part * (box.bottom - box.top);
    draw(svg, 'line', {class: 'grid', x1: box.left, x2: box.right, y1: y, y2: y});
    draw(svg, 'text', {x: box.left - 8, y: y + 4, 'text-anchor': 'end'}, part ? `${number(top * part)}/s` : '0');
  }
  const labels = [['10 min ago', 0, 'start'], ['5 min ago', .5, 'middle'], ['now', 1, 'end']];
  for (const [text, part, anchor] of labels)
    draw(svg, 'text', {x: box.left + part * (box.right - box.left), y: box.bottom + 18, 'text-anchor': anchor}, text);
}

function drawChart() {
  const svg = $('chart');
  const now = performance.now();
  const steps = stepsOf(shownRoutes()).filter((step) => now - step.from < CHART_MS);
  const rate = (step, name) => step[name] * 1000 / (step.to - step.from);
  const most = Math.max(0, ...steps.flatMap((step) => [rate(step, 'forwarded'), rate(step, 'duplicates')]));
  const top = roundUp(most);
  const width = svg.clientWidth;
  const box = {left: 18 + 8 * `${number(top)}/s`.length, right: width - 1, top: 10, bottom: svg.clientHeight - 24};
  const x = (at) => (box.right - (now - at) / CHART_MS * (box.right - box.left)).toFixed(1);
  const y = (value) => (box.bottom - value / top * (box.bottom - box.top)).toFixed(1);
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${svg.clientHeight}`);
  drawGrid(svg, box, top);
  if (steps.length > 0) {
    const last = steps[steps.length - 1];
    const path = (name) => steps.map((step, i) => `${i ? 'L' : 'M'}${x(step.from)},${y(rate(step, name))}H${x(step.to)}`).join('');
    draw(svg, 'path', {class: 'area', d: `${path('forwarded')}V${box.bottom}H${x(steps[0].from)}Z`, 'data-to': x(last.to)});
    draw(svg, 'path', {class: 'forwarded', d: path('forwarded')});
    draw(svg, 'path', {class: 'duplicates', d: path('duplicates')});
  }
  sayChart(steps, most);
  fillMinutes(steps, now);
}

function sayChart(steps, most) {
  const sum = (name) => steps.reduce((all, step) => all + step[name], 0);
  const text = `${number(sum('forwarded'))} forwarded, ${plural(sum('duplicates'), 'duplicate')}; at most ${perSecond(most)} a second.`;
  say('chart-text', steps.length > 0 ? text : 'It begins five seconds after the start of the program.');
}

function fillMinutes(steps, now) {
  const rows = [];
  for (let minute = 0; minute < 10; minute++) {
    const inside = steps.filter((step) => Math.floor((now - step.to) / 60000) === minute);
    const sum = (name) => inside.reduce((all, step) => all + step[name], 0);
    const cells = [minute === 0 ? 'now' : `${minute} min ago`, number(sum('forwarded')), number(sum('duplicates'))];
    rows.push({id: String(minute), cells: inside.length > 0 ? cells : [cells[0], '–', '–']});
  }
  fillTable('minutes', rows);
}
