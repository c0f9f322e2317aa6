// `#/site/HOST`: the verdict, evidence and decision on a site for each topic, and blocking it.

import { read, v1, write } from './api.js';
import { facts, field, foreign, form, h, keyed, moment, outLink, routeTo, setText } from './elements.js';
import { confidenceMark, decisionMark, evidenceBlocks, verdictMark } from './evidence.js';
import { act } from './live.js';
import { confidence, counted, decisionInWords, label, shown, whole } from './words.js';

export function siteView(scope, host) {
  const entrance = h('p', { class: 'lead' });
  const again = () => scope.attempt(refresh);
  const block = blockPart(host, again);
  const sections = h('div');
  const node = h('div', {}, h('h1', {}, foreign(host)), entrance, block.node, sections);

  let latestRequest = 0;
  async function refresh(signal) {
    latestRequest += 1;
    const request = latestRequest;
    const site = await read(v1('sites', host), signal);
    // A response from before a change must not be shown after it.
    if (request !== latestRequest) return;
    if (entrance.childNodes.length === 0)
      entrance.append(outLink(site.topics[0]?.entrance ?? `http://${host}/`));
    block.update(site.blocked);
    keyed(
      sections,
      site.topics,
      ({ topic }) => topic,
      ({ topic }) => topicSection(topic, host, again),
    );
  }

  scope.every(10, refresh);
  return { title: shown(host), node };
}

// === one topic ===

function topicSection(topic, host, refresh) {
  const head = h('div');
  const evidence = h('div', { class: 'evidence' });
  const decision = decisionPart(topic, host, refresh);
  const node = h(
    'section',
    { class: 'of-topic' },
    h('h2', {}, h('a', { href: routeTo('topic', topic) }, foreign(topic))),
    head,
    decision.node,
    evidence,
  );
  let headShown = '';
  let evidenceShown = '';

  function update(detail) {
    const { evidence: pages, recommended_by: by, recommends, ...rest } = detail;
    const [headNow, evidenceNow] = [JSON.stringify(rest), JSON.stringify([pages, by, recommends])];
    if (headNow !== headShown) head.replaceChildren(detailFacts(detail));
    headShown = headNow;
    decision.update(detail.decision);
    // A keyboard user must not lose the focused element.
    if (evidenceNow === evidenceShown || evidence.contains(document.activeElement)) return;
    evidenceShown = evidenceNow;
    evidence.replaceChildren(...evidenceBlocks(detail));
  }
  return { node, update };
}

function detailFacts(detail) {
  const visited = detail.verdict !== null && detail.verdict !== undefined;
  const pairs = [
    ['Verdict', verdictMark(detail)],
    visited && ['Confidence', confidenceMark(detail.confidence)],
    visited && ['Pages', whole(detail.pages)],
    visited && ['Reading ended', label(detail.stop_reason)],
    visited && ['Judged', moment(detail.judged_at)],
    ['Rank', confidence(detail.rank)],
    ['Recommended', `by ${counted(detail.edges, 'site')} of ${counted(detail.domains, 'domain')}`],
    detail.recheck && ['Recheck due', moment(detail.recheck)],
    detail.address && ['Address', shown(detail.address)],
    detail.start && ['Start site', 'yes, so not counted as a find'],
    ['On the list', detail.listed ? 'yes' : 'no'],
  ];
  return facts(pairs.filter(Boolean));
}

// === decisions ===

function decisionPart(topic, host, refresh) {
  const path = v1('topics', topic, 'sites', host, 'decision');
  const status = h('p', { class: 'decided' });
  const note = h('input', { type: 'text', autocomplete: 'off', maxlength: 500 });
  const withdraw = h('button', { type: 'button', class: 'quiet', click: () => act(takeBack) }, 'Withdraw');
  const recheck = h('button', { type: 'button', class: 'quiet', click: () => act(visitAgain) }, 'Recheck');

  async function decide(decision) {
    await write('PUT', path, { decision, note: note.value.trim() });
    note.value = '';
    await refresh();
    return `${shown(host)} ${decisionInWords(decision)} for ${shown(topic)}.`;
  }
  async function takeBack() {
    if (withdraw.getAttribute('aria-disabled') === 'true') return 'There is no decision to withdraw.';
    await write('DELETE', path);
    await refresh();
    return `The decision on ${shown(host)} is withdrawn.`;
  }
  async function visitAgain() {
    await write('POST', v1('topics', topic, 'sites', host, 'recheck'));
    await refresh();
    return `${shown(host)} will be visited again.`;
  }

  const button = (name, decision, kind) =>
    h('button', { type: 'button', class: kind, click: () => act(() => decide(decision)) }, name);
  const controls = form(
    { class: 'decide writes', 'aria-label': `Decide about ${shown(host)} for ${shown(topic)}` },
    () => {},
    field('Note', note),
    h(
      'div',
      { class: 'buttons' },
      button('Accept', 'accept'),
      button('Reject', 'reject', 'no'),
      withdraw,
      recheck,
    ),
  );
  let shownNow = null;

  function update(decision) {
    // `disabled` would take the focus away.
    withdraw.setAttribute('aria-disabled', String(!decision));
    const now = JSON.stringify(decision ?? null);
    if (now === shownNow) return;
    shownNow = now;
    status.replaceChildren(
      'Editors: ',
      ...(decision
        ? [
            decisionMark(decision),
            ' ',
            moment(decision.at),
            decision.note ? ': ' : '',
            foreign(decision.note),
          ]
        : ['no decision yet.']),
    );
  }
  return { node: h('div', {}, status, controls), update };
}

// === blocks ===

function blockPart(host, refresh) {
  const status = h('p', { class: 'blocked', hidden: true });
  const note = h('input', { type: 'text', autocomplete: 'off', maxlength: 500 });
  const noteField = field('Reason', note);
  const button = h('button', { type: 'submit', class: 'quiet' });
  const summary = h('summary');
  let isBlocked = false;

  async function toggle() {
    const path = v1('blocks', host);
    const wasBlocked = isBlocked;
    if (wasBlocked) await write('DELETE', path);
    else await write('PUT', path, { note: note.value.trim() });
    note.value = '';
    await refresh();
    return wasBlocked
      ? `${shown(host)} is no longer blocked.`
      : `${shown(host)} is blocked: it is not visited, and on no list.`;
  }

  function update(blocked) {
    isBlocked = Boolean(blocked);
    status.hidden = !isBlocked;
    if (isBlocked)
      status.replaceChildren(
        'Blocked since ',
        moment(blocked.at),
        blocked.note ? ': ' : '',
        foreign(blocked.note),
      );
    setText(summary, isBlocked ? 'Unblock this site' : 'Block this site');
    setText(button, isBlocked ? 'Unblock' : 'Block');
    noteField.hidden = isBlocked;
  }

  update(null);
  const controls = h(
    'details',
    { class: 'block writes' },
    summary,
    form(
      {},
      () => act(toggle),
      h(
        'p',
        { class: 'hint' },
        'A blocked site is not visited, and leaves the lists of all topics at once.',
      ),
      noteField,
      button,
    ),
  );
  return { node: h('div', {}, status, controls), update };
}
