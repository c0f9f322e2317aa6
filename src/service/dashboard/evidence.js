// The evidence of a verdict: telling words, pages read, and recommendations.

import { bar, barTable, largest, plot } from './charts.js';
import { foreign, h, hostLink, outLink, table } from './elements.js';
import { confidence, counted, decisionInWords, label, share, signed, UNKNOWN, whole } from './words.js';

/** Maximum number of telling words shown per side. */
const MAX_WORDS = 10;

// === verdicts ===

export function verdictMark({ verdict, undecided_reason: reason, alias_of: aliasOf, noindex }) {
  const known = ['relevant', 'irrelevant', 'undecided'].includes(verdict) ? verdict : 'unvisited';
  const text = known === 'unvisited' ? 'not visited yet' : known;
  const mark = reason ?? (noindex ? 'noindex' : null);
  const why = aliasOf ? [' alias of ', hostLink(aliasOf)] : mark ? [' ', foreign(label(mark))] : [];
  return h('span', { class: 'verdict' }, h('span', { class: `mark ${known}` }, text), why);
}

export const decisionMark = (decision) =>
  decision
    ? h(
        'span',
        { class: `mark ${decision.decision === 'accept' ? 'relevant' : 'irrelevant'}` },
        decisionInWords(decision.decision),
      )
    : UNKNOWN;

/** A confidence as a number with a bar. */
export function confidenceMark(value) {
  const { node, update } = bar();
  update(value);
  return h('span', { class: 'confidence' }, confidence(value), node);
}

// === all of the evidence ===

/** All evidence for one topic, as blocks with third-level headings. */
export function evidenceBlocks(detail) {
  return [
    ...wordsBlock(allWords(detail.evidence ?? [])),
    ...pagesBlock(detail.evidence ?? []),
    ...edgesBlock(detail),
  ];
}

function pagesBlock(pages) {
  const heading = h('h3', {}, 'Pages read');
  if (pages.length === 0) return [heading, h('p', { class: 'hint' }, 'None, or no longer stored.')];
  return [heading, h('div', { class: 'pages-read' }, confidencePlot(pages), pagesTable(pages))];
}

/** The confidence of the site after each page, and that of each page alone. */
function confidencePlot(pages) {
  const over = (name) => pages.map((page, index) => ({ x: index + 1, y: page[name] }));
  const { node, update } = plot({
    label: 'Confidence, page by page',
    xName: 'pages read',
    yFormat: share,
    yMost: 1,
    xFrom: 1,
    height: 190,
  });
  const series = [
    { name: 'the site', kind: 'first', points: over('site_confidence') },
    { name: 'the page', kind: 'second', points: over('confidence') },
  ];
  const steps = pages.map(
    (page, index) =>
      `page ${index + 1}: ${confidence(page.confidence)}, the site then ${confidence(page.site_confidence)}`,
  );
  update(series, `After ${counted(pages.length, 'page')}. ${steps.join('; ')}.`);
  const key = h(
    'p',
    { class: 'key', 'aria-hidden': 'true' },
    h('span', { class: 'first' }, 'the site so far'),
    h('span', { class: 'second' }, 'the page alone'),
  );
  return h('div', {}, node, key);
}

function pagesTable(pages) {
  const { node, body } = table('Pages read, in order', [
    ['No.', 'number'],
    ['Page'],
    ['Kind'],
    ['Outcome'],
    ['Page confidence', 'number'],
    ['Site confidence', 'number'],
  ]);
  body.append(...pages.map(pageRow));
  return node;
}

const pageRow = (page, index) =>
  h(
    'tr',
    {},
    h('td', { class: 'number' }, whole(index + 1)),
    h('td', { class: 'address' }, outLink(page.url)),
    h('td', {}, label(page.kind)),
    h('td', {}, foreign(label(page.outcome))),
    h('td', { class: 'number' }, confidence(page.confidence)),
    h('td', { class: 'number' }, confidence(page.site_confidence)),
  );

// === words ===

/** The words of all pages with the sums of their weights. */
function allWords(pages) {
  const sums = new Map();
  for (const { word, weight } of pages.flatMap((page) => [...(page.for ?? []), ...(page.against ?? [])]))
    sums.set(word, (sums.get(word) ?? 0) + weight);
  const sorted = Array.from(sums, ([word, weight]) => ({ word, weight })).sort(
    (one, other) => Math.abs(other.weight) - Math.abs(one.weight),
  );
  return {
    for: sorted.filter(({ weight }) => weight > 0),
    against: sorted.filter(({ weight }) => weight < 0),
  };
}

/** Telling words for and against, side by side, on one scale. */
export function wordsBlock(words) {
  const items = (side, kind) =>
    side
      .slice(0, MAX_WORDS)
      .map(({ word, weight }) => ({ key: word, name: foreign(word), value: weight, kind }));
  const [pro, contra] = [items(words.for, 'for'), items(words.against, 'against')];
  const most = largest([...pro, ...contra]);
  const sides = h(
    'div',
    { class: 'sides' },
    wordSide('Words for it', pro, most),
    wordSide('Words against it', contra, most),
  );
  return [h('h3', {}, 'Telling words'), sides];
}

function wordSide(name, items, most) {
  if (items.length === 0) return h('p', { class: 'hint' }, `${name}: none.`);
  const { node, update } = barTable(name, name, 'Weight', signed);
  update(items, most);
  return node;
}

// === edges ===

function edgesBlock({ recommended_by: inward = [], recommends: outward = [] }) {
  const by = edgeSide(`Recommended by ${counted(inward.length, 'site')}`, inward, [
    ['Global', 'global', confidence],
    ['Local', 'local', confidence],
    ['Pages', 'pages', whole],
  ]);
  const to = edgeSide(`Recommends ${counted(outward.length, 'site')}`, outward, [
    ['Local', 'local', confidence],
  ]);
  const hint = 'Global: confidence of the recommending site. Local: confidence of its pages with the link.';
  return [h('div', { class: 'sides' }, by, to), h('p', { class: 'hint' }, hint)];
}

function edgeSide(name, edges, columns) {
  const heading = h('h3', {}, name);
  if (edges.length === 0) return h('div', {}, heading);
  const { node, body } = table(name, [['Site'], ...columns.map(([head]) => [head, 'number'])], {
    class: 'edges',
  });
  node.classList.add('tall');
  body.append(
    ...edges.map((edge) =>
      h(
        'tr',
        {},
        h('th', { scope: 'row' }, hostLink(edge.host)),
        columns.map(([, key, format]) => h('td', { class: 'number' }, format(edge[key]))),
      ),
    ),
  );
  return h('div', {}, heading, node);
}
