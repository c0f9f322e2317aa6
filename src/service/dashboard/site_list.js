// Lists of judged sites: the table, and reading the daemon's batches.

import { read, v1, withQuery } from './api.js';
import { h, hostLink, keyed, moment, routeTo, table } from './elements.js';
import { confidenceMark, decisionMark, verdictMark } from './evidence.js';
import { shown, whole } from './words.js';

/** Maximum number of batches read per call: a batch may hold no matching site and still not be the last. */
const MAX_BATCHES = 12;

/** A table of sites, newest first as a rule: `{ node, update(sites) }`. */
export function siteTable(caption, { hasTopic }) {
  const heads = [
    ['Site'],
    ...(hasTopic ? [['Topic']] : []),
    ['Verdict'],
    ['Confidence', 'number'],
    ['Pages', 'number'],
    ['Decision'],
    ['Judged'],
  ];
  const { node, body } = table(caption, heads, { class: 'sites' });
  const update = (sites) => keyed(body, sites, identity, (site) => ({ node: siteRow(site, hasTopic) }));
  return { node, update };
}

/** A row is rebuilt when any of these changes. */
const identity = ({ topic, host, seq, decision }) => JSON.stringify([topic, host, seq, decision]);

const siteRow = (site, hasTopic) =>
  h(
    'tr',
    {},
    h(
      'th',
      { scope: 'row' },
      hostLink(site.host),
      site.start ? h('span', { class: 'hint' }, ' start site') : null,
    ),
    hasTopic ? h('td', {}, h('a', { href: routeTo('topic', site.topic) }, shown(site.topic))) : null,
    h('td', {}, verdictMark(site)),
    h('td', { class: 'number' }, confidenceMark(site.confidence)),
    h('td', { class: 'number' }, whole(site.pages)),
    h('td', {}, decisionMark(site.decision)),
    h('td', { class: 'moment' }, moment(site.judged_at)),
  );

/** The next matching sites: `{ sites, next }`; `next` is null at the end. `sites` may be empty before it. */
export async function readSites(filters, cursor, signal) {
  let next = cursor;
  for (let batch = 1; ; batch += 1) {
    const answer = await read(withQuery(v1('sites'), { ...filters, order: 'newest', cursor: next }), signal);
    next = answer.next ?? null;
    const { sites } = answer;
    if (sites.length > 0 || next === null || batch === MAX_BATCHES) return { sites, next };
  }
}
