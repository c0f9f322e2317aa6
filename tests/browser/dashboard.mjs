// The dashboard in a browser: what a person sees, reaches by keyboard, and is protected from.
//
//   node dashboard.mjs --mock [--screenshots DIR]
//   node dashboard.mjs --url http://127.0.0.1:PORT/ --token-file FILE [--screenshots DIR]
//
// `--only TEXT` runs the checks whose names contain TEXT.
//
// Against the mock everything is checked; against a daemon, all that needs no hostile or failing
// daemon. What must be shown is read from the API beside the browser, never assumed.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { chromium } from 'playwright-core';

import { HOSTILE, startMock, TOKEN } from './mock.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const DESK = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 360, height: 740 } };
const READY_MS = 240_000;

const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    mock: { type: 'boolean' },
    url: { type: 'string' },
    'token-file': { type: 'string' },
    screenshots: { type: 'string' },
  },
});

// === the daemon under test ===

const mock = options.mock ? await startMock() : null;
const base = mock?.url ?? options.url;
const token = mock ? TOKEN : readFileSync(options['token-file'], 'utf8').trim();

async function api(path) {
  const response = await fetch(new URL(path, base));
  assert.equal(response.status, 200, `${path}: ${response.status}`);
  return response.json();
}

/** Waits until a crawl has enough to show. */
async function ready() {
  const until = Date.now() + READY_MS;
  for (;;) {
    const { topics } = await api('v1/topics');
    if (topics[0]?.relevant >= 3 && topics[0].irrelevant >= 8 && topics[0].finds >= 1) return topics[0].name;
    assert.ok(Date.now() < until, `too little was found in time: ${JSON.stringify(topics)}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

// === the browser ===

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });

/**
 * A page at a route that has come to rest, in a profile of its own. What goes wrong meanwhile is
 * collected in `page.faults`; `tolerated` names what the browser itself says about refused requests.
 *
 * A crawl goes on while its page is looked at. Requests whose path matches `frozen` are sent once, and
 * their answer, `page.frozen`, is given again to later ones: what is shown can be compared with it.
 */
async function open(route, { origin = base, tolerated = [], frozen, ...profile } = DESK) {
  const context = await browser.newContext({ ...DESK, ...profile });
  const page = await context.newPage();
  if (frozen) {
    let answer;
    await page.route(
      (url) => frozen.test(url.pathname),
      async (request) => {
        answer ??= request.fetch();
        const response = await answer;
        page.frozen = await response.json();
        await request.fulfill({ response });
      },
    );
  }
  page.faults = [];
  const fault = (text) => tolerated.some((pattern) => pattern.test(text)) || page.faults.push(text);
  page.on(
    'console',
    (message) => ['error', 'warning'].includes(message.type()) && fault(`console: ${message.text()}`),
  );
  page.on('pageerror', (error) => fault(`error: ${error.stack}`));
  page.on(
    'request',
    (request) => request.url().startsWith(origin) || fault(`asks elsewhere: ${request.url()}`),
  );
  page.on('dialog', (dialog) => {
    fault(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await context.exposeFunction('cspViolated', (what) => fault(`CSP: ${what}`));
  await page.addInitScript(() =>
    document.addEventListener('securitypolicyviolation', (event) =>
      window.cspViolated(`${event.violatedDirective} ${event.blockedURI}`),
    ),
  );
  await page.goto(new URL(`/${route}`, origin).href);
  await page.locator('main h1').waitFor();
  await page.waitForLoadState('networkidle');
  return page;
}

async function close(page) {
  const { faults } = page;
  await page.context().close();
  assert.deepEqual(faults, []);
}

const UNAUTHORIZED = [/status of 401/];
const GONE = [/ERR_/];

// === checks ===

let passed = 0;
let failed = 0;

async function check(name, body) {
  if (options.only && !name.includes(options.only)) return;
  try {
    await body();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${String(error.stack).replace(/^/gm, '        ')}`);
  }
  // A page that a failed check left open would go on sending requests to the daemon.
  await Promise.all(browser.contexts().map((context) => context.close()));
}

const checkOfMock = (name, body) => (mock ? check(name, body) : undefined);

const textOf = (page, selector) => page.locator(selector).first().innerText();
const rowsOf = (page, caption) =>
  page.locator('table', { has: page.locator('caption', { hasText: caption }) }).locator('tbody tr');

/** Waits until a condition holds. */
async function until(what, condition, patience = 15_000) {
  const end = Date.now() + patience;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function signIn(page, given) {
  await page.locator('#token').fill(given);
  await page.keyboard.press('Enter');
}

const topic = await ready();
const judged = (await api(`v1/sites?topic=${topic}&verdict=relevant&order=newest&limit=20`)).sites;
const host = (judged.find((site) => !site.start) ?? judged[0]).host;
const ROUTES = { topics: '#/', topic: `#/topic/${topic}`, site: `#/site/${host}`, queue: `#/queue/${topic}` };
const decisionOf = async (site) =>
  (await api(`v1/sites/${encodeURIComponent(site)}?topic=${topic}`)).topics[0].decision?.decision ?? null;

// --- what the routes show ---

await check('the page comes with the strict policy, and its scripts never parse HTML', async () => {
  const response = await fetch(base);
  assert.equal(response.headers.get('content-security-policy'), CSP);
  const page = await browser.newPage();
  const scripts = [];
  page.on('response', (one) => one.url().endsWith('.js') && scripts.push(one.text()));
  await page.goto(base, { waitUntil: 'networkidle' });
  for (const source of await Promise.all(scripts))
    assert.doesNotMatch(
      source,
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|setHTML/,
    );
  assert.ok(scripts.length >= 5, `${scripts.length} scripts`);
  await page.close();
});

await check('topics: a card for each, with its state in words, verdicts and fetch outcomes', async () => {
  const page = await open(ROUTES.topics, { frozen: /^\/v1\/status$/ });
  const { topics } = await api('v1/topics');
  assert.equal(await page.locator('.cards .card').count(), topics.length);
  assert.match(await textOf(page, '.cards .state'), /crawling|idle: |paused|draining|starting/);
  assert.match(
    await textOf(page, '.cards .card'),
    /finds[\s\S]*Relevant[\s\S]*Border[\s\S]*pprs[\s\S]*harvest/,
  );
  assert.ok((await rowsOf(page, 'Recent verdicts').count()) > 5);
  const outcomes = Object.keys(page.frozen.fetches).length;
  assert.equal(await rowsOf(page, 'Outcomes of fetches').count(), outcomes);
  assert.equal(await page.title(), 'Topics · sitescout');
  await close(page);
});

await check('topics: a site is found by the beginning of its host', async () => {
  const page = await open(ROUTES.topics);
  await page.getByLabel('Host begins with').fill(host.slice(0, -2));
  await page.locator('.found a', { hasText: host }).first().click();
  await page.locator('h1', { hasText: host }).waitFor();
  await close(page);
});

await check('topic: each chart has as many points as the data, and the same in its table', async () => {
  const page = await open(ROUTES.topic, { frozen: /\/curve$/ });
  const { points } = page.frozen;
  for (const [index, key] of ['pprs_5000', 'harvest_1000', 'border'].entries()) {
    const chart = page.locator('.chart').nth(index);
    await until(
      'points are drawn',
      async () =>
        (await chart.locator('circle.point').count()) ===
        points.filter((point) => point[key] !== null).length,
    );
    const image = chart.getByRole('img');
    assert.ok(await image.getAttribute('aria-label'));
    assert.match(
      await page.locator(`#${await image.getAttribute('aria-describedby')}`).textContent(),
      /point|Nothing/,
    );
    assert.ok((await chart.locator('.tick').count()) >= 4);
    await chart.locator('summary').click();
    await until('rows are there', async () => (await chart.locator('tbody tr').count()) === points.length);
  }
  await close(page);
});

await check(
  'topic: sites are filtered by verdict, decision, host and confidence, page after page',
  async () => {
    const page = await open(ROUTES.topic);
    const rows = rowsOf(page, 'newest first');
    await rows.first().waitFor();
    const all = await rows.count();
    if (await page.getByRole('button', { name: 'More' }).isVisible()) {
      await page.getByRole('button', { name: 'More' }).click();
      await until('there are more', async () => (await rows.count()) > all);
    }
    await page.getByLabel('Verdict').selectOption('irrelevant');
    await until('only irrelevant ones', async () => (await rows.locator('.mark.relevant').count()) === 0);
    assert.ok((await rows.locator('.mark.irrelevant').count()) > 0);
    await page.getByLabel('Verdict').selectOption('');
    await page.getByLabel('Confidence at least').fill('0.9');
    await until('only sure ones', async () =>
      (await rows.locator('.confidence').allInnerTexts()).every((text) => Number(text) >= 0.9),
    );
    await page.getByLabel('Confidence at least').fill('');
    await page.getByLabel('Host begins with').fill(host);
    await until(
      'one is left',
      async () => (await rows.count()) === 1 && (await rows.first().innerText()).includes(host),
    );
    await page.getByLabel('Decision').selectOption('reject');
    await until('none is left', async () => (await rows.count()) === 0);
    await close(page);
  },
);

await check('topic: a pasted page is tried without a token', async () => {
  const page = await open(ROUTES.topic);
  const text = `${topic} `.repeat(40);
  await page
    .getByLabel('HTML of the page')
    .fill(`<title>Tried</title><p>${text} club tournament opening games members board</p>`);
  await page.getByRole('button', { name: 'Try' }).click();
  await page.locator('.tried dl').waitFor();
  assert.match(await textOf(page, '.tried'), /Page confidence\s+[01]\.\d{3}/);
  assert.match(await textOf(page, '#told'), /Page confidence/);
  await close(page);
});

await check('site: verdict, pages in order, telling words and recommendations', async () => {
  const page = await open(ROUTES.site, { frozen: /^\/v1\/sites\/[^/]+$/ });
  const detail = page.frozen.topics.find((one) => one.topic === topic);
  const section = page.locator('.of-topic').first();
  assert.match(await section.innerText(), /relevant/);
  assert.equal(await rowsOf(page, 'Pages read').count(), detail.evidence.length);
  const spoken = detail.evidence.filter((one) => one.site_confidence !== null).length;
  assert.equal(await section.locator('.curve.first circle.point').count(), spoken);
  assert.ok((await rowsOf(page, 'Words for it').count()) > 0);
  assert.equal(await rowsOf(page, 'Recommended by').count(), detail.recommended_by.length);
  assert.equal(await rowsOf(page, 'Recommends').count(), detail.recommends.length);
  await close(page);
});

await checkOfMock('charts draw one point, and none', async () => {
  const young = mock.sites.find((site) => site.topic === 'chess').host;
  const curves = await open('#/topic/chess');
  assert.equal(await curves.locator('.chart').nth(2).locator('circle.point').count(), 1);
  assert.match(await curves.locator('.chart').first().locator('svg').textContent(), /nothing to show yet/);
  await close(curves);
  const page = await open(`#/site/${young}`);
  assert.ok((await page.locator('.plot .tick').count()) > 4);
  assert.doesNotMatch(await page.locator('.plot').evaluate((one) => one.outerHTML), /NaN|Infinity|undefined/);
  await close(page);
});

await check('links to crawled sites give nothing away', async () => {
  const page = await open(ROUTES.site);
  const links = await page
    .locator('main a[href^="http"]')
    .evaluateAll((all) => all.map(({ rel, target }) => `${rel} ${target}`));
  assert.ok(links.length > 0);
  assert.deepEqual([...new Set(links)], ['noopener noreferrer nofollow _blank']);
  await close(page);
});

await check('what does not exist is said to be so', async () => {
  const tolerated = [/status of 404/];
  for (const [route, words] of [
    ['#/nowhere', /no such page/],
    ['#/topic/nothing', /nothing/],
    ['#/site/never-heard-of.example', /never-heard-of\.example/],
    ['#/%E0%A4%A', /no such page/],
  ]) {
    const page = await open(route, { tolerated });
    await page.locator('h1', { hasText: 'Not found' }).waitFor();
    assert.match(await textOf(page, 'main'), words);
    await close(page);
  }
});

// --- for everyone ---

/** Headings begin at one and never leave out a level. */
async function headingsInOrder(page) {
  const levels = await page
    .locator('main :is(h1, h2, h3, h4)')
    .evaluateAll((all) => all.map(({ tagName }) => Number(tagName[1])));
  assert.equal(levels.filter((level) => level === 1).length, 1);
  levels.reduce((before, level) => {
    assert.ok(level <= before + 1, levels.join(' '));
    return level;
  }, 0);
}

async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(
    grave.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map(({ html }) => html)
          .join(' | ')}`,
    ),
    [],
  );
}

const LOOKS = {
  light: { ...DESK, colorScheme: 'light' },
  dark: { ...DESK, colorScheme: 'dark' },
  'phone, light': { ...PHONE, colorScheme: 'light' },
  'phone, dark': { ...PHONE, colorScheme: 'dark' },
};

for (const [name, route] of Object.entries(ROUTES)) {
  for (const [look, profile] of Object.entries(LOOKS)) {
    await check(
      `${name}, ${look}: no serious accessibility problem, nothing wider than the page`,
      async () => {
        const page = await open(route, profile);
        await page.locator('main details').evaluateAll((all) => all.forEach((one) => (one.open = true)));
        await page.waitForTimeout(200);
        const [wide, room] = await page.evaluate(() => [
          document.documentElement.scrollWidth,
          window.innerWidth,
        ]);
        assert.ok(wide <= room, `${wide} > ${room}`);
        await headingsInOrder(page);
        await accessible(page);
        await close(page);
      },
    );
  }
}

await check('the dialogs have no serious accessibility problem', async () => {
  const page = await open(ROUTES.queue, LOOKS.dark);
  await page.keyboard.press('?');
  await page.locator('dialog[open]', { hasText: 'Keys' }).waitFor();
  await accessible(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Sign in' }).first().click();
  await page.locator('#sign-in[open]').waitFor();
  await accessible(page);
  await close(page);
});

await check('nothing moves for those who want no motion', async () => {
  const page = await open(ROUTES.topics, { ...DESK, reducedMotion: 'reduce' });
  const moving = await page.evaluate(
    () =>
      document.getAnimations().length +
      [...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).transitionDuration !== '0s')
        .length,
  );
  assert.equal(moving, 0);
  await close(page);
});

// --- by keyboard ---

const focused = (page) =>
  page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent}`);

await check('keyboard: the skip link comes first, and routes move the focus to their heading', async () => {
  const page = await open(ROUTES.topics);
  await page.keyboard.press('Tab');
  assert.equal(await focused(page), 'A Skip to the content');
  assert.ok((await page.locator('#skip').boundingBox()).y >= 0, 'it is visible');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'H1 Topics');
  await page.keyboard.press('Tab');
  assert.equal(await focused(page), `A ${topic}`);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, 'solid');
  await page.keyboard.press('Enter');
  await page.locator('.chart').first().waitFor();
  assert.equal(await focused(page), `H1 ${topic}`);
  assert.equal(await page.title(), `${topic} · sitescout`);
  await close(page);
});

const current = (page) => textOf(page, '.current h2');

await check('queue: worked by keyboard, with a wrong token first', async () => {
  const page = await open(ROUTES.queue, { ...DESK, tolerated: UNAUTHORIZED });
  await page.locator('.current .evidence h3').first().waitFor();
  const first = await current(page);
  await page.keyboard.press('a');
  await page.locator('#sign-in[open]').waitFor();
  await signIn(page, 'wrong');
  await page.locator('#sign-in-reason', { hasText: 'did not accept' }).waitFor();
  await signIn(page, token);
  await until('the next is shown', async () => (await current(page)) !== first);
  await until('it is announced', async () => (await textOf(page, '#told')).startsWith(`${first} accepted`));
  assert.equal(await decisionOf(first), 'accept');

  const second = await current(page);
  await page.keyboard.press('s');
  await until('it is skipped', async () => (await current(page)) !== second);
  assert.equal(await decisionOf(second), null);

  const third = await current(page);
  await page.keyboard.press('r');
  await until('it is rejected', async () => (await current(page)) !== third);
  assert.equal(await decisionOf(third), 'reject');
  await page.keyboard.press('u');
  await until('it is back', async () => (await current(page)) === third);
  assert.equal(await decisionOf(third), null);
  await page.keyboard.press('u');
  await until('so is the first', async () => (await current(page)) === first);
  assert.equal(await decisionOf(first), null);
  await page.keyboard.press('u');
  await until('there is no more', async () => (await textOf(page, '#told')).includes('no decision to undo'));
  await close(page);
});

await check('queue: keys are silent while typing, with modifiers, and when switched off', async () => {
  const page = await open(ROUTES.queue);
  await page.locator('.current .evidence h3').first().waitFor();
  const first = await current(page);
  await page.getByLabel('Note for the decision').focus();
  await page.keyboard.type('a rusty oar? us');
  assert.equal(await page.getByLabel('Note for the decision').inputValue(), 'a rusty oar? us');
  await page.locator('h1').click();
  await page.keyboard.press('Control+s');
  await page.getByLabel('Single keys').uncheck();
  await page.keyboard.press('s');
  await page.keyboard.press('a');
  assert.equal(await current(page), first);
  assert.equal(await page.locator('dialog[open]').count(), 0);
  await page.getByLabel('Single keys').check();
  await page.keyboard.press('s');
  await until('keys are on again', async () => (await current(page)) !== first);
  await close(page);
});

await check('queue: a site opens in a new tab that knows nothing of this one', async () => {
  const page = await open(ROUTES.queue, { ...DESK, tolerated: GONE });
  await page
    .context()
    .route(/^https?:\/\/[^/]*\.example/, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>there</title>' }),
    );
  await page.locator('.current .evidence h3').first().waitFor();
  const opening = page.context().waitForEvent('page');
  await page.keyboard.press('o');
  const other = await opening;
  await other.waitForLoadState();
  assert.equal(new URL(other.url()).hostname.replace(/^www\./, ''), await current(page));
  assert.equal(await other.evaluate(() => window.opener === null && document.referrer === ''), true);
  await close(page);
});

// --- writes ---

await check(
  'site: accepted with a note after a wrong token, then withdrawn; the token stays in the session',
  async () => {
    const page = await open(ROUTES.site, { ...DESK, tolerated: UNAUTHORIZED });
    const section = page.locator('.of-topic').first();
    await section.getByLabel('Note').fill('well kept');
    await section.getByRole('button', { name: 'Accept' }).click();
    await signIn(page, 'wrong');
    await page.locator('#sign-in-reason', { hasText: 'did not accept' }).waitFor();
    await signIn(page, token);
    await section.locator('.decided', { hasText: 'well kept' }).waitFor();
    assert.equal(await decisionOf(host), 'accept');
    assert.match(await focused(page), /BUTTON Accept/);
    const kept = await page.evaluate(() => [
      JSON.stringify(localStorage),
      document.cookie,
      sessionStorage.length,
    ]);
    assert.ok(!kept[0].includes(token) && kept[1] === '' && kept[2] === 1);
    await section.getByRole('button', { name: 'Withdraw' }).click();
    await section.locator('.decided', { hasText: 'no decision yet' }).waitFor();
    assert.equal(await decisionOf(host), null);
    await section.getByRole('button', { name: 'Recheck' }).click();
    await until('it is announced', async () => (await textOf(page, '#told')).includes('visited again'));
    await close(page);
  },
);

await check('site: not signing in changes nothing, and says so', async () => {
  const page = await open(ROUTES.site);
  await page.getByRole('button', { name: 'Reject' }).first().click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await until('it is announced', async () => (await textOf(page, '#told')).includes('Nothing was changed'));
  assert.equal(await decisionOf(host), null);
  await close(page);
});

await check('site: blocked with a reason, and unblocked', async () => {
  const page = await open(ROUTES.site);
  await page.getByText('Block this site').click();
  await page.getByLabel('Reason').fill('a farm');
  await page.getByRole('button', { name: 'Block', exact: true }).click();
  await signIn(page, token);
  await page.locator('.blocked', { hasText: 'a farm' }).waitFor();
  await page.getByRole('button', { name: 'Unblock' }).click();
  await page.locator('.blocked').waitFor({ state: 'hidden' });
  await close(page);
});

await check('topics: paused and resumed, on the same button; start sites added', async () => {
  const page = await open(ROUTES.topics);
  const button = page.locator('.cards .card').first().locator('button');
  await button.click();
  await signIn(page, token);
  await until('it is paused', async () => (await button.innerText()) === 'Resume');
  await button.click();
  await until('it goes on', async () => (await button.innerText()) === 'Pause');
  assert.match(await focused(page), /BUTTON Pause/);
  await page.goto(new URL(`/${ROUTES.topic}`, base).href);
  await page.getByLabel('Hosts or addresses').fill(`${host}\nanother.example`);
  await page.getByRole('button', { name: 'Add' }).click();
  await until('it is announced', async () => /new start site/.test(await textOf(page, '#told')));
  await close(page);
});

// --- updates and outages ---

await check('reading again keeps the focus, what is typed, and what is opened', async () => {
  const page = await open(ROUTES.topic);
  await page.locator('.chart summary').first().click();
  const region = page.locator('.chart .region').first();
  const input = page.getByLabel('HTML of the page');
  await input.fill('half a sen');
  await page.waitForResponse(/\/curve$/);
  await page.waitForResponse(new RegExp(`/topics/${topic}$`));
  await page.keyboard.type('tence');
  assert.equal(await input.inputValue(), 'half a sentence');
  assert.ok(
    await page
      .locator('.chart details')
      .first()
      .evaluate((one) => one.open),
  );
  assert.ok((await region.locator('tr').count()) > 1);
  await page.goto(new URL('/#/', base).href);
  for (const [selector, reading] of [
    ['.cards .card a', /\/v1\/topics$/],
    ['.sites tbody a', /\/v1\/sites\?/],
  ]) {
    await page.locator(selector).first().focus();
    const before = await focused(page);
    await page.waitForResponse(reading);
    await page.waitForTimeout(200);
    assert.equal(await focused(page), before);
  }
  await close(page);
});

await checkOfMock('a hidden page asks for nothing, and reads again when it is seen', async () => {
  const page = await open(ROUTES.topics);
  const turn = (isHidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  await turn(true);
  await page.waitForTimeout(500);
  const before = mock.state.requests.length;
  await page.waitForTimeout(6500);
  assert.deepEqual(mock.state.requests.slice(before), []);
  await turn(false);
  await until('it asks again', () => mock.state.requests.length > before, 1000);
  await close(page);
});

await checkOfMock('a daemon that is gone is said to be, and comes back by itself', async () => {
  const page = await open(ROUTES.topics, { ...DESK, tolerated: GONE });
  await page.getByLabel('Host begins with').fill('harbour');
  mock.state.isGone = true;
  await page.locator('#banner:visible').waitFor({ timeout: 15_000 });
  assert.match(
    await textOf(page, '#banner'),
    /^no answer from the daemon since \d\d:\d\d:\d\d; trying again$/,
  );
  assert.ok((await page.locator('.cards .card').count()) > 0, 'what was known is still there');
  mock.state.isGone = false;
  await page.locator('#banner').waitFor({ state: 'hidden', timeout: 15_000 });
  assert.equal(await page.getByLabel('Host begins with').inputValue(), 'harbour');
  await close(page);
});

await checkOfMock('a view that was opened while the daemon was gone fills itself later', async () => {
  const page = await open(ROUTES.topics, { ...DESK, tolerated: GONE });
  mock.state.isGone = true;
  await page.evaluate((route) => (location.hash = route), ROUTES.queue);
  await page.locator('#banner:visible').waitFor();
  mock.state.isGone = false;
  await page.locator('.current .evidence h3').first().waitFor({ timeout: 15_000 });
  await page.locator('#banner').waitFor({ state: 'hidden', timeout: 15_000 });
  await close(page);
});

await checkOfMock('without a token in the daemon, nothing that writes is offered', async () => {
  mock.state.writes = false;
  for (const route of Object.values(ROUTES)) {
    const page = await open(route);
    await page.locator('#no-token:visible').waitFor();
    assert.equal(
      await page.getByRole('button', { name: /Accept|Reject|Pause|Resume|Block|Add|Sign in|Undo/ }).count(),
      0,
    );
    await close(page);
  }
  mock.state.writes = true;
});

await checkOfMock('where even reading needs the token, it is asked for first', async () => {
  mock.state.readsNeedToken = true;
  const page = await open(ROUTES.topics, { ...DESK, tolerated: UNAUTHORIZED });
  await page.locator('#sign-in[open]').waitFor();
  await signIn(page, 'wrong');
  await page.locator('#sign-in-reason', { hasText: 'did not accept' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('h1', { hasText: 'Sign in first' }).waitFor();
  await page.locator('main').getByRole('button', { name: 'Sign in' }).click();
  await signIn(page, token);
  await page.locator('.cards .card').first().waitFor();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await close(page);
  mock.state.readsNeedToken = false;
});

// --- hostile text ---

/** Everything the page shows is made of our own elements. */
async function onlyOurs(page) {
  const foreign = await page.evaluate(() => ({
    made: document.querySelectorAll('img, iframe, object, embed, body script, [onerror], [onload], [style]')
      .length,
    links: [...document.querySelectorAll('a')]
      .map((a) => a.protocol)
      .filter((protocol) => !['http:', 'https:'].includes(protocol)),
    disguises: /[\u0000-\u0008\u000e-\u001f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent),
  }));
  assert.deepEqual(foreign, { made: 0, links: [], disguises: false });
}

await checkOfMock('hostile text is shown as text, on every route', async () => {
  const odd = mock.sites.filter((site) => site.isOdd);
  for (const site of odd) {
    const page = await open(`#/site/${site.host}`);
    await page.locator('.decided', { hasText: HOSTILE.image }).waitFor();
    const text = await textOf(page, 'main');
    for (const part of [
      HOSTILE.image,
      HOSTILE.script,
      HOSTILE.link,
      'exe.\ufffdgpj.example',
      'bell\ufffdand\ufffd[31mred\ufffdline',
    ])
      assert.ok(text.includes(part), part);
    assert.ok(!text.includes('a'.repeat(1000)), 'long texts are cut');
    await onlyOurs(page);
    await close(page);
  }
  for (const route of [
    '#/',
    '#/topic/pottery',
    '#/queue/pottery',
    `#/topic/${encodeURIComponent(HOSTILE.image)}`,
    `#/site/${encodeURIComponent(HOSTILE.script)}`,
  ]) {
    const page = await open(route, { ...DESK, tolerated: [/status of 404/] });
    await onlyOurs(page);
    await close(page);
  }
  const page = await open('#/');
  await page.locator('.bars th', { hasText: HOSTILE.image }).waitFor();
  await page.getByLabel('Host begins with').fill(HOSTILE.script);
  await page.locator('.found li', { hasText: HOSTILE.script }).waitFor();
  await onlyOurs(page);
  await close(page);
});

await checkOfMock('hostile text of a tried page and of an editor’s note does nothing either', async () => {
  const page = await open('#/topic/pottery');
  await page.getByLabel('HTML of the page').fill(HOSTILE.script);
  await page.getByRole('button', { name: 'Try' }).click();
  await page.locator('.tried', { hasText: HOSTILE.script }).waitFor();
  await page.locator('.tried', { hasText: HOSTILE.image }).waitFor();
  await onlyOurs(page);
  await close(page);
});

await checkOfMock('phone: the longest host and word widen no page', async () => {
  for (const site of mock.sites.filter((one) => one.isOdd)) {
    for (const route of [`#/site/${site.host}`, '#/', '#/topic/pottery', '#/queue/pottery']) {
      const page = await open(route, PHONE);
      const [wide, room] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        window.innerWidth,
      ]);
      assert.ok(wide <= room, `${route}: ${wide} > ${room}`);
      await close(page);
    }
  }
});

// === pictures ===

async function takePictures(directory) {
  await mkdir(directory, { recursive: true });
  // Hostile text would spoil them.
  const plain = mock && (await startMock({ hostile: false }));
  const origin = plain?.url ?? base;
  const light = { ...DESK, colorScheme: 'light', origin };
  for (const [name, route] of Object.entries(ROUTES))
    await picture(join(directory, `${name}.png`), route, light);
  await picture(join(directory, 'phone-dark.png'), ROUTES.topic, { ...PHONE, colorScheme: 'dark', origin });
  await plain?.stop();
}

async function picture(path, route, profile) {
  const page = await open(route, profile);
  await page.waitForTimeout(500);
  await page.screenshot({ path });
  await close(page);
}

if (options.screenshots)
  await check(`pictures are in ${options.screenshots}`, () => takePictures(options.screenshots));

await browser.close();
await mock?.stop();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
