// All connectors: their tasks, and what was asked of them.

import {link, make, number, problem, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const ASKED = {run: '', pause: 'to pause', stop: 'to stop'};
const sum = (tasks, name) => tasks.reduce((found, task) => found + (task[name] ?? 0), 0);

// The tasks by the connector that they are of.
export function connectorsOf(tasks) {
  const found = new Map();
  for (const task of tasks) found.set(task.connector, [...(found.get(task.connector) ?? []), task]);
  return [...found].map(([name, its]) => ({name, tasks: its}));
}

export const stateKind = state => ({RUNNING: 'good', FAILED: 'bad', RESTARTING: 'warn', UNASSIGNED: 'warn'})[state] ?? 'quiet';

const states = tasks => [...new Set(tasks.map(task => task.state))].map(state => make('span', {class: stateKind(state)}, state.toLowerCase() + ' '));

export function render({model, el, signal, situation}) {
  const draw = () => {
    const found = model.get('tasks');
    if (!found) return;
    el.replaceChildren(make('h1', {}, 'Connectors'), table([
      {title: 'connector', of: one => link(one.name, 'connectors', one.name)}, {title: 'class', of: one => one.tasks[0].class.split('.').pop()},
      {title: 'tasks', of: one => one.tasks.length, isNumber: true}, {title: 'states', of: one => make('span', {}, states(one.tasks))},
      {title: 'was asked', of: one => ASKED[one.tasks[0].asked]},
      {title: 'rows', of: one => sum(one.tasks, 'rows'), isNumber: true}, {title: 'rows/s', of: one => sum(one.tasks, 'rows_per_s'), isNumber: true},
      {title: 'records that wait', of: one => one.tasks.some(task => task.lag !== null && task.lag !== undefined) ? number(sum(one.tasks, 'lag')) : '', isNumber: true},
    ], connectorsOf(found), {empty: 'No connector has run on this log.'}));
  };
  model.on('change:tasks', draw);
  draw();
  if (signal) {
    keepAsking(() => ask('/api/v1/connectors'), 2, signal, tasks => { situation(''); model.put({tasks}); },
      error => { if (model.get('tasks')) situation(error.message, 'bad'); else el.replaceChildren(problem(error)); });
  }
}
