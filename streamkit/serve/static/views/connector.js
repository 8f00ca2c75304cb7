// One connector: its tasks and why one failed, its positions and settings; pausing, stopping and restarting it.

import {change, changeButton} from '../changing.js';
import {facts, link, make, number, problem, shown, table, time} from '../dom.js';
import {ask, keepAsking} from '../model.js';
import {stateKind} from './connectors.js';

const ASKED = {run: 'to run', pause: 'to pause', stop: 'to stop'};

const CHECKSUM = 'sum';  // says nobody where a source is

// The plain values of a position, in words; what it needs besides, such as checksums, is in the whole of it.
function told(position) {
  const parts = Object.entries(position).filter(([field, value]) => field !== CHECKSUM && value !== null && typeof value !== 'object' && value !== false && value !== '')
    .map(([field, value]) => {
      const word = field.replace(/^kafka_/, '').replaceAll('_', ' ');
      return value === true ? word : field.endsWith('_ms') ? `${word.slice(0, -3)} ${time(value)}` : `${word} ${shown(value)}`;
    });
  const whole = Object.values(position).some(value => value !== null && typeof value === 'object')
    ? make('details', {}, make('summary', {}, 'all of it'), make('pre', {}, JSON.stringify(position, null, 1))) : null;
  return make('span', {}, parts.join(', ') || (whole ? '' : 'its beginning'), whole);
}

const placeOf = partition => 'kafka_topic' in partition
  ? make('span', {}, link(partition.kafka_topic, 'topics', partition.kafka_topic), ` partition ${partition.kafka_partition}`)
  : Object.values(partition).map(shown).join(' ');

export function render({model, el, signal, go, situation}) {
  let chosen = model.get('query')?.task ?? null;  // whose error is shown; without one, those of the tasks that have failed
  const name = model.get('connector'), path = `/connectors/${encodeURIComponent(name)}`;
  const places = Object.fromEntries(['problem', 'facts', 'tasks', 'offsets', 'config'].map(part => [part, make('div')]));
  const failed = error => places.problem.replaceChildren(problem(error));
  const asks = (text, word, method = 'PUT') => changeButton(text, async () => {
    try {
      await change(`${path}/${word}`, {}, method);
      places.problem.replaceChildren();
      await look();
    } catch (error) { failed(error); }
  });
  const known = make('div', {hidden: true}, places.facts,
    make('form', {}, asks('Pause', 'pause'), asks('Resume', 'resume'), asks('Stop', 'stop'), asks('Restart its tasks', 'restart', 'POST')),
    make('p', {class: 'quiet'}, 'Its workers hear of it within a second or so. A paused connector keeps its connections; a stopped one closes them.'),
    make('h2', {}, 'Tasks'), places.tasks, make('h2', {}, 'Positions'), places.offsets, make('h2', {}, 'Settings'), places.config);
  el.replaceChildren(make('h1', {}, name), places.problem, known);
  const choose = task => event => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    chosen = chosen === task ? null : task;
    go(addressOf(chosen), {isSamePage: true});
    draw();
  };
  const addressOf = task => `${path}${task === null ? '' : `?${new URLSearchParams({task})}`}`;
  const draw = () => {
    const hadFocus = places.tasks.contains(document.activeElement), opened = new Set([...places.offsets.querySelectorAll('details[open]')].map(one => one.dataset.of));
    const tasks = model.get('tasks').filter(one => one.connector === name);
    const [first] = tasks;
    places.facts.replaceChildren(facts([['class', first?.class], ['was asked', ASKED[first?.asked]], ['rows', number(tasks.reduce((sum, one) => sum + (one.rows ?? 0), 0))],
      ['rows that failed', lettersOf(tasks.reduce((sum, one) => sum + (one.failed_rows ?? 0), 0))]]));
    places.tasks.replaceChildren(table([
      {title: 'task', of: one => make('a', {href: addressOf(String(one.task)), onclick: choose(String(one.task)), 'aria-current': String(one.task) === chosen ? 'true' : null}, String(one.task)), isNumber: true}, {title: 'state', of: one => make('span', {class: stateKind(one.state)}, one.state.toLowerCase())},
      {title: 'rows', of: one => one.rows, isNumber: true}, {title: 'failed', of: one => one.failed_rows, isNumber: true}, {title: 'rows/s', of: one => one.rows_per_s, isNumber: true},
      {title: 'records that wait', of: one => one.lag, isNumber: true}, {title: 'last commit', of: one => time(one.committed_at_ms)}, {title: 'worker', of: one => one.worker},
    ], tasks, {empty: 'No task of it has run on this log.', kind: one => String(one.task) === chosen ? 'chosen' : ''}), ...whyFailed(tasks));
    if (hadFocus) places.tasks.querySelector('a[aria-current]')?.focus({preventScroll: true});
    places.offsets.replaceChildren(table([{title: 'of', of: one => placeOf(one.partition)}, {title: 'at', of: one => told(one.offset)}],
      model.get('offsets')?.offsets ?? [], {empty: 'It has no positions yet.'}));
    places.offsets.querySelectorAll('details').forEach((one, at) => { one.dataset.of = at; one.open = opened.has(String(at)); });
    places.config.replaceChildren(table([{title: 'setting', of: one => one[0]}, {title: 'value', of: one => shown(one[1]), isValue: true}],
      Object.entries(model.get('config') ?? {}), {empty: 'No worker has said how it is set.'}));
  };
  const whyFailed = tasks => tasks.filter(one => one.trace && (chosen === null || String(one.task) === chosen))
    .map(one => make('details', {open: chosen !== null || one.state === 'FAILED'}, make('summary', {}, `why task ${one.task} failed`), make('pre', {}, one.trace)));
  const lettersOf = rows => rows ? make('a', {class: 'warn', href: `/dead-letters?${new URLSearchParams({connector: name})}`, title: 'their dead letters'}, number(rows)) : number(rows);
  let isUnknown = false;  // then there is nothing of it to show; it may be started while the page waits
  const look = async () => {
    const tasks = await ask('/api/v1/connectors');
    const wasUnknown = isUnknown;
    isUnknown = false;
    const [offsets, config] = await Promise.all([ask(`${path}/offsets`), ask(`${path}/config`)]).catch(error => { failed(error); isUnknown = error.status === 404; return [null, null]; });
    isUnknown &&= !tasks.some(one => one.connector === name);
    if (wasUnknown && !isUnknown) places.problem.replaceChildren();
    known.hidden = isUnknown;
    situation('');
    model.put({tasks, offsets, config});
  };
  model.on('change:tasks', draw);
  if (signal) keepAsking(look, 2, signal, () => {}, error => { if (model.get('tasks')) situation(error.message, 'bad'); else failed(error); });
}
