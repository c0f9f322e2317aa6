// Builds and updates the document.
//
// Invariant: text becomes text nodes, never markup. No code of the dashboard parses HTML, sets a style
// attribute, or links to an address that is not http or https.

import { clock, dayAndClock, shown, UNKNOWN, utc } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

/** An element; functions among the attributes are listeners; empty attributes and children are left out. */
export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** The same, for SVG. */
export const svg = (tag, attributes, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

let lastId = 0;
/** An id for an element that others refer to. */
export const freshId = (prefix) => `${prefix}-${(lastId += 1)}`;

/** Changes the document only if the text differs, so as not to disturb selections and screen readers. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const known = new WeakMap();

/**
 * Gives `parent` one child per item. `make(item)` returns `{ node, update? }`; nodes of items that
 * stay are kept, and moved only if necessary, so that focus and open details survive.
 */
export function keyed(parent, items, keyOf, make) {
  const before = known.get(parent) ?? new Map();
  const after = new Map();
  for (const [index, item] of items.entries()) {
    const key = keyOf(item, index);
    const part = before.get(key) ?? make(item);
    part.update?.(item);
    after.set(key, part);
  }
  for (const [key, part] of before) if (!after.has(key)) part.node.remove();
  let place = parent.firstChild;
  for (const { node } of after.values()) {
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  known.set(parent, after);
}

// === pieces of text ===

/** Text from the web, with its writing direction isolated. */
export const foreign = (text) => h('bdi', {}, shown(text));

/** A time in the local time zone, without the date if that is today; with UTC in the title. */
export function moment(text) {
  const date = new Date(text ?? NaN);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  const isToday = date.toDateString() === new Date().toDateString();
  return h(
    'time',
    { datetime: date.toISOString(), title: utc(date) },
    isToday ? clock(date) : dayAndClock(date),
  );
}

// === links ===

export const routeTo = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

export const hostLink = (host) => h('a', { href: routeTo('site', host), class: 'host' }, foreign(host));

/** The address if it is http or https, else null. */
export function webAddress(text) {
  try {
    const { protocol, href } = new URL(text);
    return protocol === 'http:' || protocol === 'https:' ? href : null;
  } catch {
    return null;
  }
}

/** A link to a crawled site; plain text if it is not http or https. */
export function outLink(address, text = address) {
  const href = webAddress(address);
  if (href === null) return foreign(text);
  return h('a', { href, rel: 'noopener noreferrer nofollow', target: '_blank' }, foreign(text));
}

// === blocks ===

/** Names and values: `[name, node]` pairs. */
export const facts = (pairs) =>
  h(
    'dl',
    { class: 'facts' },
    pairs.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  );

export const field = (name, control, hint) => {
  control.id ||= freshId('field');
  const hintId = hint && freshId('hint');
  if (hint) control.setAttribute('aria-describedby', hintId);
  return h(
    'div',
    { class: 'field' },
    h('label', { for: control.id }, name),
    control,
    hint && h('p', { class: 'hint', id: hintId }, hint),
  );
};

/** A form that calls `submit` instead of being sent by the browser. */
export function form(attributes, submit, ...children) {
  const send = (event) => {
    event.preventDefault();
    submit();
  };
  return h('form', { ...attributes, submit: send }, ...children);
}

/**
 * A table in a region that scrolls, and is then reachable by keyboard.
 * `heads` are `[name, class]`; a column without a name only illustrates another one.
 */
export function table(caption, heads, attributes = {}) {
  const body = h('tbody');
  const row = h(
    'tr',
    {},
    heads.map(([name, kind]) =>
      name ? h('th', { scope: 'col', class: kind }, name) : h('td', { class: kind }),
    ),
  );
  const captionId = freshId('caption');
  const inner = h(
    'table',
    attributes,
    h('caption', { id: captionId, class: 'unseen' }, caption),
    h('thead', {}, row),
    body,
  );
  const node = h('div', { class: 'region' }, inner);
  new ResizeObserver(() => markScrollable(node, captionId)).observe(inner);
  return { node, body };
}

function markScrollable(region, captionId) {
  const scrolls = region.scrollWidth > region.clientWidth || region.scrollHeight > region.clientHeight;
  const marks = { tabindex: '0', role: 'region', 'aria-labelledby': captionId };
  for (const [name, value] of Object.entries(marks)) {
    if (scrolls) region.setAttribute(name, value);
    else region.removeAttribute(name);
  }
}
