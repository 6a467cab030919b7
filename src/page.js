/* The second part of the page's script: what is shown, asking again and again, keys, and what people do. */

/* ---- The tables ---- */

const sumOf = (list, value) => list.reduce((all, item) => all + value(item), 0);
const linksOf = (worker) => Object.values(worker.links);
const isDown = (worker) => linksOf(worker).some((link) => !link.up);

/* The worst that is the matter with a route: [text, colour]. */
function stateOf(route) {
  if (route.workers.some((w) => w.turned_ms_ago > STILL_MS))
    return ['stands still', 'bad'];
  if (route.workers.some(isDown))
    return ['not connected', 'bad'];
  if (route.workers.some((w) => w.blocked))
    return ['broker is blocked', 'warn'];
  if (route.workers.some((w) => w.endangered))
    return ['store may forget', 'warn'];
  return ['runs', 'good'];
}

function leadsTo(to) {
  return to.queue ?? `exchange ${to.exchange}${to.routing_key === undefined ? '' : `, ${to.routing_key}`}`;
}

function showRoutes() {
  fillTable('routes', known.status.routes.map((route) => {
    const {forwarded, duplicates} = ratesOf(route);
    const c = route.counters;
    const held = sumOf(route.workers, (w) => w.messages.held);
    const all = sumOf(route.workers, (w) => sumOf(Object.values(w.messages), (n) => n));
    const [text, tag] = stateOf(route);
    return {id: route.name, cells: [
      {text: route.name, sub: `${route.from.queue} → ${leadsTo(route.to)}`},
      perSecond(forwarded), perSecond(duplicates), number(c.forwarded), number(c.duplicates), number(c.conflicts),
      number(c.parked), number(all - held), held > 0 ? {text: number(held), tag: 'warn'} : '0', {text, tag},
    ]};
  }));
}

/* One line for each reason of each route. */
function showHeld() {
  const lines = new Map();
  for (const route of known.status.routes) {
    for (const worker of route.workers) {
      if (worker.messages.held === 0)
        continue;
      const why = worker.holding ?? 'it is tried again in a moment';
      const id = `${route.name} ${why}`;
      const line = lines.get(id) ?? {id, route: route.name, why, count: 0, oldest: 0};
      line.count += worker.messages.held;
      line.oldest = Math.max(line.oldest, worker.oldest_message_ms);
      lines.set(id, line);
    }
  }
  const rows = [...lines.values()].map((l) => ({id: l.id, cells: [l.route, number(l.count), duration(l.oldest), l.why]}));
  fillTable('held', rows);
  $('nothing-held').hidden = rows.length > 0;
}

const LINKS = {store: 'store', sink: 'sink, to the destination', source: 'source, from the inbound queue', replies: 'replies'};
const REPORT_LINKS = {sink: 'sink, to the parking queue', source: 'source, from completions.queue'};

/* Workers' connections of one kind that lead to the same, or are down for the same reason, are one. */
function groupLinks(workers) {
  const groups = new Map();
  for (const worker of workers) {
    for (const [name, link] of Object.entries(worker.links)) {
      const id = JSON.stringify([name, link]);
      const group = groups.get(id) ?? {id, name, up: link.up, text: link.to ?? link.why, count: 0};
      group.count++;
      groups.set(id, group);
    }
  }
  return [...groups.values()].sort((a, b) => a.up - b.up);
}

function showConnections() {
  const owners = known.status.routes.map((route) => [`Route ${route.name}`, LINKS, route.workers]);
  if (known.status.completions)
    owners.push(['Completions', REPORT_LINKS, [known.status.completions]]);
  const list = owners.map(([owner, names, workers]) => [owner, names, workers.length, groupLinks(workers)]);
  const shown = JSON.stringify(list);
  if ($('connections').shown === shown)
    return;
  $('connections').shown = shown;
  $('connections').replaceChildren(...list.flatMap(([owner, names, count, groups]) => {
    const lines = make('dl', 'links');
    for (const group of groups) {
      const of = count > 1 ? `${group.count} of ${count} workers` : '';
      const dt = make('dt');
      dt.append(make('span', `tag ${group.up ? 'good' : 'bad'}`, group.up ? 'up' : 'down'));
      const dd = make('dd', '', names[group.name]);
      dd.append(make('small', '', [group.text, of].filter((part) => part).join(', ')));
      lines.append(dt, dd);
    }
    return [make('h3', '', owner), lines];
  }));
}

const WHAT = {duplicate: '', conflict: 'warn', parked: 'warn', rejected: 'bad'};
let wholeList = false;

function recentMessages() {
  const all = shownRoutes().flatMap((route) =>
    (known.recent.get(route.name)?.messages ?? []).map((m, i) => ({...m, route: route.name, nth: i})));
  return all.sort((a, b) => a.at === b.at ? b.nth - a.nth : a.at < b.at ? 1 : -1).slice(0, 100);
}

/* The list stands still while somebody points at it or is in it: a click has to meet what it was meant for. */
function showRecent() {
  const section = $('recent-section');
  const busy = $('recent').matches(':hover, :focus-within');
  $('paused').hidden = !busy;
  if (busy && section.shownFor === $('shown').value + wholeList)
    return;
  section.shownFor = $('shown').value + wholeList;
  const all = recentMessages();
  const twins = new Map();
  const rows = all.slice(0, wholeList ? all.length : RECENT_SHORT).map((m) => {
    const base = JSON.stringify([m.route, m.key, m.at, m.what]);
    const twin = twins.get(base) ?? 0;
    twins.set(base, twin + 1);
    return {id: `${base}${twin}`, cells: [
      {text: moment(m.at), title: m.at},
      m.route,
      m.key === undefined ? 'has none' : {text: m.key, title: 'Look it up', press: () => lookUpOther(m.route, m.key)},
      {text: m.what, tag: WHAT[m.what] ?? '', sub: m.why},
      m.first_seen ? {text: moment(m.first_seen), title: m.first_seen} : '–',
    ]};
  });
  fillTable('recent', rows);
  $('nothing-recent').hidden = rows.length > 0;
  $('more').hidden = all.length <= RECENT_SHORT;
  say('more', wholeList ? 'Show fewer' : `Show all ${all.length}`);
}

/* ---- The whole ---- */

/* What is the matter, the worst first: [text, colour]. */
function summary() {
  const {routes, completions, stopping} = known.status;
  const workers = routes.flatMap((route) => route.workers);
  const links = [...workers, ...completions ? [completions] : []].flatMap(linksOf);
  const down = links.filter((link) => !link.up).length;
  const still = workers.filter((w) => w.turned_ms_ago > STILL_MS).length;
  const held = sumOf(workers, (w) => w.messages.held);
  const heldToo = held > 0 ? `, ${plural(held, 'message')} held` : '';
  if (stopping)
    return ['The program is stopping', 'warn'];
  if (still > 0)
    return [`${plural(still, 'worker')} of ${workers.length} stood still for 30 s`, 'bad'];
  if (down > 0)
    return [`${down} of ${plural(links.length, 'connection')} ${down === 1 ? 'is' : 'are'} down${heldToo}`, 'bad'];
  if (workers.some((w) => w.blocked))
    return [`The broker takes no messages${heldToo}`, 'warn'];
  if (workers.some((w) => w.endangered))
    return ['A store\'s settings let it forget keys: the log says which', 'warn'];
  return held > 0 ? [`${plural(held, 'message')} held`, 'warn'] : ['Everything runs', 'good'];
}

function sayState(text, colour) {
  say('state', text, colour);
  document.title = `${colour === 'good' || colour === '' ? '' : '! '}onlyonce`;
}

function showParts(visible) {
  for (const part of document.querySelectorAll('[data-part]'))
    part.hidden = !visible;
  $('token-section').hidden = visible;
}

function showAll() {
  const {routes, version, writable} = known.status;
  const names = routes.map((route) => [route.name, route.name]);
  showParts(true);
  fillSelect('shown', [['', 'All routes'], ...names]);
  fillSelect('key-route', names);
  $('shown-label').hidden = routes.length < 2;
  $('key-route-label').hidden = routes.length < 2;
  sayState(...summary());
  showRoutes();
  showHeld();
  showConnections();
  showShown();
  $('may-change').hidden = !writable || !found.record;
  $('may-not-change').hidden = writable;
  $('read-only').hidden = writable;
  $('forget').hidden = !token;
  say('version', `onlyonce ${version}`);
}

/* What is for the chosen route. */
function showShown() {
  const rates = shownRoutes().map(ratesOf);
  for (const name of ['forwarded', 'duplicates']) {
    const rate = rates.some((r) => r[name] === null) ? null : sumOf(rates, (r) => r[name]);
    say(`now-${name}`, `${perSecond(rate)}/s`);
  }
  drawChart();
  showRecent();
}

/* ---- Asking again and again ---- */

let timer = 0;
let asking = false;

function wantToken() {
  showParts(false);
  sayState(token ? 'That is not the token' : 'A token is needed', 'warn');
  say('token-error', token ? 'That is not the token.' : '');
  $('forget').hidden = true;
  if (!$('complete-dialog').open && !$('release-dialog').open)
    $('token').focus();
  token = '';
  keeper.set('');
}

/* False: it is of no use to ask again by itself. */
function failed(error) {
  if (error instanceof Refusal && error.status === 401) {
    wantToken();
    return false;
  }
  if (error instanceof Refusal)
    sayState(`The server says: ${error.message}`, 'bad');
  else
    sayState(known.answered ? `No answer since ${clock(known.answered)}` : 'No answer', 'bad');
  return true;
}

async function readAll() {
  const status = await read('/v1/routes');
  Object.assign(known, {status, at: performance.now(), answered: new Date()});
  fillSelect('shown', [['', 'All routes'], ...status.routes.map((route) => [route.name, route.name])]);
  if (performance.now() - known.historyAt > HISTORY_EVERY_MS)
    await readHistory();
  await Promise.all(staleRecent().map(readRecent));
  say('updated', `, as of ${clock(known.answered)}`);
}

async function poll() {
  if (asking)
    return;
  let again = true;
  clearTimeout(timer);
  asking = true;
  try {
    await readAll();
    showAll();
  } catch (error) {
    again = failed(error);
  }
  asking = false;
  if (again && !document.hidden)
    timer = setTimeout(poll, POLL_MS);
}

/* ---- A key ---- */

const found = {route: '', key: '', record: null};

function keyPath(route, key) {
  return `/v1/keys/${encodeURIComponent(route)}/${encodeURIComponent(key)}`;
}

/* The result as it was given, for JavaScript would change numbers; it is the record's last field, and no field
   before it can hold this text. */
function resultOf(text) {
  const mark = ',"result":';
  const begin = text.indexOf(mark);
  return begin < 0 ? null : text.slice(begin + mark.length, text.lastIndexOf('}'));
}

const TIMES = [['first_seen', 'First seen'], ['claimed_at', 'Claimed'], ['forwarded_at', 'Forwarded'], ['parked_at', 'Parked'],
  ['completed_at', 'Completed'], ['last_duplicate_at', 'Last duplicate']];

function recordLines(record, result) {
  const lines = [['State', record.state + (record.in_doubt ? ', in doubt' : '')]];
  for (const [name, label] of TIMES)
    if (record[name])
      lines.push([label, moment(record[name]), record[name]]);
  lines.push(['Forgotten in', duration(record.expires_in_ms)], ['Attempt', number(record.attempt)],
    ['Duplicates', number(record.duplicates)]);
  if (result !== null)
    lines.push(['Result', result]);
  return lines;
}

function showRecord(record, result) {
  found.record = record;
  $('record').replaceChildren(...recordLines(record, result).flatMap(([label, text, title]) => {
    const dd = make('dd');
    const inner = make(label === 'Result' ? 'pre' : 'span', '', text);
    if (title)
      inner.title = title;
    dd.append(inner);
    return [make('dt', '', label), dd];
  }));
  $('may-change').hidden = !known.status.writable;
}

function showNoRecord() {
  found.record = null;
  $('record').replaceChildren();
  $('may-change').hidden = true;
}

/* `before`: what has just been done, to be said first. */
async function lookUp(route, key, before = '') {
  if (found.route !== route || found.key !== key)
    showNoRecord(); // What is shown, and may be done, is another key's.
  Object.assign(found, {route, key});
  $('found').hidden = false;
  say('found-message', before || `Looks up ${key}`, '');
  try {
    const text = await ask('GET', keyPath(route, key), {patience: KEY_PATIENCE_MS});
    if (found.route !== route || found.key !== key)
      return;
    showRecord(JSON.parse(text), resultOf(text));
    say('found-message', before || key, before ? 'good-text' : 'key');
  } catch (error) {
    if (found.route !== route || found.key !== key)
      return;
    showNoRecord();
    const gone = before && error instanceof Refusal && error.status === 404;
    say('found-message', gone ? before : whyNot(error, 'The server does not answer.'), gone ? 'good-text' : 'bad-text');
  }
}

function whyNot(error, noAnswer) {
  if (error instanceof Refusal && error.status === 401)
    poll();
  return error instanceof Refusal ? error.message : noAnswer;
}

function lookUpOther(route, key) {
  $('key-route').value = route;
  $('key').value = key;
  $('found').hidden = false;
  $('found').focus();
  lookUp(route, key);
}

/* ---- Changing a key, once it was asked for twice ---- */

function openDialog(id) {
  const dialog = $(id);
  dialog.querySelector('form').reset();
  dialog.querySelector('[data-key]').textContent = found.key;
  dialog.querySelector('[data-route]').textContent = found.route;
  dialog.querySelector('[role=alert]').textContent = '';
  dialog.showModal();
}

/* While it is, nothing closes it, so that the answer comes to who has asked. */
function setBusy(dialog, busy) {
  dialog.ariaBusy = String(busy);
  for (const button of dialog.querySelectorAll('button'))
    button.disabled = busy;
}

const isBusy = (dialog) => dialog.ariaBusy === 'true';

/* Closes it, unless it failed: then it says why, and so does the key's box, which stays. */
async function change(id, method, path, body, done) {
  const dialog = $(id);
  const {route, key, record} = found;
  // A life of the key that began since then is not meant.
  const guard = `first_seen=${Date.parse(record.first_seen)}`;
  setBusy(dialog, true);
  try {
    const answer = JSON.parse(await ask(method, `${path(keyPath(route, key))}${guard}`, {body, patience: KEY_PATIENCE_MS}));
    setBusy(dialog, false);
    dialog.close();
    $('found').focus(); // The button that opened it may vanish.
    await lookUp(route, key, done(key, answer.answer));
    poll();
  } catch (error) {
    const why = whyNot(error, 'No answer: it may or may not have been done; look it up.');
    dialog.querySelector('[role=alert]').textContent = why;
    say('found-message', `${key}: ${why}`, 'bad-text');
    setBusy(dialog, false);
    dialog.querySelector('.main').focus();
  }
}

function complete() {
  const result = $('complete-dialog').querySelector('textarea').value.trim();
  const done = (key, answer) => answer === 'completed' ? `${key} is completed.` : `${key} was completed before; that stays.`;
  change('complete-dialog', 'POST', (path) => `${path}/complete?`, result || undefined, done);
}

function release() {
  const force = $('force').checked ? 'force=true&' : '';
  change('release-dialog', 'DELETE', (path) => `${path}?${force}`, undefined, (key) => `${key} is released.`);
}

/* ---- What people do ---- */

function onSubmit(form, act) {
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    act();
  });
}

for (const [id, act] of [['complete-dialog', complete], ['release-dialog', release]]) {
  onSubmit($(id).querySelector('form'), act);
  $(id).querySelector('[data-cancel]').addEventListener('click', () => $(id).close());
  $(id).addEventListener('cancel', (event) => {
    if (isBusy($(id)))
      event.preventDefault();
  });
}
// A second Escape would close a dialog without asking it; and the focus is nowhere while its button is disabled.
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && [...document.querySelectorAll('dialog[open]')].some(isBusy))
    event.preventDefault();
});
$('complete').addEventListener('click', () => openDialog('complete-dialog'));
$('release').addEventListener('click', () => {
  $('force-label').hidden = found.record.state !== 'pending';
  openDialog('release-dialog');
});
onSubmit($('key-form'), () => lookUp($('key-route').value, $('key').value.trim()));
onSubmit($('token-form'), () => {
  token = $('token').value.trim();
  keeper.set(token);
  $('token').value = '';
  poll();
});
$('forget').addEventListener('click', () => {
  token = '';
  keeper.set('');
  location.reload();
});
$('shown').addEventListener('change', () => {
  showShown();
  poll();
});
$('more').addEventListener('click', () => {
  wholeList = !wholeList;
  showRecent();
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden)
    clearTimeout(timer);
  else if ($('token-section').hidden)
    poll();
});
new ResizeObserver(() => {
  if (known.status)
    drawChart();
}).observe($('chart'));

say('where', location.host);
poll();
