// The dashboard of the daemon: one page, routes in the hash, no framework.
//
// Files, in the order of the data flow:
//
//   api.js        requests and the token
//   live.js       polling loops, the banner, announcing the results of actions
//   words.js      numbers, times and labels for people; text from the web made safe to show
//   elements.js   builds the document; text only, never markup
//   charts.js     plots, curves with their data, bars
//   evidence.js   verdicts, pages read, telling words, recommendations
//   site_list.js  tables of judged sites, page after page
//   topics.js, topic.js, site.js, queue.js: the four views
//   dashboard.js  this file: routes, sign-in, header and footer
//
// A view is a function of its scope and the parts of its route. It returns `{ title, node }` at once and
// fills the node later, in place: an update never takes the focus, closes details, or loses input.

import { forgetToken, read, setTokenDialog, signIn, token, v1 } from './api.js';
import { foreign, h, moment, routeTo, setText } from './elements.js';
import { act, openScope, publishStatus } from './live.js';
import { queueView } from './queue.js';
import { siteView } from './site.js';
import { topicView } from './topic.js';
import { topicsView } from './topics.js';
import { bytes, counted, shown } from './words.js';

const byId = (id) => document.getElementById(id);

// === routes ===

const VIEWS = { topic: topicView, site: siteView, queue: queueView };

/** `#/topic/x` as `['topic', 'x']`; null if it cannot be decoded. */
function routeParts() {
  try {
    return location.hash
      .replace(/^#?\/?/, '')
      .split('/')
      .filter(Boolean)
      .map(decodeURIComponent);
  } catch {
    return null;
  }
}

let scope = null;

/** Shows the view of the route, and focuses its heading except on the first load. */
function showRoute(isFirst) {
  scope?.close();
  scope = openScope((error) => mount(refusalView(error), false));
  mount(viewOf(routeParts()), isFirst);
}

function viewOf(parts) {
  if (parts?.length === 0) return topicsView(scope);
  const [name, subject] = parts ?? [];
  if (parts?.length === 2 && Object.hasOwn(VIEWS, name)) return VIEWS[name](scope, subject);
  return messageView('Not found', 'There is no such page.');
}

function mount({ title, node }, isFirst) {
  document.title = `${title} · sitescout`;
  byId('main').replaceChildren(node);
  showPages();
  if (!isFirst) focusHeading();
}

function focusHeading() {
  const heading = byId('main').querySelector('h1');
  heading.tabIndex = -1;
  heading.focus();
  window.scrollTo(0, 0);
}

/** Breadcrumbs from the topics to this page. */
function showPages() {
  const [name, subject] = routeParts() ?? [];
  const pages = [['Topics', '#/', name === undefined]];
  if (name === 'topic' || name === 'queue')
    pages.push(
      [shown(subject), routeTo('topic', subject), name === 'topic'],
      ['Queue', routeTo('queue', subject), name === 'queue'],
    );
  if (name === 'site') pages.push([shown(subject), routeTo('site', subject), true]);
  byId('pages').replaceChildren(
    ...pages.map(([text, href, isHere]) =>
      h('li', {}, h('a', { href, 'aria-current': isHere && 'page' }, text)),
    ),
  );
}

// === instead of a view ===

const messageView = (title, message, ...more) => ({
  title,
  node: h('div', {}, h('h1', {}, title), h('p', {}, foreign(message)), ...more),
});

/** Replaces a view whose request the daemon refused. */
function refusalView(error) {
  scope.close();
  if (error.status !== 401)
    return messageView(error.status === 404 ? 'Not found' : 'This cannot be shown', error.message);
  const again = async () => (await signIn(error.message)) !== null && showRoute(false);
  return messageView(
    'Sign in first',
    error.message,
    h('button', { type: 'button', click: again }, 'Sign in'),
  );
}

// === sign-in ===

/** Asks for the token; null if the user cancels. */
function askForToken(reason) {
  const dialog = byId('sign-in');
  const input = byId('token');
  setText(byId('sign-in-reason'), reason);
  input.value = '';
  dialog.returnValue = '';
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    const closed = () => resolve(dialog.returnValue === 'given' ? input.value.trim() : null);
    dialog.addEventListener('close', closed, { once: true });
  });
}

function prepareSignIn() {
  const dialog = byId('sign-in');
  const button = byId('sign-in-or-out');
  const showToken = () => setText(button, token() === null ? 'Sign in' : 'Sign out');
  setTokenDialog(askForToken, showToken);
  showToken();
  dialog.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close('given');
  });
  byId('sign-in-cancel').addEventListener('click', () => dialog.close());
  button.addEventListener('click', () => act(() => (token() === null ? enter() : leave())));
}

async function enter() {
  return (await signIn()) === null ? '' : 'The token is kept in this tab.';
}

function leave() {
  forgetToken();
  return 'Signed out: the token is deleted.';
}

// === around the views ===

/** Shows the daemon's status; without a token all write controls are hidden. */
async function showDaemon(signal) {
  const status = await read(v1('status'), signal);
  publishStatus(status);
  document.documentElement.dataset.writes = status.writes ? 'yes' : 'no';
  byId('no-token').hidden = status.writes;
  byId('sign-in-or-out').hidden = !status.writes;
  const pieces = [
    `sitescout ${shown(status.version)}`,
    counted(status.crawlers_busy, 'crawler') + ' busy',
    `memory ${bytes(status.memory_bytes)}`,
    `store ${bytes(status.store_bytes)}`,
  ];
  byId('daemon').replaceChildren(`${pieces.join(', ')}, started `, moment(status.started_at));
}

function prepareSkipLink() {
  // The hash is used for routes, so the link cannot use it.
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    focusHeading();
  });
}

prepareSignIn();
prepareSkipLink();
window.addEventListener('hashchange', () => showRoute(false));
showRoute(true);
openScope(() => {}).every(5, showDaemon);
