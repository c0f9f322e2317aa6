// Building and changing the document.
//
// Invariant: text becomes text nodes, never markup. Nothing here or elsewhere parses HTML, sets a
// style attribute, or makes a link of an address that is not http or https.

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
/** An id for what other elements refer to. */
export const freshId = (prefix) => `${prefix}-${(lastId += 1)}`;

/** Touches the document only if something changes, so that selections and screen readers are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const known = new WeakMap();

/**
 * Makes the children of `parent` stand for `items`. `make(item)` gives `{ node, update? }`; nodes of
 * items that stay are kept, and moved only if they must be, so that focus and open details survive.
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

/** Text from the web; its direction of writing stays inside. */
export const foreign = (text) => h('bdi', {}, shown(text));

/** A moment in the reader's time, without the day if that is today; with UTC in the title. */
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

/** The address if it leads to the web, else nothing. */
export function webAddress(text) {
  try {
    const { protocol, href } = new URL(text);
    return protocol === 'http:' || protocol === 'https:' ? href : null;
  } catch {
    return null;
  }
}

/** A link out to a crawled site; plain text if it leads anywhere else. */
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

/** A form that is never sent anywhere by itself. */
export function form(attributes, submit, ...children) {
  const send = (event) => {
    event.preventDefault();
    submit();
  };
  return h('form', { ...attributes, submit: send }, ...children);
}

/**
 * A table in a region of its own, which scrolls and can be reached by keyboard when it must.
 * `heads` are `[name, class]`; a column without a name only draws what another one says.
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
