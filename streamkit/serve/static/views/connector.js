// One connector: its tasks and why one failed, its positions and settings; pausing, stopping and restarting it.

import {change, changeButton} from '../changing.js';
import {facts, make, number, problem, shown, table, time} from '../dom.js';
import {ask, keepAsking} from '../model.js';
import {stateKind} from './connectors.js';

const ASKED = {run: 'to run', pause: 'to pause', stop: 'to stop'};

export function render({model, el, signal, situation}) {
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
  el.replaceChildren(make('h1', {}, name), places.problem, places.facts,
    make('form', {}, asks('Pause', 'pause'), asks('Resume', 'resume'), asks('Stop', 'stop'), asks('Restart its tasks', 'restart', 'POST')),
    make('p', {class: 'quiet'}, 'Its workers hear of it within a second or so. A paused connector keeps its connections; a stopped one closes them.'),
    make('h2', {}, 'Tasks'), places.tasks, make('h2', {}, 'Positions'), places.offsets, make('h2', {}, 'Settings'), places.config);
  const draw = () => {
    const tasks = model.get('tasks').filter(one => one.connector === name);
    const [first] = tasks;
    places.facts.replaceChildren(facts([['class', first?.class], ['was asked', ASKED[first?.asked]], ['rows', number(tasks.reduce((sum, one) => sum + (one.rows ?? 0), 0))],
      ['rows that failed', number(tasks.reduce((sum, one) => sum + (one.failed_rows ?? 0), 0))]]));
    places.tasks.replaceChildren(table([
      {title: 'task', of: one => String(one.task), isNumber: true}, {title: 'state', of: one => make('span', {class: stateKind(one.state)}, one.state.toLowerCase())},
      {title: 'rows', of: one => one.rows, isNumber: true}, {title: 'failed', of: one => one.failed_rows, isNumber: true}, {title: 'rows/s', of: one => one.rows_per_s, isNumber: true},
      {title: 'records that wait', of: one => one.lag, isNumber: true}, {title: 'last commit', of: one => time(one.committed_at_ms)}, {title: 'worker', of: one => one.worker},
    ], tasks, {empty: 'No task of it has run on this log.'}),
    ...tasks.filter(one => one.trace).map(one => make('details', {open: one.state === 'FAILED'}, make('summary', {}, `why task ${one.task} failed`), make('pre', {}, one.trace))));
    const pairs = (model.get('offsets')?.offsets ?? []).map(one => ({of: Object.values(one.partition).map(shown).join(' '), at: Object.entries(one.offset).map(([key, value]) => `${key} ${shown(value)}`).join(', ')}));
    places.offsets.replaceChildren(table([{title: 'of', of: one => one.of, isValue: true}, {title: 'at', of: one => one.at, isValue: true}], pairs, {empty: 'It has no positions yet.'}));
    places.config.replaceChildren(table([{title: 'setting', of: one => one[0]}, {title: 'value', of: one => shown(one[1]), isValue: true}],
      Object.entries(model.get('config') ?? {}), {empty: 'No worker has said how it is set.'}));
  };
  const look = async () => {
    const tasks = await ask('/api/v1/connectors');
    const [offsets, config] = await Promise.all([ask(`${path}/offsets`), ask(`${path}/config`)]).catch(error => { failed(error); return [null, null]; });
    situation('');
    model.put({tasks, offsets, config});
  };
  model.on('change:tasks', draw);
  if (signal) keepAsking(look, 2, signal, () => {}, error => { situation(error.message, 'bad'); if (!model.get('tasks')) failed(error); });
}
