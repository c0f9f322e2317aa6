// A mock daemon: it serves the dashboard and answers as the HTTP API does, always with the same data.
// Some of it is hostile, as data from the real web may be and from the generated web is not.

import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

const DASHBOARD = fileURLToPath(new URL('../../src/service/dashboard/', import.meta.url));
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

export const TOKEN = 'a-token-for-tests';

/** Each must appear as text and do nothing. */
export const HOSTILE = {
  image: '<img src=x onerror=alert(1)>',
  script: '"><script>alert(2)</script>',
  link: 'javascript:alert(3)',
  turned: 'exe.\u202egpj.example',
  controls: 'bell\u0007and\u001b[31mred\u2028line',
  long: 'a'.repeat(5000),
};

// === data ===

/** Deterministic random numbers (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const BEGIN = Date.UTC(2026, 10, 17, 3, 0, 0);
const at = (seconds) => new Date(BEGIN + seconds * 1000).toISOString();
const NOUNS = [
  'harbour',
  'crew',
  'keel',
  'regatta',
  'mast',
  'anchor',
  'lagoon',
  'jetty',
  'spinnaker',
  'tiller',
  'bay',
  'marina',
];
const ENDS = ['club', 'society', 'school', 'news', 'friends', 'archive', 'shop'];
const FOR = ['yacht', 'keel', 'boat', 'regatta', 'mast', 'sail', 'crew', 'harbour', 'spinnaker', 'tide'];
const AGAINST = ['bread', 'oven', 'ticket', 'opening', 'knight', 'telescope', 'compost', 'hive'];

function words(next, pool, sign, isHostile) {
  const made = pool.filter(() => next() < 0.7).map((word) => ({ word, weight: sign * (0.1 + 2 * next()) }));
  const odd = isHostile
    ? Object.values(HOSTILE).map((word, index) => ({ word, weight: sign * (3 + index) }))
    : [];
  return [...odd, ...made].sort((one, other) => Math.abs(other.weight) - Math.abs(one.weight));
}

function evidence(next, host, confidence, isHostile) {
  const count = 1 + Math.floor(next() * 6);
  return Array.from({ length: count }, (_, index) => ({
    url:
      isHostile && index > 0
        ? Object.values(HOSTILE)[index % 6]
        : `https://${host}/${index === 0 ? '' : `page-${index}.html`}`,
    kind: ['homepage', 'inner', 'deep'][Math.min(index, 2)],
    outcome: isHostile && index === 1 ? HOSTILE.image : next() < 0.85 ? 'spoke' : 'mute',
    confidence: Math.min(0.99, Math.max(0.01, confidence + (next() - 0.5) * 0.3)),
    site_confidence: 0.5 + ((confidence - 0.5) * (index + 1)) / count,
    for: words(next, FOR, 1, isHostile),
    against: words(next, AGAINST, -1, false),
  }));
}

function makeSites(topic, count, seed, isHostile) {
  const next = random(seed);
  return Array.from({ length: count }, (_, index) => {
    const host = `${NOUNS[index % NOUNS.length]}-${ENDS[Math.floor(index / NOUNS.length) % ENDS.length]}-${(index * 37 + seed).toString(36)}.example`;
    const drawn = next();
    const verdict = drawn < 0.38 ? 'relevant' : drawn < 0.9 ? 'irrelevant' : 'undecided';
    const confidence =
      verdict === 'relevant' ? 0.9 + next() * 0.09 : verdict === 'irrelevant' ? next() * 0.1 : 0.5;
    const isOdd = isHostile && index >= count - 4;
    return {
      topic,
      host,
      verdict,
      confidence,
      seq: seed * 1000 + index,
      pages: 1 + Math.floor(next() * 7),
      rank: next(),
      start: index < 3,
      undecided_reason: verdict !== 'undecided' ? null : isOdd ? HOSTILE.script : 'unreachable',
      judged_at: at(9000 - (count - index) * 61 + seed),
      model: 'f3a91c04d2b7',
      stop_reason: verdict === 'relevant' ? 'links_found' : 'confident',
      alias_of: null,
      address: '192.0.2.7',
      decision: isOdd ? { decision: 'accept', note: Object.values(HOSTILE).join(' '), at: at(9000) } : null,
      listed: verdict === 'relevant',
      isOdd,
    };
  });
}

/** What a visit with the long name of a host looks like. */
function withLongHost(sites) {
  const site = sites.at(-2);
  site.host = `${'very-long-name-of-a-host-'.repeat(2)}end.${'sub-'.repeat(14)}domain.example`;
  return sites;
}

function makeCurve(topic) {
  return Array.from({ length: topic.points }, (_, index) => {
    const pages = Math.round(((index + 1) * topic.pages) / topic.points);
    const wave = Math.sin(index / 9) * 1.4 + Math.sin(index / 2.3) * 0.5;
    const finds = Math.round(pages / 20);
    return {
      pages,
      finds,
      relevant: finds + 3,
      irrelevant: finds * 3,
      border: Math.round(6200 * Math.sqrt(pages / topic.pages)),
      pprs_5000: index < 2 ? null : 19 + wave + index / 60,
      harvest_1000: index < 1 ? null : Math.max(0.02, 0.44 - index / 1400 - wave / 40),
      at: at(index * 30),
    };
  });
}

const TOPICS = [
  {
    name: 'sailing',
    state: 'crawling',
    reason: null,
    wanted: 500,
    finds: 412,
    pages: 8321,
    points: 256,
    seed: 5,
    sites: 130,
  },
  {
    name: 'pottery',
    state: 'idle',
    reason: 'wanted_reached',
    wanted: 100,
    finds: 100,
    pages: 2140,
    points: 107,
    seed: 7,
    sites: 40,
  },
  {
    name: 'chess',
    state: 'idle',
    reason: 'paused',
    wanted: null,
    finds: 0,
    pages: 20,
    points: 1,
    seed: 9,
    sites: 6,
  },
];

function makeTopic(topic, sites) {
  const of = (verdict) => sites.filter((site) => site.verdict === verdict).length;
  const isYoung = topic.finds === 0;
  return {
    name: topic.name,
    state: topic.state,
    reason: topic.reason,
    wanted: topic.wanted,
    model: 'f3a91c04d2b7e6685a1d',
    finds: topic.finds,
    relevant: topic.finds + 3,
    irrelevant: topic.finds * 2 + of('irrelevant'),
    undecided: of('undecided'),
    pages: topic.pages,
    border: isYoung ? 12 : 6214,
    deferred: isYoung ? 0 : 31,
    in_flight: topic.state === 'crawling' ? 16 : 0,
    pprs: {
      all: isYoung ? null : topic.pages / topic.finds,
      last_5000: topic.pages > 5000 ? 21.4 : null,
      last_1000: isYoung ? null : 23.06,
    },
    harvest: {
      all: isYoung ? null : 0.31,
      last_5000: topic.pages > 5000 ? 0.3 : null,
      last_1000: isYoung ? null : 0.27,
    },
  };
}

// === the daemon ===

/** A mock daemon on a free port; `hostile: false` leaves out what would spoil a screenshot. */
export async function startMock({ hostile = true } = {}) {
  const state = {
    isGone: false,
    writes: true,
    readsNeedToken: false,
    requests: [],
    blocks: new Map(),
    busy: 12,
    fetches: 8321,
  };
  const sites = TOPICS.flatMap((topic) => {
    const made = makeSites(topic.name, topic.sites, topic.seed, hostile && topic.name === 'pottery');
    return hostile && topic.name === 'pottery' ? withLongHost(made) : made;
  });
  const topics = new Map(
    TOPICS.map((topic) => [
      topic.name,
      makeTopic(
        topic,
        sites.filter((site) => site.topic === topic.name),
      ),
    ]),
  );
  const curves = new Map(TOPICS.map((topic) => [topic.name, makeCurve(topic)]));
  const data = { hostile, state, sites, topics, curves };

  const server = createServer((request, response) => {
    if (state.isGone) return request.socket.destroy();
    state.requests.push(`${request.method} ${request.url}`);
    return answer(data, request, response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () =>
    new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    });
  return { url: `http://127.0.0.1:${server.address().port}/`, stop, ...data };
}

class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

async function answer(data, request, response) {
  const url = new URL(request.url, 'http://mock');
  if (!url.pathname.startsWith('/v1/')) return serveFile(url.pathname, response);
  try {
    const parts = url.pathname.slice('/v1/'.length).split('/').map(decodeURIComponent);
    const isTry = parts[2] === 'try';
    const body = await bodyOf(request);
    if (request.method !== 'GET' ? !(isTry && body.html) : data.state.readsNeedToken) needToken(request);
    const [status, json] = routed(data, request.method, parts, url.searchParams, body);
    return send(response, status, json);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return send(response, error.status, { error: { code: error.code, message: error.message } });
  }
}

function serveFile(path, response) {
  const name = path === '/' ? 'index.html' : path.slice(1);
  if (!/^[a-z_]+\.(html|css|js|svg)$/.test(name) || !existsSync(DASHBOARD + name))
    return send(response, 404, { error: { code: 'not-found', message: 'there is no such page' } });
  response.writeHead(200, {
    'content-type': TYPES[name.split('.').pop()],
    'content-security-policy': CSP,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache',
  });
  return createReadStream(DASHBOARD + name).pipe(response);
}

function send(response, status, json) {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(json === undefined ? '' : JSON.stringify(json));
}

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  if (text !== '' && request.headers['content-type'] !== 'application/json')
    throw new Refused(415, 'not-json', 'the body is not JSON');
  return text === '' ? {} : JSON.parse(text);
}

function needToken({ headers }) {
  if (headers.authorization !== `Bearer ${TOKEN}`)
    throw new Refused(401, 'unauthorized', 'this needs the token');
}

function routed(data, method, [room, name, verb, host, what], query, body) {
  const { state, topics } = data;
  const route = `${method} ${[room, verb, what].filter(Boolean).join(' ')}`;
  if (room === 'topics' && name && !topics.has(name))
    throw new Refused(
      404,
      'not-found',
      `there is no topic \`${name}\`; there are: ${[...topics.keys()].join(', ')}`,
    );
  switch (route) {
    case 'GET status':
      return [200, status(data)];
    case 'GET topics':
      return [200, name ? topics.get(name) : { topics: [...topics.values()] }];
    case 'GET topics curve':
      return [200, { points: data.curves.get(name) }];
    case 'GET topics queue':
      return [200, { sites: queue(data, name).slice(0, Number(query.get('limit') ?? 20)) }];
    case 'GET sites':
      return [200, name ? siteDetail(data, name, query.get('topic')) : listed(data, query)];
    case 'POST topics pause':
      return [200, Object.assign(topics.get(name), { state: 'idle', reason: 'paused', in_flight: 0 })];
    case 'POST topics resume':
      return [200, Object.assign(topics.get(name), { state: 'crawling', reason: null })];
    case 'POST topics starts':
      return [200, { new: body.sites.length, known: 0 }];
    case 'POST topics try':
      return [200, tried(data)];
    case 'PUT topics sites decision':
      return [
        200,
        Object.assign(found(data, name, host), {
          decision: { decision: body.decision, note: body.note, at: at(9999) },
        }).decision,
      ];
    case 'DELETE topics sites decision':
      found(data, name, host).decision = null;
      return [204];
    case 'POST topics sites recheck':
      return [202, {}];
    case 'PUT blocks':
      state.blocks.set(name, { host: name, note: body.note, at: at(9999) });
      return [200, state.blocks.get(name)];
    case 'DELETE blocks':
      state.blocks.delete(name);
      return [204];
    default:
      throw new Refused(404, 'not-found', 'there is no such thing');
  }
}

function status({ hostile, state }) {
  const odd = hostile ? { [HOSTILE.image]: 17, [HOSTILE.long]: 9 } : {};
  const fetches = {
    '2xx': state.fetches,
    '3xx': 911,
    '4xx': 402,
    '5xx': 61,
    no_host: 187,
    dns_failed: 23,
    timeout: 44,
    disallowed: 120,
    ...odd,
  };
  return {
    version: '0.1.0',
    started_at: at(-86400),
    writes: state.writes,
    last_seq: 9999,
    fetches,
    memory_bytes: 193_400_000,
    store_bytes: 1_310_000_000,
    crawlers_busy: state.busy,
  };
}

const found = ({ sites }, topic, host) => {
  const site = sites.find((one) => one.topic === topic && one.host === host);
  if (!site) throw new Refused(404, 'not-found', `${host} is not known`);
  return site;
};

const queue = ({ sites }, topic) =>
  sites
    .filter((site) => site.topic === topic && site.decision === null && site.verdict !== 'undecided')
    .map((site) => ({ ...site, teaches: 1 - Math.abs(site.confidence - 0.5) }))
    .sort((one, other) => other.teaches - one.teaches || one.seq - other.seq);

/** Pages of ten, some of which are empty though there is more, as the contract allows. */
function listed({ sites }, query) {
  const wanted = (site) =>
    (!query.get('topic') || site.topic === query.get('topic')) &&
    (!query.get('verdict') || site.verdict === query.get('verdict')) &&
    (!query.get('decision') || (site.decision?.decision ?? 'none') === query.get('decision')) &&
    site.host.startsWith(query.get('host') ?? '') &&
    site.confidence >= Number(query.get('min_confidence') ?? 0);
  const newest = [...sites].sort(
    (one, other) => other.judged_at.localeCompare(one.judged_at) || other.seq - one.seq,
  );
  const from = Number(query.get('cursor') ?? 0);
  const looked = newest.slice(from, from + 60);
  const next = from + looked.length < newest.length ? String(from + looked.length) : null;
  return { sites: looked.filter(wanted), next };
}

function siteDetail(data, host, topic) {
  const all = data.sites.filter((site) => site.host === host && (!topic || site.topic === topic));
  if (all.length === 0) throw new Refused(404, 'not-found', `${host} is not known`);
  const { host: _, ...blocked } = data.state.blocks.get(host) ?? {};
  return {
    host,
    blocked: data.state.blocks.has(host) ? blocked : null,
    topics: all.map((site) => detail(data, site)),
  };
}

function detail({ sites }, site) {
  const next = random(site.seq);
  const others = sites.filter((one) => one.topic === site.topic && one !== site);
  const some = (count) => others.filter(() => next() < count / others.length);
  return {
    ...site,
    entrance: `https://${site.host}/`,
    recheck: at(86400 * 30),
    edges: 7,
    domains: 5,
    global: 0.82,
    local: 0.71,
    evidence: evidence(next, site.host, site.confidence, site.isOdd),
    recommended_by: some(7).map((one) => ({
      host: one.host,
      global: one.confidence,
      local: next(),
      pages: 1 + Math.floor(next() * 3),
    })),
    recommends: some(12).map((one) => ({ host: one.host, local: next() })),
  };
}

function tried({ hostile }) {
  const next = random(3);
  return {
    confidence: 0.934,
    is_mute: false,
    language: 'en',
    title: hostile ? HOSTILE.script : 'Harbour sailing club',
    known_terms: 42,
    for: words(next, FOR, 1, hostile),
    against: words(next, AGAINST, -1, false),
    would_decide: 'relevant',
  };
}
