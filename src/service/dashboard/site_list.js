// Lists of judged sites: one table, and walking through the daemon's pages of them.

import { read, v1, withQuery } from './api.js';
import { h, hostLink, keyed, moment, routeTo, table } from './elements.js';
import { confidenceMark, decisionMark, verdictMark } from './evidence.js';
import { shown, whole } from './words.js';

/** The daemon may answer with pages that hold no fitting site; so many are looked through at once. */
const MOST_PAGES = 12;

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

/** A row is made anew when any of this changes. */
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

/** The next sites that fit: `{ sites, next }`; `next` is null at the end. Sites may be none before it. */
export async function readSites(filters, cursor, signal) {
  let next = cursor;
  for (let page = 1; ; page += 1) {
    const answer = await read(withQuery(v1('sites'), { ...filters, order: 'newest', cursor: next }), signal);
    next = answer.next ?? null;
    if (answer.sites.length > 0 || next === null || page === MOST_PAGES) return { sites: answer.sites, next };
  }
}
