// `#/`: all topics, recent verdicts, outcomes of fetches, and a search by host.

import { read, v1, write } from './api.js';
import { bar, barTable } from './charts.js';
import { foreign, form, h, hostLink, keyed, routeTo, setText, field } from './elements.js';
import { verdictMark } from './evidence.js';
import { act, announce, onStatus, whenSettled } from './live.js';
import { readSites, siteTable } from './site_list.js';
import { confidence, counted, label, pprs, share, shown, stateInWords, whole } from './words.js';

const RECENT = 15;
const FOUND_AT_ONCE = 12;

export function topicsView(scope) {
  const cards = h('div', { class: 'cards' });
  const nothing = h(
    'p',
    { hidden: true },
    'The daemon has no topics. Name them in [service] of its settings.',
  );
  const recent = siteTable('Recent verdicts', { hasTopic: true });
  const fetches = barTable('Outcomes of fetches', 'Outcome', 'Fetches', whole);
  const node = h(
    'div',
    {},
    h('h1', {}, 'Topics'),
    nothing,
    cards,
    h(
      'div',
      { class: 'columns' },
      h(
        'section',
        { 'aria-labelledby': 'recent' },
        h('h2', { id: 'recent' }, 'Recent verdicts'),
        recent.node,
      ),
      h(
        'div',
        {},
        searchSection(scope),
        h(
          'section',
          { 'aria-labelledby': 'fetches' },
          h('h2', { id: 'fetches' }, 'Fetches'),
          h('p', { class: 'hint' }, 'Outcomes of page requests since the daemon started.'),
          fetches.node,
        ),
      ),
    ),
  );

  scope.every(5, async (signal) => {
    const { topics } = await read(v1('topics'), signal);
    nothing.hidden = topics.length > 0;
    keyed(cards, topics, ({ name }) => name, topicCard);
  });
  scope.every(5, async (signal) => {
    const { sites } = await readSites({ limit: RECENT }, null, signal);
    // A keyboard user must not lose the focused row.
    if (!recent.node.contains(document.activeElement)) recent.update(sites.slice(0, RECENT));
  });
  onStatus(scope.signal, (status) => fetches.update(outcomes(status.fetches)));
  return { title: 'Topics', node };
}

function outcomes(fetches) {
  const items = Object.entries(fetches).map(([key, value]) => ({
    key,
    name: foreign(label(key)),
    value,
    kind: key === '2xx' ? 'for' : 'first',
  }));
  return items.sort((one, other) => other.value - one.value || one.key.localeCompare(other.key));
}

// === the summary of a topic ===

function topicCard(topic) {
  const summary = topicSummary();
  const toggle = pauseButton();
  const heading = h('h2', {}, h('a', { href: routeTo('topic', topic.name) }, foreign(topic.name)));
  const queue = h(
    'a',
    { href: routeTo('queue', topic.name), 'aria-label': `Editors’ queue of ${shown(topic.name)}` },
    'Editors’ queue',
  );
  const node = h(
    'section',
    { class: 'card' },
    heading,
    summary.node,
    h('div', { class: 'buttons' }, toggle.node, queue),
  );
  const update = (latest) => {
    summary.update(latest);
    toggle.update(latest);
  };
  return { node, update };
}

const TOTALS = [
  ['Relevant', 'relevant'],
  ['Irrelevant', 'irrelevant'],
  ['Undecided', 'undecided'],
  ['Pages', 'pages'],
  ['Border', 'border'],
  ['Deferred', 'deferred'],
  ['In flight', 'in_flight'],
];

const WINDOWS = [
  ['all', 'All'],
  ['last_1000', 'Last 1,000'],
  ['last_5000', 'Last 5,000'],
];

/** State, finds and totals of a topic: `{ node, update(topic) }`. */
export function topicSummary() {
  const state = h('p', { class: 'state' });
  const finds = h('strong');
  const wanted = h('span');
  const progress = bar('for');
  const values = TOTALS.map(() => h('dd'));
  const rates = ratesTable();
  const node = h(
    'div',
    { class: 'summary' },
    state,
    h('p', { class: 'finds' }, finds, wanted),
    progress.node,
    h(
      'dl',
      { class: 'figures' },
      TOTALS.map(([name], index) => h('div', {}, h('dt', {}, name), values[index])),
    ),
    rates.node,
  );
  const update = (topic) => {
    setText(state, stateInWords(topic));
    state.className = `state ${topic.state === 'idle' ? 'idle' : 'at-work'}`;
    setText(finds, whole(topic.finds));
    setText(
      wanted,
      topic.wanted === null
        ? ` ${topic.finds === 1 ? 'find' : 'finds'}`
        : ` finds of ${whole(topic.wanted)} wanted`,
    );
    progress.node.classList.toggle('absent', topic.wanted === null);
    progress.update(topic.finds / topic.wanted);
    TOTALS.forEach(([, key], index) => setText(values[index], whole(topic[key])));
    rates.update(topic);
  };
  return { node, update };
}

/** pprs and harvest rate, overall and over the last pages. */
function ratesTable() {
  const row = (name, title) => {
    const cells = WINDOWS.map(() => h('td', { class: 'number' }));
    return { cells, node: h('tr', {}, h('th', { scope: 'row' }, h('abbr', { title }, name)), cells) };
  };
  const cost = row('pprs', 'pages per relevant site');
  const rate = row('harvest', 'harvest rate: share of relevant sites among those judged');
  const heads = h(
    'tr',
    {},
    h('td'),
    WINDOWS.map(([, name]) => h('th', { scope: 'col', class: 'number' }, name)),
  );
  const caption = h(
    'caption',
    { class: 'unseen' },
    'pprs and harvest rate, over all pages and over the last ones',
  );
  const node = h(
    'table',
    { class: 'rates' },
    caption,
    h('thead', {}, heads),
    h('tbody', {}, cost.node, rate.node),
  );
  const update = (topic) =>
    WINDOWS.forEach(([key], index) => {
      setText(cost.cells[index], pprs(topic.pprs[key]));
      setText(rate.cells[index], share(topic.harvest[key]));
    });
  return { node, update };
}

/** Pauses or resumes a topic; one button, so that it keeps the focus. */
export function pauseButton() {
  let topic;
  const node = h('button', { type: 'button', class: 'writes quiet', click: () => act(toggle) });
  const isPaused = () => topic.reason === 'paused';
  async function toggle() {
    const { name } = topic;
    const verb = isPaused() ? 'resume' : 'pause';
    update(await write('POST', v1('topics', name, verb)));
    return `${shown(name)}: ${stateInWords(topic)}.`;
  }
  function update(latest) {
    topic = latest;
    setText(node, isPaused() ? 'Resume' : 'Pause');
    node.setAttribute('aria-label', `${node.textContent} ${shown(topic.name)}`);
  }
  return { node, update };
}

// === search ===

function searchSection(scope) {
  const input = h('input', {
    type: 'search',
    autocomplete: 'off',
    spellcheck: 'false',
    autocapitalize: 'none',
    input: whenSettled(scope.signal, search),
  });
  const results = h('ul', { class: 'found' });
  let latest = '';

  async function search() {
    const prefix = input.value.trim().toLowerCase();
    latest = prefix;
    if (prefix === '') {
      results.replaceChildren();
      return;
    }
    const { sites } = await readSites({ host: prefix, limit: FOUND_AT_ONCE }, null, scope.signal);
    // An older response may arrive after a newer one.
    if (latest !== prefix) return;
    results.replaceChildren(
      ...sites.slice(0, FOUND_AT_ONCE).map(foundItem),
      h('li', {}, 'Everything known about ', hostLink(prefix)),
    );
    announce(
      sites.length === 0 ? 'No judged site begins with that.' : `${counted(sites.length, 'site')} found.`,
    );
  }

  return h(
    'section',
    { 'aria-labelledby': 'search' },
    h('h2', { id: 'search' }, 'Find a site'),
    form(
      { role: 'search', 'aria-labelledby': 'search' },
      () => act(search),
      field('Host begins with', input),
    ),
    results,
  );
}

const foundItem = (site) =>
  h(
    'li',
    {},
    hostLink(site.host),
    h('span', { class: 'hint' }, ` ${shown(site.topic)}, ${confidence(site.confidence)} `),
    verdictMark(site),
  );
