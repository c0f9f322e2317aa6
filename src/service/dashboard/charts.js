// Charts as SVG, without a library.
//
// A plot is drawn at its actual width, so that text keeps its size on a phone, and redrawn when the
// width or the data change. It has a description in words and, by `curveFigure`, a table of the data.

import { freshId, h, keyed, setText, svg, table } from './elements.js';
import { counted, whole } from './words.js';

const MARGIN = { top: 12, right: 14, bottom: 40, left: 58 };

// === scales ===

/** About `wanted` round numbers from 0 to at least `most`, which is above 0. */
function ticks(most, wanted) {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  // Tolerance for rounding: 0.3 / 3 is not quite 0.1.
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

const scale = (from, to, low, high) => (value) => low + ((value - from) / (to - from)) * (high - low);

/** The geometry of a plot at this width: edges, scales and ticks. */
function measured(width, series, { height = 230, xFrom = 0, yMost, yLeast }) {
  const points = series.flatMap((one) => one.points);
  const ys = points.map(({ y }) => y).filter(Number.isFinite);
  const span = Math.max(1, ...points.map(({ x }) => x - xFrom));
  const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
  const yTicks = ticks(yMost ?? Math.max(yLeast, ...ys), 4);
  const x = scale(xFrom, xFrom + span, MARGIN.left, right);
  const y = scale(0, yTicks.at(-1), bottom, MARGIN.top);
  const xTicks = ticks(span, Math.max(2, Math.floor(width / 85)))
    .map((tick) => tick + xFrom)
    .filter((tick) => tick <= xFrom + span && Number.isInteger(tick));
  return { width, height, right, bottom, x, y, xTicks, yTicks, isEmpty: ys.length === 0 };
}

// === plots ===

/**
 * A plot with axes. `options`: `label` (its name), `xName`, `yFormat`, the end of the y axis
 * (`yMost`, or `yLeast` if the data do not go further), and optionally `xFrom` and `height`.
 * `update(series, description)` takes series of `{ name, kind, points: [{ x, y }] }`; where y is
 * null the line has a gap.
 */
export function plot(options) {
  const describedBy = freshId('description');
  const drawing = svg('svg', { role: 'img', 'aria-label': options.label, 'aria-describedby': describedBy });
  const readout = h('p', { class: 'readout', 'aria-hidden': 'true' });
  const node = h('div', { class: 'plot' }, drawing, readout, h('p', { class: 'unseen', id: describedBy }));
  let shownSeries = [];
  let frame = null;

  const redraw = () => {
    frame = node.clientWidth > 0 ? draw(drawing, node.clientWidth, shownSeries, options) : null;
  };
  new ResizeObserver(redraw).observe(node);
  drawing.addEventListener(
    'pointermove',
    (event) => frame && point(frame, readout, event.offsetX, shownSeries, options),
  );
  drawing.addEventListener('pointerleave', () => frame && unpoint(frame, readout));

  function update(series, description) {
    shownSeries = series;
    setText(node.lastChild, description);
    redraw();
  }
  return { node, update };
}

/** Redraws everything; returns what following the pointer needs. */
function draw(drawing, width, series, options) {
  const { height, right, bottom, x, y, xTicks, yTicks, isEmpty } = measured(width, series, options);
  const hair = svg('line', { class: 'hair', y1: MARGIN.top, y2: bottom, visibility: 'hidden' });
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  for (const [name, value] of Object.entries(size)) drawing.setAttribute(name, value);
  drawing.replaceChildren(
    ...yTicks.map((tick) => yGrid(y(tick), right, options.yFormat(tick))),
    ...xTicks.map((tick) => xGrid(x(tick), bottom, whole(tick))),
    svg('line', { class: 'axis', x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    axisText(right, height - 6, 'end', options.xName),
    ...series.map((one) => curve(one, x, y)),
    hair,
  );
  if (isEmpty)
    drawing.append(axisText((MARGIN.left + right) / 2, bottom / 2, 'middle', 'nothing to show yet'));
  return { hair, x };
}

const axisText = (x, y, anchor, text) =>
  svg('text', { class: 'axis-name', x, y, 'text-anchor': anchor }, text);

const yGrid = (y, right, text) =>
  svg(
    'g',
    { class: 'tick' },
    svg('line', { x1: MARGIN.left, x2: right, y1: y, y2: y }),
    svg('text', { x: MARGIN.left - 8, y: y + 4, 'text-anchor': 'end' }, text),
  );

const xGrid = (x, bottom, text) =>
  svg(
    'g',
    { class: 'tick' },
    svg('line', { x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
    svg('text', { x, y: bottom + 17, 'text-anchor': 'middle' }, text),
  );

/** A line through all points between gaps, and a dot for each point. */
function curve({ kind, points }, x, y) {
  const dots = points.filter((one) => Number.isFinite(one.y));
  let path = '';
  let isDrawing = false;
  for (const one of points) {
    if (Number.isFinite(one.y))
      path += `${isDrawing ? 'L' : 'M'}${x(one.x).toFixed(1)} ${y(one.y).toFixed(1)}`;
    isDrawing = Number.isFinite(one.y);
  }
  const radius = dots.length > 60 ? 1.2 : 3;
  return svg(
    'g',
    { class: `curve ${kind}` },
    svg('path', { d: path }),
    dots.map((one) =>
      svg('circle', { class: 'point', cx: x(one.x).toFixed(1), cy: y(one.y).toFixed(1), r: radius }),
    ),
  );
}

/** Shows the values at the point nearest to the pointer. */
function point({ hair, x }, readout, pointerX, series, { xName, yFormat }) {
  const nearest = series[0]?.points.reduce(
    (best, one) => (Math.abs(x(one.x) - pointerX) < Math.abs(x(best.x) - pointerX) ? one : best),
    series[0].points[0],
  );
  if (!nearest) return;
  hair.setAttribute('x1', x(nearest.x));
  hair.setAttribute('x2', x(nearest.x));
  hair.setAttribute('visibility', 'visible');
  const values = series.map(
    ({ name, points }) => `${name} ${yFormat(points.find((one) => one.x === nearest.x)?.y ?? null)}`,
  );
  readout.textContent = `${xName} ${whole(nearest.x)}: ${values.join(', ')}`;
}

function unpoint({ hair }, readout) {
  hair.setAttribute('visibility', 'hidden');
  readout.textContent = '';
}

// === a curve over pages downloaded, with its data ===

/** `{ node, update(points) }`, points as `{ x: pages, y }`; the table is filled while it is open. */
export function curveFigure({ title, note, valueName, format, yLeast }) {
  const drawing = plot({ label: title, xName: 'pages downloaded', yFormat: format, yLeast });
  const data = table(`${title}, by pages downloaded`, [
    ['Pages', 'number'],
    [valueName, 'number'],
  ]);
  const details = h('details', {}, h('summary', {}, 'Data as a table'), data.node);
  const node = h(
    'figure',
    { class: 'chart' },
    h('figcaption', {}, h('h3', {}, title), h('p', { class: 'hint' }, note)),
    drawing.node,
    details,
  );
  let points = [];

  const fillTable = () => {
    if (!details.open) return;
    const byPlace = (_, index) => index;
    keyed(data.body, points, byPlace, () => dataRow(format));
  };
  details.addEventListener('toggle', fillTable);

  function update(latest) {
    points = latest;
    drawing.update([{ name: valueName.toLowerCase(), kind: 'first', points }], inWords(points, format));
    fillTable();
  }
  return { node, update };
}

function dataRow(format) {
  const cells = [h('td', { class: 'number' }), h('td', { class: 'number' })];
  const update = ({ x, y }) => [whole(x), format(y)].forEach((text, index) => setText(cells[index], text));
  return { node: h('tr', {}, cells), update };
}

function inWords(points, format) {
  const ys = points.map(({ y }) => y).filter(Number.isFinite);
  if (ys.length === 0) return 'Nothing to show yet.';
  const last = points.findLast(({ y }) => Number.isFinite(y));
  const [lowest, highest] = [Math.min(...ys), Math.max(...ys)].map(format);
  const now = `now ${format(last.y)} at ${whole(last.x)} pages`;
  return `${counted(ys.length, 'point')}; ${now}; lowest ${lowest}, highest ${highest}.`;
}

// === bars ===

/** A bar that illustrates a value written beside it. */
export function bar(kind = 'first') {
  const fill = svg('rect', { height: '100%', rx: 1 });
  const node = svg(
    'svg',
    { class: `bar ${kind}`, 'aria-hidden': 'true', focusable: 'false' },
    svg('rect', { class: 'ground', width: '100%', height: '100%', rx: 1 }),
    fill,
  );
  const update = (share) =>
    fill.setAttribute('width', `${(100 * Math.min(1, Math.max(0, share || 0))).toFixed(1)}%`);
  update(0);
  return { node, update };
}

/** The value of the longest bar. */
export const largest = (items) => Math.max(0, ...items.map(({ value }) => Math.abs(value)));

/** Values by name as a table with bars: `{ node, update([{ key, name, value, kind }], most?) }`. */
export function barTable(caption, nameHead, valueHead, format) {
  const { node, body } = table(caption, [[nameHead], [valueHead, 'number'], ['', 'wide']], { class: 'bars' });
  function update(items, most = largest(items)) {
    const rows = items.map((item) => ({ ...item, share: Math.abs(item.value) / most }));
    keyed(
      body,
      rows,
      ({ key }) => key,
      ({ name, kind }) => barRow(name, kind, format),
    );
  }
  return { node, update };
}

function barRow(name, kind, format) {
  const value = h('td', { class: 'number' });
  const share = bar(kind);
  const update = (item) => {
    setText(value, format(item.value));
    share.update(item.share);
  };
  return { node: h('tr', {}, h('th', { scope: 'row' }, name), value, h('td', {}, share.node)), update };
}
