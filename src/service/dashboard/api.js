// The daemon's HTTP API, and the token.
//
// Invariants: the token is kept in sessionStorage and nowhere else, and leaves only as a bearer
// token to the daemon that served this page. At most one sign-in dialog is open.

const STORAGE_KEY = 'sitescout-token';

const NEEDED_TO_READ = 'Reading needs the token of the daemon.';
const NEEDED_TO_WRITE = 'Changes need the token of the daemon.';

/** Refusals that are worth a retry: timeout and rate limit. */
const TRANSIENT = [408, 429];

/** Timeout of a request. */
const TIMEOUT_MS = 20_000;

/** The daemon refused the request. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** No response, or a failure that may end by itself. */
export class NoAnswer extends Error {}

/** The user cancelled the sign-in. */
export class NotSignedIn extends Error {}

// === the token ===

let ask = async () => null;
let asking = null;
let isReadingDeclined = false;
let tokenChanged = () => {};

/** `dialog(reason)` asks the user, and resolves to a token or null; `changed()` is called on every change. */
export function setTokenDialog(dialog, changed) {
  ask = dialog;
  tokenChanged = changed;
}

export const token = () => sessionStorage.getItem(STORAGE_KEY);

export function forgetToken() {
  sessionStorage.removeItem(STORAGE_KEY);
  tokenChanged();
}

/** Asks for a token; callers share the result of an open dialog. */
export function signIn(reason = '') {
  asking ??= ask(reason).then((given) => {
    asking = null;
    if (given !== null) {
      sessionStorage.setItem(STORAGE_KEY, given);
      isReadingDeclined = false;
    }
    tokenChanged();
    return given;
  });
  return asking;
}

// === requests ===

/** `path` with the parameters that are set. */
export function withQuery(path, parameters) {
  const set = Object.entries(parameters).filter(
    ([, value]) => value !== '' && value !== null && value !== undefined,
  );
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`;
}

/** A path of the API; its variable parts are escaped. */
export const v1 = (...parts) => `v1/${parts.map(encodeURIComponent).join('/')}`;

/** Sends a GET. If that needs a token, the user is asked once; a refusal holds until the next sign-in. */
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
 * Sends a change; asks for the token until it is right or the user cancels. With `isOpen` the request
 * is first sent without one.
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

/** The next token to try after `sent` was refused: one entered meanwhile, or a new one. */
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
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetchOrNoAnswer(path, {
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

/** The only place where network errors are distinguished from bugs. */
async function fetchOrNoAnswer(path, request) {
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
