// Numbers, times and the daemon's labels, in words a person reads.
//
// Everything that came from the web passes through `shown` before it is put anywhere.

const WHOLE = new Intl.NumberFormat('en');
const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const DAY_AND_CLOCK = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** Stands where a number is not known. */
export const UNKNOWN = '–';

/** Longer texts from the web are cut here: they are hints, and a page of one word helps nobody. */
const LONGEST = 240;

/** Controls, line separators, and what turns the direction of text around and so disguises it. */
const DISGUISES = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text from the web, harmless to the eye. */
export function shown(text) {
  const plain = String(text ?? '').replace(DISGUISES, '\ufffd');
  const letters = Array.from(plain);
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST).join('')}…` : plain;
}

// === numbers ===

const formatted = (format) => (value) => (Number.isFinite(value) ? format(value) : UNKNOWN);

function fixed(digits) {
  const format = new Intl.NumberFormat('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return formatted((value) => format.format(value));
}

export const whole = formatted((value) => WHOLE.format(value));

/** Pages per relevant site. */
export const pprs = fixed(1);

/** Shares: harvest rates, and marks on axes from 0 to 1. */
export const share = fixed(2);

/** Confidences, ranks and weights of edges, as the command line prints them. */
export const confidence = fixed(3);

/** Weights of words: their sign says for or against. */
export const signed = formatted((value) => (value < 0 ? '−' : '+') + fixed(2)(Math.abs(value)));

export const bytes = formatted((value) => {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1024 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  return `${power === 0 ? WHOLE.format(value) : fixed(1)(value / 1024 ** power)} ${units[power]}`;
});

/** `1 site`, `2 sites`. */
export const counted = (count, noun) => `${whole(count)} ${noun}${count === 1 ? '' : 's'}`;

// === times ===

export const clock = (date) => CLOCK.format(date);
export const dayAndClock = (date) => DAY_AND_CLOCK.format(date);
export const utc = (date) => `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

// === labels ===

const IDLE = {
  wanted_reached: 'idle: as many sites as were wanted are found',
  border_empty: 'idle: the border is empty',
  pprs_bad: 'idle: each relevant site costs too many pages now',
  low_disk: 'idle: too little room on the disk',
  paused: 'paused',
};

/** What a topic does, and why. */
export function stateInWords({ state, reason, trouble_advice: advice }) {
  if (state === 'crawling' && advice) return `waiting: ${shown(advice)}`;
  if (state === 'idle') return IDLE[reason] ?? `idle: ${label(reason)}`;
  if (state !== 'draining') return label(state);
  return reason === 'paused'
    ? 'pausing: visits under way go on to their end'
    : 'draining: visits under way go on to their end';
}

const LABELS = {
  no_host: 'no such host',
  dns_failed: 'name server failed',
  connect_timeout: 'connecting took too long',
  tls_failed: 'encryption failed',
  bad_certificate: 'bad certificate',
  expired_certificate: 'certificate out of date',
  forbidden_address: 'address not allowed',
  forbidden_port: 'port not allowed',
  disallowed: 'not allowed by robots.txt',
  timeout: 'took too long',
  nothing_spoke: 'no page spoke',
  address_full: 'too many sites at one address',
  poison: 'the crawler died here again and again',
  '2xx': 'answered (2xx)',
  '3xx': 'redirect (3xx)',
  '4xx': 'no page (4xx)',
  '5xx': 'server error (5xx)',
};

/** A label of the daemon, such as `dns_failed` or `links_found`. */
export function label(name) {
  const key = String(name ?? '').replaceAll('-', '_');
  return Object.hasOwn(LABELS, key) ? LABELS[key] : shown(key.replaceAll('_', ' '));
}

export const decisionInWords = (decision) =>
  decision === 'accept' ? 'accepted' : decision === 'reject' ? 'rejected' : label(decision);
