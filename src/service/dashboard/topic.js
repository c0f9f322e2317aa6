// `#/topic/NAME`: one topic: its curves, its sites, trying a page, adding start sites.

import { read, v1, write } from './api.js';
import { curveFigure } from './charts.js';
import { facts, field, foreign, form, h, routeTo, setText } from './elements.js';
import { verdictMark, wordsBlock } from './evidence.js';
import { act, whenSettled } from './live.js';
import { readSites, siteTable } from './site_list.js';
import { pauseButton, topicSummary } from './topics.js';
import { confidence, counted, label, pprs, share, shown, whole } from './words.js';

const SITES_AT_ONCE = 50;

export function topicView(scope, topic) {
  const summary = topicSummary();
  const toggle = pauseButton();
  const model = h('span', { class: 'model' });
  const node = h(
    'div',
    {},
    h('h1', {}, foreign(topic)),
    h(
      'div',
      { class: 'card topic-head' },
      summary.node,
      h(
        'div',
        { class: 'buttons' },
        toggle.node,
        h('a', { href: routeTo('queue', topic) }, 'Editors’ queue'),
        model,
      ),
    ),
    curvesSection(scope, topic),
    sitesSection(scope, topic),
    h('div', { class: 'sides' }, trySection(topic), startsSection(topic)),
  );
  scope.every(5, async (signal) => {
    const latest = await read(v1('topics', topic), signal);
    summary.update(latest);
    toggle.update(latest);
    setText(model, `model ${shown(latest.model).slice(0, 12)}`);
  });
  return { title: shown(topic), node };
}

// === curves ===

function curvesSection(scope, topic) {
  const charts = [
    [
      curveFigure({
        title: 'Pages per relevant site',
        note: 'Averaged over the last 5,000 pages. Lower is better.',
        valueName: 'pprs',
        format: pprs,
        yLeast: 1,
      }),
      'pprs_5000',
    ],
    [
      curveFigure({
        title: 'Harvest rate',
        note: 'Share of relevant sites among those judged, over the last 1,000 pages. Higher is better.',
        valueName: 'Harvest rate',
        format: share,
        yLeast: 0.1,
      }),
      'harvest_1000',
    ],
    [
      curveFigure({
        title: 'Border',
        note: 'Sites known and not yet visited.',
        valueName: 'Border',
        format: whole,
        yLeast: 4,
      }),
      'border',
    ],
  ];
  scope.every(10, async (signal) => {
    const { points } = await read(v1('topics', topic, 'curve'), signal);
    for (const [figure, key] of charts)
      figure.update(points.map((point) => ({ x: point.pages, y: point[key] })));
  });
  return h(
    'section',
    { 'aria-labelledby': 'curves' },
    h('h2', { id: 'curves' }, 'The crawl so far'),
    h(
      'div',
      { class: 'charts' },
      charts.map(([figure]) => figure.node),
    ),
  );
}

// === sites ===

const choice = (options) =>
  h(
    'select',
    {},
    options.map(([value, name]) => h('option', { value }, name)),
  );

function sitesSection(scope, topic) {
  const verdict = choice([
    ['', 'any'],
    ['relevant', 'relevant'],
    ['irrelevant', 'irrelevant'],
    ['undecided', 'undecided'],
  ]);
  const decision = choice([
    ['', 'any'],
    ['accept', 'accepted'],
    ['reject', 'rejected'],
    ['none', 'none yet'],
  ]);
  const host = h('input', {
    type: 'search',
    autocomplete: 'off',
    spellcheck: 'false',
    autocapitalize: 'none',
  });
  const least = h('input', { type: 'number', min: 0, max: 1, step: 0.05, inputmode: 'decimal' });
  const list = siteTable(`Sites judged for ${shown(topic)}, newest first`, { hasTopic: false });
  const count = h('p', { class: 'hint', role: 'status' });
  const more = h('button', { type: 'button', hidden: true, click: () => act(() => extend(false)) }, 'More');
  let sites = [];
  let next = null;
  let latestRequest = 0;

  const filters = () => ({
    topic,
    verdict: verdict.value,
    decision: decision.value,
    host: host.value.trim().toLowerCase(),
    min_confidence: least.value,
    limit: SITES_AT_ONCE,
  });

  /** Shows more sites, or with `isNew` starts over with the current filters. */
  async function extend(isNew) {
    latestRequest += 1;
    const request = latestRequest;
    const answer = await readSites(filters(), isNew ? null : next, scope.signal);
    // Filters may have changed during the request.
    if (request !== latestRequest) return;
    sites = isNew ? answer.sites : [...sites, ...answer.sites];
    next = answer.next;
    list.update(sites);
    more.hidden = next === null;
    setText(
      count,
      next === null
        ? `${counted(sites.length, 'site')}, all that match.`
        : `${counted(sites.length, 'site')} shown; there may be more.`,
    );
  }

  scope.once(() => extend(true));
  return h(
    'section',
    { 'aria-labelledby': 'sites' },
    h('h2', { id: 'sites' }, 'Sites'),
    form(
      { class: 'filters', 'aria-label': 'Which sites', input: whenSettled(scope.signal, () => extend(true)) },
      () => act(() => extend(true)),
      field('Verdict', verdict),
      field('Decision', decision),
      field('Host begins with', host),
      field('Confidence at least', least),
      h('button', { type: 'submit', class: 'quiet' }, 'Refresh'),
    ),
    count,
    list.node,
    h('p', {}, more),
  );
}

// === trying a page ===

function trySection(topic) {
  const html = h('textarea', { rows: 5, spellcheck: 'false' });
  const url = h('input', { type: 'url', autocomplete: 'off', placeholder: 'https://' });
  const result = h('div', { class: 'tried' });
  const hint = 'Without HTML, the daemon fetches this address; that needs the token.';
  const address = h('div', { class: 'writes' }, field('Address', url, hint));

  async function attempt() {
    const body = { html: html.value || undefined, url: url.value.trim() || undefined };
    if (!body.html && !body.url) return 'Paste a page or enter its address first.';
    // Without HTML the daemon fetches the page, which needs the token.
    const tried = await write('POST', v1('topics', topic, 'try'), body, { isOpen: Boolean(body.html) });
    result.replaceChildren(...triedBlocks(tried));
    return `Page confidence ${confidence(tried.confidence)}.`;
  }

  return h(
    'section',
    { 'aria-labelledby': 'try' },
    h('h2', { id: 'try' }, 'Try a page'),
    h('p', { class: 'hint' }, 'Judges a page by the model of this topic. Nothing is stored.'),
    form(
      {},
      () => act(attempt),
      field('HTML of the page', html),
      address,
      h('button', { type: 'submit' }, 'Try'),
    ),
    result,
  );
}

function triedBlocks(tried) {
  const speaks = tried.is_mute ? 'mute: too few known words to judge it' : 'speaks';
  const alone = tried.would_decide
    ? verdictMark({ verdict: tried.would_decide })
    : 'undecided: more pages would be read';
  const pairs = [
    ['Page confidence', confidence(tried.confidence)],
    ['The page', speaks],
    ['Verdict by this page alone', alone],
    ['Title', foreign(tried.title || 'none')],
    ['Language', label(tried.language ?? 'not known')],
    ['Known words', whole(tried.known_terms)],
  ];
  return [facts(pairs), ...wordsBlock({ for: tried.for, against: tried.against })];
}

// === start sites ===

function startsSection(topic) {
  const sites = h('textarea', { rows: 5, spellcheck: 'false', autocapitalize: 'none' });

  async function add() {
    const entered = sites.value.split(/\s+/).filter(Boolean);
    if (entered.length === 0) return 'Enter at least one site first.';
    const answer = await write('POST', v1('topics', topic, 'starts'), { sites: entered });
    sites.value = '';
    return `${counted(answer.new, 'new start site')}, ${whole(answer.known)} already known.`;
  }

  return h(
    'section',
    { class: 'writes', 'aria-labelledby': 'starts' },
    h('h2', { id: 'starts' }, 'Add start sites'),
    h('p', { class: 'hint' }, 'They are visited first, and never counted as finds.'),
    form(
      {},
      () => act(add),
      field('Hosts or addresses, one per line', sites),
      h('button', { type: 'submit' }, 'Add'),
    ),
  );
}
