// All consumer groups: who reads together, and what waits for them.

import {link, make, number, problem, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

export function render({model, el, signal, situation}) {
  const draw = () => {
    const found = model.get('groups');
    if (!found) return;
    el.replaceChildren(make('h1', {}, 'Groups'), table([
      {title: 'group', of: one => link(one.group ?? one.name, 'groups', one.group ?? one.name)},
      {title: 'state', of: one => one.state}, {title: 'members', of: one => one.members.length, isNumber: true},
      {title: 'partitions', of: one => one.partitions.length, isNumber: true},
      {title: 'records that wait', of: one => number(one.partitions.reduce((sum, place) => sum + (place.lag ?? 0), 0)), isNumber: true},
    ], found, {empty: 'No consumer group has read from this log.'}));
  };
  model.on('change:groups', draw);
  draw();
  if (signal) {
    keepAsking(() => ask('/api/v1/groups'), 3, signal, groups => { situation(''); model.put({groups}); },
      error => { if (model.get('groups')) situation(error.message, 'bad'); else el.replaceChildren(problem(error)); });
  }
}
