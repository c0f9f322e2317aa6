// What is told to the person, and the loops that keep a view up to date.
//
// Invariant: everything a view started ends with its scope, and nothing asks the daemon while the
// page is hidden.

import { NoAnswer, NotSignedIn, Refusal } from './api.js';
import { clock } from './words.js';

const RETRY_SECONDS = 3;
const TOLD_FOR_MS = 10_000;
const SETTLED_MS = 250;

// === telling ===

const told = document.getElementById('told');
let toldUntil;

/** Says how an action went: to the eye at the foot of the page, to a screen reader politely. */
export function tell(message, isProblem = false) {
  clearTimeout(toldUntil);
  told.textContent = message;
  told.classList.toggle('problem', isProblem);
  toldUntil = setTimeout(() => (told.textContent = ''), TOLD_FOR_MS);
}

/** Runs what a person asked for, and tells what came of it: what `action` gives, or the problem. */
export async function act(action) {
  try {
    const result = await action();
    if (result) tell(result);
  } catch (error) {
    if (error instanceof NotSignedIn) tell('Nothing was changed: not signed in.', true);
    else if (error instanceof NoAnswer) tell(`That was not done: ${error.message}.`, true);
    else if (error instanceof Refusal) tell(`The daemon refused: ${error.message}`, true);
    else if (error.name !== 'AbortError') throw error;
  }
}

/** Runs an action when a person has stopped typing; the function given is called at every key. */
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

function heardNothing(why) {
  silentSince ??= new Date();
  const what = why === 'no answer' ? 'no answer from the daemon' : `the daemon cannot answer (${why})`;
  const text = `${what} since ${clock(silentSince)}; trying again`;
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = false;
}

function heardSomething() {
  if (silentSince === null) return;
  silentSince = null;
  banner.hidden = true;
  banner.textContent = '';
}

// === the daemon's status ===

let lastStatus = null;
const hearers = new Set();

/** One loop reads the status for all who want to know it. */
export function spreadStatus(status) {
  lastStatus = status;
  for (const hear of hearers) hear(status);
}

/** Calls `hear` with the status, now if it is known and whenever it was read, until the signal. */
export function hearStatus(signal, hear) {
  if (lastStatus !== null) hear(lastStatus);
  hearers.add(hear);
  signal.addEventListener('abort', () => hearers.delete(hear));
}

// === scopes ===

/** The life of one view. `refused(error)` is called when the daemon refuses what the view needs. */
export function openScope(refused) {
  const controller = new AbortController();
  const { signal } = controller;

  /** Runs a reading task; whether it succeeded. */
  async function attempt(task) {
    try {
      await task(signal);
      heardSomething();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof NoAnswer) heardNothing(error.message);
      else if (error instanceof Refusal) refused(error);
      else throw error;
      return false;
    }
  }

  /** Runs a task now and again and again; sooner after it found no answer. */
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
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      signal.removeEventListener('abort', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
  });
}
