// All topics of the log: how much they hold, and how fast they grow.

import {bytes, link, make, number, problem, table, time} from '../dom.js';
import {ask, keepAsking} from '../model.js';

export function render({model, el, signal, go, situation}) {
  const query = model.get('query') ?? {}, list = make('div');
  const filter = make('input', {type: 'search', placeholder: 'part of a name', value: query.name ?? '', 'aria-label': 'part of a name'});
  const all = make('input', {type: 'checkbox', checked: query.all === 'true'});
  const keep = (replace = false) => {
    const state = new URLSearchParams();
    if (filter.value) state.set('name', filter.value);
    if (all.checked) state.set('all', 'true');
    go(`/topics${state.size ? `?${state}` : ''}`, {replace, isSamePage: true});
  };
  el.replaceChildren(make('h1', {}, 'Topics'), make('form', {onsubmit: event => event.preventDefault()}, filter,
    make('label', {class: 'beside'}, all, 'with those of applications, such as changelogs')), list);
  const draw = () => {
    const found = model.get('topics');
    if (!found) return;
    const shown = found.filter(one => one.topic.toLowerCase().includes(filter.value.toLowerCase()));
    list.replaceChildren(table([
      {title: 'topic', of: one => link(one.topic, 'topics', one.topic)},
      {title: 'partitions', of: one => one.partitions.length, isNumber: true},
      {title: 'records', of: one => total(one, 'records'), isNumber: true},
      {title: 'size', of: one => bytes(total(one, 'bytes')), isNumber: true},
      {title: 'records/s in the last minute', of: one => total(one, 'records_per_second'), isNumber: true},
      {title: 'newest event time', of: one => time(most(one, 'newest_ms'))},
      {title: 'written', of: one => time(most(one, 'appended_ms'))},
    ], shown, {empty: found.length ? 'No topic has that in its name.' : 'There is no topic yet.'}));
  };
  model.on('change:topics', draw);
  filter.addEventListener('input', () => { keep(true); draw(); });
  const load = () => ask('/api/v1/log', {all: all.checked ? 'true' : null});
  const told = found => { situation(''); model.put({topics: found.topics}); };
  const failed = error => { if (model.get('topics')) situation(error.message, 'bad'); else list.replaceChildren(problem(error)); };
  all.addEventListener('change', () => { keep(); load().then(told, failed); });
  draw();
  if (signal) keepAsking(load, 3, signal, told, failed);
}

const total = (topic, field) => topic.partitions.reduce((sum, one) => sum + one[field], 0);
const most = (topic, field) => topic.partitions.reduce((found, one) => one[field] === null ? found : Math.max(found ?? -Infinity, one[field]), null);
