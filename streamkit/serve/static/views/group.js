// One consumer group: its members, and how far it is in each partition.

import {facts, link, make, number, problem, shown, spark, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const KEPT = 100;

export function render({model, el, signal, situation}) {
  const name = model.get('group'), lags = [];
  const draw = () => {
    const found = model.get('found');
    if (!found) return;
    const lag = found.partitions.reduce((sum, place) => sum + (place.lag ?? 0), 0);
    lags.push(lag);
    lags.splice(0, lags.length - KEPT);
    el.replaceChildren(make('h1', {}, name), facts([['state', found.state], ['records that wait', make('span', {}, spark(lags, 240), ' ', number(lag))]]),
      make('h2', {}, 'Partitions'), table([
        {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'partition', of: one => String(one.partition), isNumber: true},
        {title: 'committed', of: one => shown(one.committed ?? one.offset), isNumber: true}, {title: 'end', of: one => one.end ?? one.end_offset, isNumber: true},
        {title: 'records that wait', of: one => one.lag, isNumber: true}, {title: 'member', of: one => shown(one.member)},
      ], found.partitions),
      make('h2', {}, 'Members'), table([{title: 'member', of: one => shown(one.member ?? one.id ?? one.name)}, {title: 'topics', of: one => (one.topics ?? []).join(', ')}], found.members, {empty: 'No member reads now.'}));
  };
  model.on('change:found', draw);
  if (signal) {
    keepAsking(() => ask(`/api/v1/groups/${encodeURIComponent(name)}`), 2, signal, found => { situation(''); model.put({found}); },
      error => { situation(error.message, 'bad'); if (!model.get('found')) el.replaceChildren(problem(error)); });
  }
}
