// Announcements to the user, and the loops that keep a view up to date.
//
// Invariant: everything a view started ends with its scope, and no requests are sent while the page is
// hidden.

import { NoAnswer, NotSignedIn, Refusal } from './api.js';
import { clock } from './words.js';

const RETRY_SECONDS = 3;
const SHOWN_FOR_MS = 10_000;
const SETTLED_MS = 250;

// === announcements ===

const announcement = document.getElementById('told');
let clearTimer;

/** Shows the result of an action at the foot of the page; a live region for screen readers. */
export function announce(message, isProblem = false) {
  clearTimeout(clearTimer);
  announcement.textContent = message;
  announcement.classList.toggle('problem', isProblem);
  clearTimer = setTimeout(() => (announcement.textContent = ''), SHOWN_FOR_MS);
}

/** Runs an action of the user, and announces what it returns, or the error. */
export async function act(action) {
  try {
    const result = await action();
    if (result) announce(result);
  } catch (error) {
    if (error instanceof NotSignedIn) announce('Nothing was changed: not signed in.', true);
    else if (error instanceof NoAnswer) announce(`That failed: ${error.message}.`, true);
    else if (error instanceof Refusal) announce(`The daemon refused: ${error.message}`, true);
    else if (error.name !== 'AbortError') throw error;
  }
}

/** Debounces: returns a function to call at every key, which runs the action when typing has stopped. */
export function whenSettled(signal, action) {
  let timer;
  signal.addEventListener('abort', () => clearTimeout(timer));
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => act(action), SETTLED_MS);
  };
}

// === the banner ===

const banner = document.getElementById('banner');
let silentSince = null;

function showDisconnected(why) {
  silentSince ??= new Date();
  const what = why === 'no answer' ? 'no answer from the daemon' : `the daemon cannot answer (${why})`;
  const text = `${what} since ${clock(silentSince)}; trying again`;
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = false;
}

function showConnected() {
  if (silentSince === null) return;
  silentSince = null;
  banner.hidden = true;
  banner.textContent = '';
}

// === the daemon's status ===

let lastStatus = null;
const listeners = new Set();

/** Passes the status, which one loop reads, to all listeners. */
export function publishStatus(status) {
  lastStatus = status;
  for (const listener of listeners) listener(status);
}

/** Calls `listener` with the last status, if any, and with every new one until the signal aborts. */
export function onStatus(signal, listener) {
  if (lastStatus !== null) listener(lastStatus);
  listeners.add(listener);
  signal.addEventListener('abort', () => listeners.delete(listener));
}

// === scopes ===

/** The lifetime of one view. `refused(error)` is called when the daemon refuses one of its reads. */
export function openScope(refused) {
  const controller = new AbortController();
  const { signal } = controller;

  /** Runs a task that reads; resolves to whether it succeeded. */
  async function attempt(task) {
    try {
      await task(signal);
      showConnected();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof NoAnswer) showDisconnected(error.message);
      else if (error instanceof Refusal) refused(error);
      else throw error;
      return false;
    }
  }

  /** Runs a task now and then periodically; sooner after a failure. */
  async function every(seconds, task) {
    while (!signal.aborted) {
      await visible(signal);
      const isDone = await attempt(task);
      await pause(isDone ? seconds : Math.min(seconds, RETRY_SECONDS), signal);
    }
  }

  /** Runs a task until it has succeeded once. */
  async function once(task) {
    while (!signal.aborted && !(await attempt(task))) {
      await pause(RETRY_SECONDS, signal);
      await visible(signal);
    }
  }

  return { signal, attempt, every, once, close: () => controller.abort() };
}

function pause(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, seconds * 1000);
    function end() {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    }
    signal.addEventListener('abort', end);
  });
}

function visible(signal) {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', check);
      signal.removeEventListener('abort', check);
      resolve();
    };
    document.addEventListener('visibilitychange', check);
    signal.addEventListener('abort', check);
  });
}
