// `#/queue/TOPIC`: the sites whose decision teaches the model most, one at a time, by keyboard.

import { read, v1, withQuery, write } from './api.js';
import { facts, field, foreign, h, hostLink, outLink, routeTo, setText, webAddress } from './elements.js';
import { confidenceMark, evidenceBlocks, verdictMark } from './evidence.js';
import { act, announce } from './live.js';
import { confidence, counted, decisionInWords, shown, whole } from './words.js';

const AT_ONCE = 20;
/** With fewer sites than this waiting, more are requested. */
const FEW = 4;
const NEXT_SHOWN = 8;
const STORAGE_KEY = 'sitescout-queue-keys';

const ACTIONS = [
  { key: 'a', name: 'Accept', kind: 'writes', help: 'accept the site: it belongs on the list' },
  { key: 'r', name: 'Reject', kind: 'writes no', help: 'reject the site: it does not belong there' },
  { key: 's', name: 'Skip', kind: 'quiet', help: 'skip the site, and decide later' },
  { key: 'o', name: 'Open', kind: 'quiet', help: 'open the site in a new tab' },
  { key: 'u', name: 'Undo', kind: 'writes quiet', help: 'undo the last decision' },
  { key: '?', name: 'Help', kind: 'quiet', help: 'show these keys' },
];

export function queueView(scope, topic) {
  const queue = new WaitingSites(topic, scope.signal);
  const card = currentCard();
  const progress = h('p', { class: 'hint' });
  const next = h('ol', { class: 'next' });
  const help = helpDialog();
  const keys = keySwitch();
  const perform = oneAtATime({
    a: () => decide('accept'),
    r: () => decide('reject'),
    s: skip,
    o: open,
    u: undo,
    '?': () => help.showModal(),
  });

  async function decide(decision) {
    const site = await queue.decide(decision, card.note.value.trim());
    return site ? moveOn(`${shown(site.host)} ${decisionInWords(decision)}.`) : NOTHING_WAITS;
  }

  async function skip() {
    const site = queue.skip();
    return site ? moveOn(`${shown(site.host)} skipped.`) : NOTHING_WAITS;
  }

  async function undo() {
    const site = await queue.undo();
    return site ? moveOn(`The decision on ${shown(site.host)} is undone.`) : 'There is no decision to undo.';
  }

  async function open() {
    if (!queue.first) return NOTHING_WAITS;
    const { entrance } = await queue.detailOf(queue.first);
    const address = webAddress(entrance) ?? webAddress(`http://${queue.first.host}/`);
    if (address === null) return 'Its address cannot be opened.';
    window.open(address, '_blank', 'noopener,noreferrer');
    return undefined;
  }

  async function moveOn(done) {
    card.note.value = '';
    show();
    await scope.attempt(readMore);
    return `${done} ${queue.first ? `Next: ${shown(queue.first.host)}.` : NOTHING_WAITS}`;
  }

  async function readMore() {
    const before = queue.first;
    await queue.readMore();
    if (queue.first !== before || !before) show();
    else showProgress();
  }

  function show() {
    const site = queue.first;
    showProgress();
    card.update(site, queue.counts.skipped);
    // Another site may be shown by the time the evidence arrives.
    if (site) scope.once(async () => card.explain(await queue.detailOf(site), () => queue.first === site));
  }

  function showProgress() {
    const { decided, skipped, waiting } = queue.counts;
    const text = `${counted(decided, 'decision')}, ${whole(skipped)} skipped, ${whole(waiting)} waiting here`;
    setText(progress, text);
    next.replaceChildren(...queue.upcoming.map(nextItem));
  }

  const onKey = (event) => keys.input.checked && isShortcut(event) && perform(event.key);
  document.addEventListener('keydown', onKey, { signal: scope.signal });
  scope.every(10, readMore);
  return {
    title: `Queue: ${shown(topic)}`,
    node: layout(topic, { perform, progress, card, next, keys, help }),
  };
}

const NOTHING_WAITS = 'No site is waiting.';

/** Runs actions by their keys; a key held down must not decide about sites not seen yet. */
function oneAtATime(actions) {
  let isBusy = false;
  return async (key) => {
    if (isBusy || !Object.hasOwn(actions, key)) return;
    isBusy = true;
    try {
      await act(actions[key]);
    } finally {
      isBusy = false;
    }
  };
}

// === waiting sites ===

/**
 * Invariant: the first site is the one shown. It leaves when the daemon has recorded the decision, or
 * when it is skipped, and comes back when the decision is undone.
 */
class WaitingSites {
  #topic;
  #signal;
  #waiting = [];
  #decided = [];
  #skipped = new Set();
  #details = new Map();

  constructor(topic, signal) {
    this.#topic = topic;
    this.#signal = signal;
  }

  get first() {
    return this.#waiting[0];
  }

  get upcoming() {
    return this.#waiting.slice(1, NEXT_SHOWN + 1);
  }

  get counts() {
    const [decided, skipped, waiting] = [this.#decided.length, this.#skipped.size, this.#waiting.length];
    return { decided, skipped, waiting };
  }

  /** Records the decision on the first site, and returns that site, if any. */
  async decide(decision, note) {
    if (!this.first) return undefined;
    await write('PUT', this.#decisionOn(this.first), { decision, note });
    this.#decided.push(this.#waiting.shift());
    return this.#decided.at(-1);
  }

  skip() {
    if (this.first) this.#skipped.add(this.first.host);
    return this.#waiting.shift();
  }

  /** Withdraws the last decision, and returns its site, if any. */
  async undo() {
    if (this.#decided.length === 0) return undefined;
    await write('DELETE', this.#decisionOn(this.#decided.at(-1)));
    this.#waiting.unshift(this.#decided.pop());
    return this.first;
  }

  /** Refills the queue. The daemon still returns skipped sites, so the limit is raised by their number. */
  async readMore() {
    if (this.#waiting.length >= FEW) return;
    const limit = AT_ONCE + this.#skipped.size;
    const { sites } = await read(withQuery(v1('topics', this.#topic, 'queue'), { limit }), this.#signal);
    const known = new Set([...this.#waiting, ...this.#decided].map(({ host }) => host));
    this.#waiting.push(...sites.filter(({ host }) => !known.has(host) && !this.#skipped.has(host)));
  }

  /** The details of a site, read once; those of the next site are prefetched. */
  detailOf(site) {
    const following = this.#waiting[this.#waiting.indexOf(site) + 1];
    if (following) this.#read(following.host).catch(() => {});
    return this.#read(site.host);
  }

  #read(host) {
    if (!this.#details.has(host)) {
      const path = withQuery(v1('sites', host), { topic: this.#topic });
      const reading = read(path, this.#signal).then(({ topics }) => topics[0] ?? {});
      // A failed read must not stay in the cache.
      reading.catch(() => this.#details.delete(host));
      this.#details.set(host, reading);
    }
    return this.#details.get(host);
  }

  #decisionOn({ host }) {
    return v1('topics', this.#topic, 'sites', host, 'decision');
  }
}

// === layout ===

function layout(topic, { perform, progress, card, next, keys, help }) {
  const buttons = ACTIONS.map(({ key, name, kind }) => {
    const attributes = { type: 'button', class: kind, 'aria-keyshortcuts': key, click: () => perform(key) };
    return h('button', attributes, name, h('kbd', { 'aria-hidden': 'true' }, key));
  });
  const group = h('div', { class: 'buttons', role: 'group', 'aria-label': 'Decide' }, buttons);
  const back = h('a', { href: routeTo('topic', topic) }, 'Back to the topic');
  return h(
    'div',
    {},
    h('h1', {}, 'Editors’ queue: ', foreign(topic)),
    h('p', { class: 'lead' }, 'Sites without a decision, those that teach the model most first. ', back),
    h(
      'div',
      { class: 'queue' },
      h('div', {}, h('div', { class: 'toolbar' }, group, progress), card.node),
      h('section', { 'aria-labelledby': 'next' }, h('h2', { id: 'next' }, 'Next'), next, keys.node),
    ),
    help,
  );
}

const nextItem = (site) =>
  h('li', {}, hostLink(site.host), h('span', { class: 'hint' }, ` ${confidence(site.confidence)}`));

/** The site to decide about; one card, updated in place. */
function currentCard() {
  const heading = h('h2', {}, '…');
  const entrance = h('p');
  const head = h('div');
  const note = h('input', { type: 'text', autocomplete: 'off', maxlength: 500 });
  const noteField = field('Note for the decision', note);
  noteField.classList.add('writes');
  const evidence = h('div', { class: 'evidence' });
  const attributes = { class: 'card current', 'aria-label': 'The site to decide about' };
  const node = h('section', attributes, heading, entrance, head, noteField, evidence);

  function update(site, skipped) {
    entrance.replaceChildren();
    evidence.replaceChildren();
    noteField.hidden = !site;
    heading.replaceChildren(site ? hostLink(site.host) : 'No site is waiting');
    head.replaceChildren(site ? siteFacts(site) : h('p', {}, whyNone(skipped)));
  }

  function explain(detail, isStillShown) {
    if (!isStillShown()) return;
    entrance.replaceChildren(detail.entrance ? outLink(detail.entrance) : '');
    evidence.replaceChildren(...evidenceBlocks(detail));
  }
  return { node, note, update, explain };
}

const siteFacts = (site) =>
  facts([
    ['Verdict', verdictMark(site)],
    ['Confidence', confidenceMark(site.confidence)],
    ['Pages', whole(site.pages)],
    ['Teaches', confidence(site.teaches)],
  ]);

const whyNone = (skipped) =>
  skipped === 0
    ? 'All sites are decided. More will come as the crawl goes on.'
    : `All others are decided; ${counted(skipped, 'skipped site')} will be offered again next time.`;

// === keys ===

/** Whether a key is a shortcut: not while typing, in a dialog, held down, or with a modifier. */
function isShortcut({ target, repeat, ctrlKey, metaKey, altKey }) {
  const isTyping = target.closest('input:not([type=checkbox]), textarea, select, [contenteditable]');
  const hasDialog = document.querySelector('dialog[open]') !== null;
  return !(isTyping || hasDialog || repeat || ctrlKey || metaKey || altKey);
}

function helpDialog() {
  const keys = ACTIONS.map(({ key, help }) =>
    h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, help)),
  );
  const dialog = h('dialog', { 'aria-labelledby': 'keys-title' });
  const close = h('button', { type: 'button', click: () => dialog.close() }, 'Close');
  dialog.append(h('h2', { id: 'keys-title' }, 'Keys'), h('dl', { class: 'keys' }, keys), close);
  return dialog;
}

/** Single-key shortcuts can conflict with other software; the choice to switch them off is stored. */
function keySwitch() {
  const input = h('input', { type: 'checkbox', id: 'queue-keys' });
  input.checked = localStorage.getItem(STORAGE_KEY) !== 'off';
  input.addEventListener('change', () => {
    localStorage.setItem(STORAGE_KEY, input.checked ? 'on' : 'off');
    announce(input.checked ? 'Shortcuts are on.' : 'Shortcuts are off.');
  });
  const label = h('label', { for: 'queue-keys' }, 'Single keys as shortcuts (press ? for help)');
  return { input, node: h('p', { class: 'switch' }, input, label) };
}
