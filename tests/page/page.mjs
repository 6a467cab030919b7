/*
 * What page.sh does with the browser. It prints ok or FAIL, a tab and a name for each check, and asks for what is done
 * to servers and messages with "do", a tab and the words; the answer, an exit code, comes on standard input.
 */
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';

const {PAGE_MAIN: MAIN, PAGE_OPEN: OPEN, PAGE_TOKEN: TOKEN, PAGE_HOSTILE: HOSTILE, PAGE_MODULES, PAGE_SHOTS} = process.env;
const {chromium} = createRequire(`${PAGE_MODULES}/`)('playwright-core');
const PATIENCE_MS = 30000;
const DESKTOP = {width: 1280, height: 900};
const PHONE = {width: 390, height: 844};

const answers = createInterface({input: process.stdin})[Symbol.asyncIterator]();

async function act(...words) {
  console.log(['do', ...words].join('\t'));
  const {value, done} = await answers.next();
  if (done)
    process.exit(1);
  assert.equal(value, '0', `${words.join(' ')} failed`);
}

async function check(name, f) {
  try {
    await f();
    console.log(`ok\t${name}`);
  } catch (error) {
    console.log(`FAIL\t${name}`);
    console.log(error.stack.split('\n').map((line) => ` \t${line}`).join('\n'));
  }
}

/* Until it holds: a function that returns, or one of assert's. */
async function until(f, ms = PATIENCE_MS) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      return await f();
    } catch (error) {
      if (Date.now() > end)
        throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function api(path, {origin = MAIN, method = 'GET', body} = {}) {
  const response = await fetch(origin + path, {method, body, headers: {Authorization: `Bearer ${TOKEN}`}});
  return response.json();
}

/* ---- Pages, and what must never happen in one ---- */

const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox']});
const bad = []; // what happened all the same

/* Answers of 4xx and 5xx, and a server that is away, are errors of the console's own; they are part of these tests. */
const EXPECTED = /^Failed to load resource: (the server responded with a status of (400|401|404|409|503)|net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|FAILED))/;

async function open(origin, options = {}) {
  const context = await browser.newContext({viewport: DESKTOP, ...options});
  await context.addInitScript(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (e) => globalThis.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('console', (m) => {
    if (['error', 'warning'].includes(m.type()) && !EXPECTED.test(m.text()))
      bad.push(`console: ${m.text()}`);
  });
  page.on('pageerror', (error) => bad.push(`error: ${error}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:'))
      bad.push(`request: ${request.url()}`);
  });
  page.on('dialog', (dialog) => bad.push(`dialog: ${dialog.message()}`));
  await page.goto(`${origin}/`);
  return page;
}

async function close(page) {
  for (const violation of await page.evaluate(() => globalThis.violations))
    bad.push(`policy: ${violation}`);
  if (await page.evaluate(() => 'hacked' in globalThis))
    bad.push('a message\'s script ran');
  await page.context().close();
}

async function logIn(page, token = TOKEN) {
  await page.fill('#token', token);
  await page.press('#token', 'Enter');
}

async function shot(page, name) {
  if (PAGE_SHOTS)
    await page.screenshot({path: `${PAGE_SHOTS}/${name}.png`, fullPage: !name.includes('dialog')});
}

const text = (page, selector) => page.locator(selector).innerText();
const says = (page, selector, what) => until(async () => assert.match(await text(page, selector), what));

/* A table as [{heading: text}]. */
function tableOf(page, id) {
  return page.evaluate((name) => {
    const table = document.getElementById(name);
    const heads = [...table.tHead.rows[0].cells].map((th) => th.textContent);
    return [...table.tBodies[0].rows].map((tr) => Object.fromEntries([...tr.cells].map((td, i) => [heads[i], td.innerText])));
  }, id);
}

async function lookUp(page, key) {
  await page.fill('#key', key);
  await page.press('#key', 'Enter');
}

/* What has the focus: its id, or its text. */
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.innerText);

/* ---- What is seen ---- */

/* Texts whose contrast with what is behind them is below AA's 4.5. */
function lowContrast(page) {
  return page.evaluate(() => {
    const parse = (text) => {
      const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
      return {r, g, b, a};
    };
    const over = (top, ground) => Object.fromEntries([...['r', 'g', 'b'].map((c) => [c, top[c] * top.a + ground[c] * (1 - top.a)]), ['a', 1]]);
    const ground = (element) => {
      if (!element)
        return {r: 255, g: 255, b: 255, a: 1};
      const own = parse(getComputedStyle(element).backgroundColor);
      return own.a === 1 ? own : over(own, ground(element.parentElement));
    };
    const channel = (c) => c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4;
    const light = ({r, g, b}) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
    const low = [];
    let seen = 0;
    for (const element of document.querySelectorAll('body *')) {
      const own = [...element.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data.trim()).join('');
      if (!own || !element.checkVisibility() || element.closest('script, style'))
        continue;
      const style = getComputedStyle(element);
      const behind = ground(element);
      const [a, b] = [light(over(parse(element instanceof SVGElement ? style.fill : style.color), behind)), light(behind)].sort((x, y) => y - x);
      seen++;
      if ((a + .05) / (b + .05) < 4.5)
        low.push(`${own}: ${((a + .05) / (b + .05)).toFixed(2)}`);
    }
    return {seen, low};
  });
}

async function checkContrast(page) {
  const {seen, low} = await lowContrast(page);
  assert.ok(seen > 40, `${seen} texts`);
  assert.deepEqual(low, []);
}

/* ---- The token ---- */

for (let i = 0; i < 4; i++)
  await act('post', 'pay', '--message-id', 'same', '--body', 'x');
await act('post', 'pay', '--message-id', HOSTILE);
await act('post', 'pay', '--message-id', HOSTILE);
await act('post', 'pay', '--body', 'no key');
await act('post', 'mail', '--message-id', 'once');
await until(async () => {
  const {routes} = await api('/v1/routes');
  assert.deepEqual(routes.map((r) => [r.counters.forwarded, r.counters.duplicates, r.counters.parked]), [[2, 4, 1], [1, 0, 0]]);
});

const page = await open(MAIN);
await check('without the token there is nothing but a box for it', async () => {
  await says(page, '#state', /^A token is needed$/);
  assert.equal(await page.locator('#routes-section').isVisible(), false);
  assert.equal(await focused(page), 'token');
  await shot(page, 'token');
});
await check('a wrong token is refused in words', async () => {
  await logIn(page, 'wrong ä→');
  await says(page, '#token-error', /^That is not the token\.$/);
  assert.equal(await page.locator('#routes-section').isVisible(), false);
});
await check('the right one opens the page', async () => {
  await logIn(page);
  await says(page, '#state', /^Everything runs$/);
  assert.equal(await page.locator('#token-section').isVisible(), false);
});
await check('it is kept for this tab alone', async () => {
  assert.deepEqual(await page.evaluate(() => [{...sessionStorage}, {...localStorage}, document.cookie]), [{token: TOKEN}, {}, '']);
  await page.reload();
  await says(page, '#state', /^Everything runs$/);
});

/* ---- What is shown ---- */

await check('routes: the numbers are those of /v1/routes', async () => {
  const {routes} = await api('/v1/routes');
  const rows = await tableOf(page, 'routes');
  assert.equal(rows.length, 2);
  routes.forEach((route, i) => {
    assert.ok(rows[i].Route.startsWith(`${route.name}\n`));
    const shown = ['Forwarded', 'Duplicates', 'Conflicts', 'Parked', 'Held'].map((head) => Number(rows[i][head]));
    assert.deepEqual(shown, [...['forwarded', 'duplicates', 'conflicts', 'parked'].map((name) => route.counters[name]), 0]);
    assert.equal(rows[i].State, 'runs');
  });
});
await check('connections: all, and what they lead to', async () => {
  const shown = await text(page, '#connections');
  const {routes} = await api('/v1/routes');
  for (const link of routes.flatMap((r) => r.workers).flatMap((w) => Object.values(w.links)))
    assert.ok(shown.includes(link.to), link.to);
  assert.match(shown, /replies\n.*, 2 of 2 workers/);
  assert.doesNotMatch(shown, /down/);
});
await check('200 messages that come are counted, and so is how many a second', async () => {
  // One after another, so that it is clear which of two workers' is the later one.
  for (let i = 0; i < 20; i++) {
    await act('post', 'mail', '--message-id', `r${i}`, '--count', '10');
    await until(async () => assert.equal((await api('/v1/routes')).routes[1].counters.duplicates, 9 * (i + 1)));
  }
  await until(async () => {
    const [, mail] = await tableOf(page, 'routes');
    assert.equal(mail.Forwarded, '21');
    assert.equal(mail.Duplicates, '180');
    assert.ok(Number(mail['Forwarded/s']) > 0 && Number(mail['Duplicates/s']) > Number(mail['Forwarded/s']));
  });
});
/* A server whose messages come as regularly as no real one's do while others use the machine. */
await check('rates: 200 messages in 10 s are 20 a second', async () => {
  const victim = await open(MAIN);
  const began = Date.now() - 3600000;
  const count = (perSecond, at = Date.now()) => Math.floor(perSecond * (at - began) / 1000);
  await victim.route('**/v1/routes', async (route) => {
    const response = await route.fetch();
    const status = await response.json();
    Object.assign(status.routes[1].counters, {forwarded: count(2), duplicates: count(18)});
    await route.fulfill({response, json: status});
  });
  await victim.route('**/v1/history', async (route) => {
    const response = await route.fetch();
    const {routes} = await response.json();
    const now = Date.now();
    const ago = [20000, 15000, 10000, 5000, 0];
    const of = (perSecond) => ago.map((ms) => count(perSecond, now - ms));
    const mail = {name: 'mail', ms_ago: ago, forwarded: of(2), duplicates: of(18)};
    await route.fulfill({response, json: {routes: routes.map((r) => r.name === 'mail' ? mail : r)}});
  });
  await logIn(victim);
  await until(async () => {
    const [, mail] = await tableOf(victim, 'routes');
    assert.ok(Math.abs(Number(mail['Duplicates/s']) - 18) < 1, mail['Duplicates/s']);
    assert.ok(Math.abs(Number(mail['Forwarded/s']) - 2) < .2, mail['Forwarded/s']);
  });
  await victim.unrouteAll({behavior: 'ignoreErrors'});
  await close(victim);
});
await check('the chart has them, on a page that was opened just now', async () => {
  await page.reload();
  await says(page, '#chart-text', /^\d+ forwarded, \d+ duplicates; at most/);
  await until(async () => {
    const {routes} = await api('/v1/history');
    const sum = (name) => routes.reduce((all, r) => all + r[name].at(-1) - r[name][0], 0);
    const [forwarded, duplicates] = (await text(page, '#chart-text')).match(/\d+/g).map(Number);
    assert.deepEqual([forwarded, duplicates], [sum('forwarded'), sum('duplicates')]);
    assert.ok(duplicates >= 180);
  });
  assert.ok(await page.locator('#chart path.forwarded').count() === 1);
  await page.locator('summary').click();
  const minutes = await tableOf(page, 'minutes');
  assert.equal(minutes.length, 10);
  const total = minutes.reduce((all, m) => all + (Number(m.Duplicates) || 0), 0);
  assert.ok(total >= 180, `${total}`);
  await page.locator('summary').click();
});
await check('one route alone', async () => {
  await page.selectOption('#shown', 'pay');
  await until(async () => assert.deepEqual([...new Set((await tableOf(page, 'recent')).map((m) => m.Route))], ['pay']));
  await page.selectOption('#shown', '');
});
await check('messages not forwarded: those of /v1/routes/{route}/recent, the latest first', async () => {
  await page.mouse.move(0, 0);
  await page.locator('#more').click();
  const {messages} = await api('/v1/routes/mail/recent');
  await until(async () => {
    const rows = (await tableOf(page, 'recent')).filter((row) => row.Route === 'mail');
    assert.ok(rows.length > 50);
    assert.deepEqual(rows.map((row) => row.Key), messages.map((m) => m.key).reverse().slice(0, rows.length));
  });
  await page.locator('#more').click();
});
await check('all that there is to read has the contrast of AA', async () => {
  await checkContrast(page);
  await shot(page, 'desktop-light');
});

/* ---- Keys ---- */

await check('a key is looked up', async () => {
  await page.selectOption('#key-route', 'pay');
  await lookUp(page, 'msg:same');
  await says(page, '#record', /State\s+forwarded[\s\S]*Duplicates\s+3/);
});
await check('complete: Cancel and Escape do nothing', async () => {
  await page.locator('#complete').click();
  assert.match(await text(page, '#complete-dialog'), /msg:same of route pay/);
  await shot(page, 'dialog');
  await page.locator('#complete-dialog [data-cancel]').click();
  assert.equal(await focused(page), 'complete');
  await page.locator('#complete').click();
  await page.keyboard.press('Escape');
  assert.equal(await focused(page), 'complete');
  assert.equal((await api('/v1/keys/pay/msg:same')).state, 'forwarded');
});
await check('complete: a result that is no JSON is refused in words', async () => {
  await page.locator('#complete').click();
  await page.fill('#complete-dialog textarea', 'done');
  await page.locator('#complete-dialog .main').click();
  await says(page, '#complete-dialog [role=alert]', /not valid JSON/);
});
await check('complete: with a result, which is shown byte for byte', async () => {
  const result = JSON.stringify({html: `</pre>${HOSTILE}`, n: 1}).replace('1}', '1.0}');
  await page.fill('#complete-dialog textarea', result);
  await page.locator('#complete-dialog .main').click();
  await says(page, '#found-message', /^msg:same is completed\.$/);
  assert.equal(await page.locator('#record pre').evaluate((pre) => pre.textContent), result);
  assert.equal(await focused(page), 'found');
  assert.equal((await api('/v1/keys/pay/msg:same')).state, 'completed');
});
await check('release: Cancel does nothing, Release does', async () => {
  await page.locator('#release').click();
  assert.equal(await page.locator('#force').isVisible(), false);
  await page.locator('#release-dialog [data-cancel]').click();
  assert.equal((await api('/v1/keys/pay/msg:same')).state, 'completed');
  await page.locator('#release').click();
  await page.locator('#release-dialog .main').click();
  await says(page, '#found-message', /^msg:same is released\.$/);
  assert.equal((await api('/v1/keys/pay/msg:same')).status, 404);
  assert.equal(await page.locator('#release').isVisible(), false);
});
await check('release: a pending key only when that is asked for', async () => {
  await act('put', 'pay', 'msg:p', '2P 1 1782640800123 t0 o0123456789abcdef01234567.1');
  await lookUp(page, 'msg:p');
  await says(page, '#record', /State\s+pending/);
  await page.locator('#release').click();
  await page.locator('#release-dialog .main').click();
  await says(page, '#release-dialog [role=alert]', /pending/);
  await page.locator('#force').check();
  await page.locator('#release-dialog .main').click();
  await says(page, '#found-message', /^msg:p is released\.$/);
});
await check('release: a key that has begun another life since it was looked up is left alone', async () => {
  await lookUp(page, 'txn:none');
  await says(page, '#found-message', /not on record|no record/);
  await act('put', 'pay', 'msg:l', '2F 1 1782640800123 t67 e86400067');
  await lookUp(page, 'msg:l');
  await says(page, '#record', /State\s+forwarded/);
  await act('put', 'pay', 'msg:l', '2F 1 1782640800999 t191 e86400191');
  await page.locator('#release').click();
  await page.locator('#release-dialog .main').click();
  await until(async () => assert.notEqual(await text(page, '#release-dialog [role=alert]'), ''));
  await page.keyboard.press('Escape');
  assert.equal((await api('/v1/keys/pay/msg:l')).state, 'forwarded');
});
await check('what is no key is refused in words', async () => {
  await lookUp(page, 'a/b ?#%"<b>');
  await says(page, '#found-message', /this is no key/);
});

/* ---- Late answers ---- */

/* Requests of that method for keys stay unanswered; the answer is a function that lets them all go on. */
async function holdKeys(method) {
  const held = [];
  await page.route('**/v1/keys/**', (route) => route.request().method() === method ? held.push(route) : route.continue());
  return {
    count: () => held.length,
    end: async (answer = (route) => route.continue()) => {
      await Promise.all(held.map(answer));
      await page.unroute('**/v1/keys/**');
    },
  };
}

await act('put', 'pay', 'msg:d', '2F 1 1782640800123 t67 e86400067');
await check('while a key is looked up the one before it can be neither seen nor released', async () => {
  await lookUp(page, 'msg:d');
  await says(page, '#record', /State\s+forwarded/);
  const held = await holdKeys('GET');
  await lookUp(page, 'msg:other');
  await until(() => assert.equal(held.count(), 1));
  const seen = [await text(page, '#record'), await page.locator('#release').isVisible()];
  await held.end();
  assert.deepEqual(seen, ['', false]);
  await says(page, '#found-message', /not on record|no record/);
});

await check('a dialog that has asked stays until it has its answer, which the key\'s box has, too', async () => {
  await lookUp(page, 'msg:d');
  await says(page, '#record', /State\s+forwarded/);
  const isOpen = () => page.locator('#release-dialog').evaluate((d) => d.open);
  const held = await holdKeys('DELETE');
  await page.locator('#release').click();
  await page.locator('#release-dialog .main').click();
  await until(() => assert.equal(held.count(), 1));
  for (let i = 0; i < 3; i++)
    await page.keyboard.press('Escape');
  const stayed = [await isOpen(), await page.locator('#release-dialog [data-cancel]').isDisabled()];
  await held.end((route) => route.fulfill({status: 503, contentType: 'application/problem+json', json: {detail: 'the store is away'}}));
  await says(page, '#release-dialog [role=alert]', /^the store is away$/);
  await says(page, '#found-message', /^msg:d: the store is away$/);
  assert.deepEqual(stayed, [true, true]);
  assert.equal(await focused(page), 'Release');
  await page.keyboard.press('Escape');
  assert.equal(await isOpen(), false);
});
await check('a change without an answer may have been made, and it says so', async () => {
  for (const [id, method] of [['complete', 'POST'], ['release', 'DELETE']]) {
    await lookUp(page, 'msg:d');
    await says(page, '#record', /State\s+forwarded/);
    const held = await holdKeys(method);
    await page.locator(`#${id}`).click();
    await page.locator(`#${id}-dialog .main`).click();
    await until(() => assert.equal(held.count(), 1));
    await held.end((route) => route.abort('failed'));
    await says(page, `#${id}-dialog [role=alert]`, /^No answer: it may or may not have been done; look it up\.$/);
    await page.locator(`#${id}-dialog [data-cancel]`).click();
  }
});

/* ---- Hostile texts ---- */

await check('a hostile queue and key are shown as they are', async () => {
  const [pay] = await tableOf(page, 'routes');
  assert.ok(pay.Route.includes(HOSTILE), pay.Route);
  const {messages} = await api('/v1/routes/pay/recent');
  const {key} = messages.find((m) => m.key?.includes('onerror'));
  await page.selectOption('#shown', 'pay');
  await page.locator('#recent button', {hasText: key}).first().click();
  await says(page, '#record', /State\s+forwarded/);
  assert.equal(await page.inputValue('#key'), key);
  assert.equal(await focused(page), 'found');
});
await check('a server that escapes nothing does no harm', async () => {
  const hostile = (value) => typeof value === 'string' ? HOSTILE + value : Array.isArray(value) ? value.map(hostile)
    : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === 'at' || k === 'state' ? v : hostile(v)])) : value;
  const victim = await open(MAIN);
  await victim.route('**/v1/**', async (route) => {
    const response = await route.fetch();
    await route.fulfill({response, json: hostile(await response.json())});
  });
  await victim.route('**/recent', async (route) => {
    await route.fulfill({json: {route: HOSTILE, messages: [{key: HOSTILE, what: HOSTILE, why: HOSTILE, at: '2026-01-01T00:00:00Z', first_seen: HOSTILE}]}});
  });
  await logIn(victim);
  await until(async () => {
    assert.equal((await tableOf(victim, 'recent'))[0].Key, HOSTILE);
    assert.ok((await tableOf(victim, 'routes'))[0].Route.startsWith(HOSTILE));
    assert.ok((await text(victim, '#connections')).includes(HOSTILE));
    assert.ok((await text(victim, '#version')).includes(HOSTILE));
  });
  assert.equal(await victim.locator('img').count(), 0);
  await victim.unrouteAll({behavior: 'ignoreErrors'});
  await close(victim);
});
await check('the policy stops a script all the same', async () => {
  const victim = await open(MAIN);
  await victim.evaluate(() => {
    const script = document.createElement('script');
    try {
      script.textContent = 'globalThis.hacked = 1';
    } catch {
      // Trusted types: not even this.
    }
    document.body.append(script);
  });
  await until(async () => assert.notDeepEqual(await victim.evaluate(() => globalThis.violations), []));
  assert.equal(await victim.evaluate(() => 'hacked' in globalThis), false);
  await victim.context().close();
  assert.ok(bad.some((what) => /Content Security Policy|TrustedScript/.test(what)), bad.join());
  bad.splice(0, bad.length, ...bad.filter((what) => !/Content Security Policy|TrustedScript/.test(what)));
});

/* ---- A keyboard alone ---- */

await check('a keyboard does all: to every control, through a dialog, and back', async () => {
  await act('post', 'pay', '--message-id', 'typed');
  await page.selectOption('#shown', 'mail');
  await page.mouse.click(5, 5);
  const reached = [];
  const goTo = async (id) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      const name = await focused(page);
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.ok(outline !== 'none' || name === 'onlyonce', `${name} shows its focus`);
      reached.push(name);
      if (name === id)
        return;
    }
    assert.fail(`no ${id} among ${reached.join()}`);
  };
  await page.locator('#state').evaluate(() => document.activeElement.blur());
  await goTo('shown');
  await goTo('key-route');
  await page.keyboard.type('pay');
  await goTo('key');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('msg:typed');
  await page.keyboard.press('Enter');
  await says(page, '#found-message', /^msg:typed$/);
  await goTo('complete');
  await goTo('release');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#release-dialog').evaluate((d) => d.open), true);
  assert.equal(await focused(page), 'Cancel');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'release');
  assert.equal((await api('/v1/keys/pay/msg:typed')).state, 'forwarded');
  await page.keyboard.press('Space');
  await page.keyboard.press('Tab');
  assert.equal(await focused(page), 'Release');
  await page.keyboard.press('Enter');
  await says(page, '#found-message', /^msg:typed is released\.$/);
  assert.equal(await focused(page), 'found');
  await page.selectOption('#shown', '');
});

/* ---- A phone, and the dark ---- */

/* Nothing reaches beyond the page, and no state, whichever it is, beyond its card. */
async function fitsPhone(phone) {
  const {wide, width} = await phone.evaluate(() => {
    const right = (e) => e.getBoundingClientRect().right;
    const end = (e) => Math.min(innerWidth, e.matches('.tag') ? right(e.closest('section')) : innerWidth);
    for (const tag of document.querySelectorAll('#routes td:last-child .tag'))
      tag.textContent = 'broker is blocked';
    return {
      width: document.documentElement.clientWidth,
      wide: [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.closest('thead, svg') && right(e) > end(e) + .5)
        .map((e) => `${e.tagName} ${e.id} ${e.className}`),
    };
  });
  assert.equal(width, 390);
  assert.deepEqual(wide, []);
  assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
}

const LONG = 'L'.repeat(200);
await act('post', 'pay', '--message-id', LONG, '--count', '2');
await check('a phone: nothing is wider than it', async () => {
  const phone = await open(MAIN, {viewport: PHONE, colorScheme: 'dark', hasTouch: true, isMobile: true, deviceScaleFactor: 2});
  await logIn(phone);
  await until(async () => assert.ok((await tableOf(phone, 'recent')).some((row) => row.Key.includes(LONG))));
  await lookUp(phone, `msg:${LONG}`);
  await phone.selectOption('#key-route', 'pay');
  await phone.locator('#key-form button').tap();
  await says(phone, '#record', /Duplicates/);
  await fitsPhone(phone);
  await shot(phone, 'phone-dark');
  await phone.locator('#release').tap();
  await fitsPhone(phone);
  await shot(phone, 'phone-dark-dialog');
  await checkContrast(phone);
  await close(phone);
});

/* ---- Servers that are away ---- */

await check('a destination that is gone: what is held, and why', async () => {
  await act('delete', 'mail');
  await act('post', 'mail', '--message-id', 'held');
  await act('post', 'mail', '--message-id', 'held too');
  await says(page, '#state', /^2 messages held$/);
  await until(async () => {
    const shown = await tableOf(page, 'held');
    const {routes} = await api('/v1/routes');
    const holding = routes[1].workers.map((w) => w.holding).filter((why) => why);
    assert.match(holding[0], /returned as unroutable/);
    assert.deepEqual([...new Set(shown.map((line) => line['It waits, because']))], [...new Set(holding)]);
    assert.equal(shown.reduce((sum, line) => sum + Number(line.Messages), 0), 2);
    assert.ok(shown.every((line) => line.Route === 'mail' && /^\d+ s$/.test(line['The oldest, for'])));
  });
  for (const scheme of ['dark', 'light']) {
    await page.emulateMedia({colorScheme: scheme});
    await checkContrast(page);
    await shot(page, `held-${scheme}`);
  }
  await act('declare', 'mail');
  await until(async () => assert.match(await text(page, '#state'), /^Everything runs$/), 60000);
  assert.equal(await page.locator('#nothing-held').isVisible(), true);
});
await check('without Redis: it says so, and why', async () => {
  await act('redis-stop');
  await says(page, '#state', /^\d+ of \d+ connections are down/);
  await until(async () => {
    const {routes} = await api('/v1/routes');
    assert.equal(routes[0].workers[0].links.store.up, false);
    assert.ok((await text(page, '#connections')).includes(routes[0].workers[0].links.store.why));
    assert.equal((await tableOf(page, 'routes'))[0].State, 'not connected');
  });
  await lookUp(page, 'msg:held');
  await says(page, '#found-message', /^store redis: /);
  await checkContrast(page);
  await shot(page, 'down-light');
});
await check('with Redis again: all runs', async () => {
  await act('redis-start');
  await until(async () => assert.match(await text(page, '#state'), /^Everything runs$/), 60000);
});
await check('without the program: it says since when, and goes on once that is back', async () => {
  await act('relay-stop');
  await says(page, '#state', /^No answer since \d\d:\d\d:\d\d$/);
  assert.match(await page.title(), /^! /);
  await shot(page, 'away');
  await act('relay-start');
  await says(page, '#state', /^Everything runs$/);
  await until(async () => assert.equal((await tableOf(page, 'routes'))[1].Forwarded, '0'));
});
await check('a hidden page asks for nothing, and for all once it is seen', async () => {
  let requests = 0;
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', {configurable: true, get: () => value});
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await new Promise((resolve) => setTimeout(resolve, 500));
  page.on('request', () => requests++);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  assert.equal(requests, 0);
  await hide(false);
  await until(() => assert.ok(requests > 0), 10000);
});
await check('the token is forgotten when that is asked for', async () => {
  await page.locator('#forget').click();
  await says(page, '#state', /^A token is needed$/);
  assert.deepEqual(await page.evaluate(() => ({...sessionStorage})), {});
});
await close(page);

/* ---- Without a token ---- */

await check('where no token is set it is read-only, and says so', async () => {
  const reader = await open(OPEN);
  await says(reader, '#state', /^Everything runs$/);
  assert.match(await text(reader, '#read-only'), /no admin\.token is set/);
  await act('put', 'pay', 'msg:l', '2F 1 1782640800123 t67 e86400067');
  await lookUp(reader, 'msg:l');
  await says(reader, '#record', /State\s+forwarded/);
  assert.equal(await reader.locator('#complete').isVisible(), false);
  assert.equal(await reader.locator('#release').isVisible(), false);
  assert.match(await text(reader, '#may-not-change'), /once admin\.token is set/);
  await close(reader);
});

await check('no script of a message ran, nothing was asked of others, no error, no breach of the policy', () => {
  assert.deepEqual(bad, []);
});
await browser.close();
process.exit(0);
