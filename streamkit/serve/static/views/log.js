// The log as a whole: its topics by size, who reads them, and what waits to be deleted.

import {bytes, facts, link, make, number, problem, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const LARGEST = 20;

export function render({model, el, signal, situation}) {
  const draw = () => {
    const found = model.get('log');
    if (!found) return;
    const total = (topic, field) => topic.partitions.reduce((sum, one) => sum + one[field], 0);
    const largest = [...found.topics].sort((one, other) => total(other, 'bytes') - total(one, 'bytes')).slice(0, LARGEST);
    el.replaceChildren(make('h1', {}, 'Log'), facts([['topics', found.topics.length], ['records', number(found.topics.reduce((sum, one) => sum + total(one, 'records'), 0))],
      ['size', bytes(found.topics.reduce((sum, one) => sum + total(one, 'bytes'), 0))], ['applications', found.applications.length], ['groups', found.groups.length],
      ['files that wait to be deleted', found.trash_files]]),
      make('p', {class: 'quiet'}, 'A file waits to be deleted once merges, compaction or retention have left no record in it that counts: it stays for a while, so that whoever reads it can end.'),
      make('h2', {}, 'The largest topics'), table([
        {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'size', of: one => bytes(total(one, 'bytes')), isNumber: true},
        {title: 'records', of: one => total(one, 'records'), isNumber: true}, {title: 'files', of: one => total(one, 'files'), isNumber: true},
        {title: 'frames', of: one => total(one, 'extents'), isNumber: true},
      ], largest));
  };
  model.on('change:log', draw);
  if (signal) {
    keepAsking(() => ask('/api/v1/log', {all: 'true'}), 5, signal, log => { situation(''); model.put({log}); },
      error => { situation(error.message, 'bad'); if (!model.get('log')) el.replaceChildren(problem(error)); });
  }
}
