// One application: its graph with what the steps do now, a panel for the step that is chosen, its epochs, inputs and stores.

import {address, facts, link, make, number, problem, table, time} from '../dom.js';
import {Model, ask, keepAsking, listen} from '../model.js';
import {render as renderGraph} from './graph.js';
import {render as renderEpochs} from './epochs.js';
import {state} from './applications.js';
import {render as renderStep} from './step.js';

const EPOCHS = 60;

export async function render({model, el, signal, go, situation}) {
  const name = model.get('application'), base = `/api/v1/applications/${encodeURIComponent(name)}`;
  const graph = new Model({chosen: model.get('query')?.step ?? null}), epochs = new Model(), places = {};
  for (const part of ['problem', 'facts', 'restoring', 'graph', 'panel', 'epochs', 'inputs', 'stores']) places[part] = make('div');
  const panel = make('aside', {class: 'panel', 'aria-label': 'step'}, places.panel);
  el.replaceChildren(make('h1', {}, name), places.problem, places.facts, places.restoring,
    make('h2', {}, 'Steps'), make('div', {class: 'split'}, places.graph, panel),
    make('h2', {}, 'Epochs'), places.epochs, make('h2', {}, 'Inputs'), places.inputs, make('h2', {}, 'Stores'), places.stores);
  renderGraph({model: graph, el: places.graph});
  renderEpochs({model: epochs, el: places.epochs});
  renderStep({model: graph, el: places.panel, places: box => placesOf(name, box)});
  graph.on('change:chosen', () => {
    const chosen = graph.get('chosen');
    go(address('applications', name) + (chosen ? `?step=${encodeURIComponent(chosen)}` : ''), {replace: true, isSamePage: true});
  });
  const told = found => {
    situation('');
    places.problem.replaceChildren();
    const lag = found.inputs.reduce((sum, one) => sum + one.lag, 0);
    places.facts.replaceChildren(facts([
      ['state', make('span', {class: found.running ? 'good' : 'quiet'}, state(found))], ['epochs', found.epochs], ['records that wait', number(lag)],
      ['stream time', time(found.stream_time_ms)], ['generation', found.generation], ['tasks', found.tasks], ['key groups', found.key_groups],
      ['late', number(found.late)], ['without a key', number(found.null_key)], ['errors', number(found.errors)],
    ]));
    places.inputs.replaceChildren(table([
      {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'partition', of: one => String(one.partition), isNumber: true},
      {title: 'next offset', of: one => one.next_offset, isNumber: true}, {title: 'records that wait', of: one => one.lag, isNumber: true},
    ], found.inputs, {empty: 'Nothing has been read yet.'}));
    places.stores.replaceChildren(table([
      {title: 'store', of: one => link(one.store, 'applications', name, 'stores', one.store)},
      {title: 'changelog', of: one => link(one.changelog, 'topics', one.changelog)},
      {title: 'records in its changelog', of: one => one.records, isNumber: true}, {title: 'bytes', of: one => one.bytes, isNumber: true},
    ], found.stores, {empty: 'This application keeps no store.'}));
    places.restoring.replaceChildren(...(found.restoring.length ? [make('h2', {}, 'Restoring'), table([
      {title: 'task', of: one => `${one.task} of ${one.tasks}`}, {title: 'progress', of: one => make('progress', {value: one.changes, max: Math.max(1, one.changes_total)})},
      {title: 'changes', of: one => `${number(one.changes)} of ${number(one.changes_total)}`, isNumber: true}, {title: 'changes/s', of: one => one.changes_per_second, isNumber: true},
      {title: 'seconds left', of: one => one.seconds_left ?? '', isNumber: true},
    ], found.restoring)] : []));
    graph.put({steps: found.steps});
  };
  const failed = error => { situation(error.message, 'bad'); places.problem.replaceChildren(problem(error)); };
  try {
    const [found, drawing] = await Promise.all([ask(base), ask(`${base}/graph`)]);
    graph.put({drawing});
    told(found);
  } catch (error) {
    failed(error);
    if (error.status === 404) return;
  }
  if (!signal) return;
  listen(`${base}/events`, {}, signal, {state: told, problem: failed}, isClosed => situation('The server does not answer.', 'bad'));
  keepAsking(() => ask(`${base}/epochs`, {last: EPOCHS}), 2, signal, found => epochs.put({epochs: found}), () => {});
}

// Links to what the step of a box reads, writes and keeps.
const placesOf = (application, box) => [
  box.topic ? make('p', {}, 'topic ', link(box.topic, 'topics', box.topic)) : null,
  box.id.startsWith('connector:') ? make('p', {}, 'connector ', link(box.id.slice(10), 'connectors', box.id.slice(10))) : null,
  ...box.stores.map(store => make('p', {}, 'store ', link(store, 'applications', application, 'stores', store))),
];
