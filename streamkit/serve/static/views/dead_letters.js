// Records that could not be processed, counted by topic, step and error.

import {link, make, problem, shown, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

export function render({model, el, signal, situation}) {
  const draw = () => {
    const found = model.get('counts');
    if (!found) return;
    const names = [...new Set(found.flatMap(row => Object.keys(row)))].filter(name => name !== 'topic');
    el.replaceChildren(make('h1', {}, 'Dead letters'), table([
      {title: 'topic', of: one => link(one.topic, 'dead-letters', one.topic)},
      ...names.map(name => ({title: name.replaceAll('_', ' '), of: one => typeof one[name] === 'number' ? one[name] : shown(one[name]), isNumber: typeof found[0][name] === 'number', isValue: true})),
    ], found, {empty: 'There are none: each record was processed, or no step sends those that fail to a topic.'}));
  };
  model.on('change:counts', draw);
  if (signal) {
    keepAsking(() => ask('/api/v1/dead-letters'), 5, signal, counts => { situation(''); model.put({counts}); },
      error => { situation(error.message, 'bad'); if (!model.get('counts')) el.replaceChildren(problem(error)); });
  }
}
