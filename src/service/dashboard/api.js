// The daemon's HTTP API, and the token.
//
// Invariants: the token is kept in sessionStorage and nowhere else, and leaves only as a bearer
// token to the daemon that served this page. Whoever is asked for a token is asked once at a time.

const KEPT_AS = 'sitescout-token';

const NEEDED_TO_READ = 'The daemon shows nothing without its token.';
const NEEDED_TO_WRITE = 'To change something, the daemon wants its token.';

/** Refusals that end by themselves: an answer took too long, or too many were asked for. */
const TRANSIENT = [408, 429];

/** Longer than any answer takes; a daemon that hangs is as good as gone. */
const PATIENCE_MS = 20_000;

/** The daemon answered, and said no. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** No answer, or none that helps now; later there may be one. */
export class NoAnswer extends Error {}

/** The person did not want to sign in. */
export class NotSignedIn extends Error {}

// === the token ===

let ask = async () => null;
let asking = null;
let isReadingDeclined = false;
let tokenChanged = () => {};

/** `question(reason)` asks the person, and gives a token or null; `changed()` hears of every change. */
export function setTokenDialog(question, changed) {
  ask = question;
  tokenChanged = changed;
}

export const token = () => sessionStorage.getItem(KEPT_AS);

export function forgetToken() {
  sessionStorage.removeItem(KEPT_AS);
  tokenChanged();
}

/** Asks for a token; all who ask while the dialog is open share its answer. */
export function signIn(reason = '') {
  asking ??= ask(reason).then((given) => {
    asking = null;
    if (given !== null) {
      sessionStorage.setItem(KEPT_AS, given);
      isReadingDeclined = false;
    }
    tokenChanged();
    return given;
  });
  return asking;
}

// === requests ===

/** `path` with those parameters that are set. */
export function withQuery(path, parameters) {
  const set = Object.entries(parameters).filter(
    ([, value]) => value !== '' && value !== null && value !== undefined,
  );
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`;
}

/** A path of the API; its variable parts are escaped. */
export const v1 = (...parts) => `v1/${parts.map(encodeURIComponent).join('/')}`;

/** Reads; where even that needs a token, it is asked for once, until the person signs in. */
export async function read(path, signal) {
  for (;;) {
    if (isReadingDeclined && token() === null) throw new Refusal(401, NEEDED_TO_READ);
    const sent = token();
    try {
      return await send('GET', path, { signal });
    } catch (error) {
      if (error.status !== 401) throw error;
      if ((await tokenAfter(sent, NEEDED_TO_READ)) !== null) continue;
      isReadingDeclined = true;
      throw new Refusal(401, NEEDED_TO_READ);
    }
  }
}

/**
 * Changes something; asks for the token until it is right or the person gives up. What is `isOpen`
 * is tried without one first.
 */
export async function write(method, path, body, { isOpen = false } = {}) {
  if (!isOpen && token() === null && (await signIn(NEEDED_TO_WRITE)) === null) throw new NotSignedIn();
  for (;;) {
    const sent = token();
    try {
      return await send(method, path, { body });
    } catch (error) {
      if (error.status !== 401) throw error;
      if ((await tokenAfter(sent, NEEDED_TO_WRITE)) === null) throw new NotSignedIn();
    }
  }
}

/** The next token to try after `sent` was refused: one that came meanwhile, or the person's. */
async function tokenAfter(sent, reason) {
  if (token() !== null && token() !== sent) return token();
  if (sent === null) return signIn(reason);
  forgetToken();
  return signIn('The daemon did not accept this token.');
}

async function send(method, path, { body, signal } = {}) {
  const headers = { accept: 'application/json' };
  if (token() !== null) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const limit = AbortSignal.timeout(PATIENCE_MS);
  const response = await answered(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: 'no-store',
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  });
  const { json, isReadable } = await contentOf(response);
  if (response.ok && isReadable) return json;
  const message = json?.error?.message ?? `the daemon answered ${response.status}`;
  if (response.ok || response.status >= 500 || TRANSIENT.includes(response.status))
    throw new NoAnswer(message);
  throw new Refusal(response.status, message);
}

/** The only place where the network's errors are told from our own. */
async function answered(path, request) {
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new NoAnswer('no answer');
  }
}

async function contentOf(response) {
  try {
    const text = await response.text();
    return { json: text === '' ? null : JSON.parse(text), isReadable: true };
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return { json: null, isReadable: false };
  }
}
