// All applications of the log: whether they run, how far they are, what waits.

import {link, make, number, problem, spark, table, time} from '../dom.js';
import {ask, keepAsking} from '../model.js';
import {linkToLetters} from './dead_letters.js';

const KEPT = 60; // looks for the line of the lag

export function render({model, el, signal, situation}) {
  const lags = new Map();
  const draw = () => {
    const found = model.get('applications');
    if (!found) return;
    for (const one of found) {
      const lag = one.inputs.reduce((sum, place) => sum + place.lag, 0);
      lags.set(one.name, [...(lags.get(one.name) ?? []), lag].slice(-KEPT));
    }
    el.replaceChildren(make('h1', {}, 'Applications'), table([
      {title: 'application', of: one => link(one.name, 'applications', one.name)},
      {title: 'state', of: one => make('span', {class: one.running ? 'good' : 'quiet'}, state(one))},
      {title: 'epochs', of: one => one.epochs, isNumber: true},
      {title: 'records that wait', of: one => make('span', {}, spark(lags.get(one.name)), ' ', number(lags.get(one.name).at(-1))), isNumber: true},
      {title: 'stream time', of: one => time(one.stream_time_ms)},
      {title: 'late', of: one => one.late, isNumber: true},
      {title: 'without a key', of: one => one.null_key, isNumber: true},
      {title: 'errors', of: one => one.errors ? linkToLetters(one.errors, one.name) : number(one.errors), isNumber: true},
      {title: 'tasks', of: one => one.tasks, isNumber: true},
    ], found, {empty: 'No application has run on this log yet. sk.run(app) or streamkit run FILE starts one.'}));
  };
  model.on('change:applications', draw);
  draw();
  if (signal) {
    keepAsking(() => ask('/api/v1/applications'), 2, signal,
      found => { situation(''); model.put({applications: found}); },
      error => { if (model.get('applications')) situation(error.message, 'bad'); else el.replaceChildren(problem(error)); });
  }
}

export function state(one) {
  if (one.successor) return `taken over by ${one.successor}`;
  const beside = one.follows ? `, follows ${one.follows}` : '';
  if (!one.running) return `stopped${beside}`;
  if (one.restoring.length) {
    const done = one.restoring.reduce((sum, task) => sum + task.changes, 0), all = one.restoring.reduce((sum, task) => sum + task.changes_total, 0);
    return `restores its stores: ${Math.floor(100 * done / Math.max(1, all))} %`;
  }
  return `runs${beside}`;
}
