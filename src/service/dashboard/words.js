// Formats numbers, times and the daemon's labels for people.
//
// All text from the web passes through `shown` before it is displayed.

const WHOLE = new Intl.NumberFormat('en');
const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const DAY_AND_CLOCK = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** Shown in place of an unknown number. */
export const UNKNOWN = '–';

/** Maximum length of a text from the web, in characters. */
const MAX_LENGTH = 240;

/** Control characters, line separators, and bidirectional overrides, which can disguise text. */
const DISGUISES = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text from the web, without characters that disguise it, and cut to `MAX_LENGTH`. */
export function shown(text) {
  const plain = String(text ?? '').replace(DISGUISES, '\ufffd');
  const letters = Array.from(plain);
  return letters.length > MAX_LENGTH ? `${letters.slice(0, MAX_LENGTH).join('')}…` : plain;
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

/** Shares: harvest rates, and axes from 0 to 1. */
export const share = fixed(2);

/** Confidences, ranks and edge weights, as the command line prints them. */
export const confidence = fixed(3);

/** Weights of words: positive for the topic, negative against it. */
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
  wanted_reached: 'idle: the wanted number of sites is found',
  border_empty: 'idle: the border is empty',
  pprs_bad: 'idle: too many pages per relevant site',
  low_disk: 'idle: too little free disk space',
  paused: 'paused',
};

/** The state of a topic with its reason. */
export function stateInWords({ state, reason, trouble_advice: advice }) {
  if (state === 'crawling' && advice) return `waiting: ${shown(advice)}`;
  if (state === 'idle') return IDLE[reason] ?? `idle: ${label(reason)}`;
  if (state !== 'draining') return label(state);
  return reason === 'paused'
    ? 'pausing: waiting for the visits under way'
    : 'draining: waiting for the visits under way';
}

const LABELS = {
  no_host: 'no such host',
  dns_failed: 'name server failed',
  connect_timeout: 'connection timed out',
  tls_failed: 'TLS failed',
  bad_certificate: 'bad certificate',
  expired_certificate: 'expired certificate',
  forbidden_address: 'forbidden address',
  forbidden_port: 'forbidden port',
  disallowed: 'disallowed by robots.txt',
  timeout: 'timed out',
  nothing_spoke: 'only mute pages',
  address_full: 'too many sites at one address',
  poison: 'the crawler crashed here repeatedly',
  '2xx': 'success (2xx)',
  '3xx': 'redirect (3xx)',
  '4xx': 'client error (4xx)',
  '5xx': 'server error (5xx)',
};

/** A label of the daemon, such as `dns_failed` or `links_found`. */
export function label(name) {
  const key = String(name ?? '').replaceAll('-', '_');
  return Object.hasOwn(LABELS, key) ? LABELS[key] : shown(key.replaceAll('_', ' '));
}

export const decisionInWords = (decision) =>
  decision === 'accept' ? 'accepted' : decision === 'reject' ? 'rejected' : label(decision);
