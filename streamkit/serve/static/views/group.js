// One consumer group: its members, how far it is in each partition, what waits for it over time, and letting it read on from elsewhere.

import {allowsChanges, changeButton, twoSteps} from '../changing.js';
import {address, facts, link, make, number, problem, shown, spark, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const KEPT = 300;

export function render({model, el, signal, go, situation}) {
  const query = model.get('query') ?? {};
  const name = model.get('group'), path = `/api/v1/groups/${encodeURIComponent(name)}`, lags = [], found = make('div'), asked = make('div');
  const to = make('input', {value: query.to ?? 'latest', list: 'places', size: 28}), topics = make('input', {placeholder: 'all that it has committed', value: query.topics ?? ''});
  const named = () => topics.value.split(',').map(one => one.trim()).filter(Boolean);
  const fields = () => ({to: to.value.trim(), ...(named().length ? {topics: named()} : {})});
  const partitions = rows => table([
    {title: 'topic', of: one => one.topic}, {title: 'partition', of: one => String(one.partition), isNumber: true},
    {title: 'next offset now', of: one => one.before, isNumber: true}, {title: 'then', of: one => one.after, isNumber: true},
  ], rows);
  // What is asked for is part of the address, so that it can be sent, and be looked at before anybody does it.
  const state = () => `${address('groups', name)}?${new URLSearchParams({to: to.value.trim(), ...(named().length ? {topics: named().join(',')} : {})})}`;
  const steps = twoSteps({
    path: `${path}/offsets`, fields, place: asked,
    preview: preview => partitions(preview.partitions),
    label: preview => `Let ${preview.group} read on from there`,
    done: done => `${done.group} reads on from ${to.value}.`,
    after: () => go(address('groups', name), {isSamePage: true}),
  });
  const reset = changeButton('Read on from there …', from => { go(state(), {isSamePage: true}); return steps(from); }, {type: 'submit'});
  el.replaceChildren(make('h1', {}, name), found, make('h2', {}, 'Read on from elsewhere'),
    make('p', {class: 'quiet'}, 'Only while no member reads.'),
    make('form', {onsubmit: event => event.preventDefault()},
      make('label', {}, 'from: earliest, latest, an offset or a time', to), make('datalist', {id: 'places'}, ['earliest', 'latest'].map(value => make('option', {value}))),
      make('label', {}, 'topics, with commas between', topics), reset), asked);
  const draw = () => {
    const group = model.get('found');
    if (!group) return;
    lags.push(group.lag);
    lags.splice(0, lags.length - KEPT);
    found.replaceChildren(facts([['state', group.state], ['generation', group.generation],
      ['records that wait, since this page was opened', make('span', {}, spark(lags, 240), ' ', number(group.lag))]]),
      make('h2', {}, 'Partitions'), table([
        {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'partition', of: one => String(one.partition), isNumber: true},
        {title: 'committed', of: one => one.committed, isNumber: true}, {title: 'end', of: one => one.end_offset, isNumber: true},
        {title: 'records that wait', of: one => one.lag, isNumber: true}, {title: 'member', of: one => shown(one.owner).slice(0, 8)},
      ], group.partitions),
      make('h2', {}, 'Members'), table([
        {title: 'member', of: one => one.member_id.slice(0, 8)}, {title: 'client', of: one => shown(one.client)}, {title: 'instance', of: one => shown(one.instance_id)},
        {title: 'topics', of: one => (one.topics ?? []).join(', ')}, {title: 'partitions', of: one => shown(one.partitions), isNumber: true},
      ], group.members, {empty: 'No member reads now.'}));
  };
  model.on('change:found', draw);
  if (query.to !== undefined) allowsChanges().then(may => { if (may && !signal?.aborted) steps(reset); }, () => {});
  if (signal) {
    keepAsking(() => ask(path), 2, signal, group => { situation(''); model.put({found: group}); },
      error => { if (model.get('found')) situation(error.message, 'bad'); else found.replaceChildren(problem(error)); });
  }
}
