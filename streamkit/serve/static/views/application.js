// One application: its graph with what the steps do now, a panel for the step that is chosen, its epochs, inputs, stores and programs.

import {address, bytes, facts, link, make, number, problem, table, time} from '../dom.js';
import {Model, ask, keepAsking} from '../model.js';
import {listen} from '../streams.js';
import {render as renderGraph} from './graph.js';
import {render as renderEpochs} from './epochs.js';
import {state} from './applications.js';
import {addressOfLetters, linkToLetters} from './dead_letters.js';
import {render as renderPrograms} from './programs.js';
import {render as renderStep} from './step.js';

const EPOCHS = 60;

export async function render({model, el, signal, go, situation}) {
  const name = model.get('application'), base = `/api/v1/applications/${encodeURIComponent(name)}`;
  const graph = new Model({chosen: model.get('query')?.step ?? null}), epochs = new Model(), places = {};
  const programs = new Model({chosen: model.get('query')?.program || null});
  for (const part of ['problem', 'facts', 'restoring', 'graph', 'panel', 'epochs', 'inputs', 'stores', 'programs']) places[part] = make('div');
  const panel = make('aside', {class: 'panel', 'aria-label': 'step'}, places.panel);
  el.replaceChildren(make('h1', {}, name), places.problem, places.facts, places.restoring,
    make('h2', {}, 'Steps'), make('div', {class: 'steps'}, places.graph, panel),
    make('h2', {}, 'Epochs'), places.epochs, make('h2', {}, 'Inputs'), places.inputs, make('h2', {}, 'Stores'), places.stores,
    make('h2', {}, 'Programs'), places.programs);
  renderGraph({model: graph, el: places.graph, lettersAt: step => addressOfLetters(name, step)});
  renderEpochs({model: epochs, el: places.epochs});
  renderStep({model: graph, el: places.panel, places: box => placesOf(name, box), lettersOf: (rows, step) => linkToLetters(rows, name, step)});
  const place = (step, program) => {
    const query = new URLSearchParams(Object.entries({step, program}).filter(([, value]) => value));
    return address('applications', name) + (query.size ? `?${query}` : '');
  };
  const stay = () => go(place(graph.get('chosen'), programs.get('chosen')), {isSamePage: true});
  renderPrograms({model: programs, el: places.programs, href: generation => place(graph.get('chosen'), generation)});
  graph.on('change:chosen', () => { stay(); panel.scrollIntoView({block: 'nearest'}); });
  programs.on('change:chosen', () => { stay(); tellChosen(); });
  const tellChosen = async () => {
    const chosen = programs.get('chosen');
    if (!chosen) return;
    const found = await ask(`${base}/programs/${encodeURIComponent(chosen)}`).then(program => ({program, failure: null}), failure => ({program: null, failure}));
    if (programs.get('chosen') === chosen) programs.put(found);
  };
  // A start may have changed the program at once, or with its first commit.
  let start = null;
  const tellPrograms = async found => {
    const seen = `${found.generation} ${found.first_commit_ms === null}`;
    if (seen === start) return;
    start = seen;
    try {
      programs.put({programs: await ask(`${base}/programs`), last: {generation: found.generation, hasCommitted: found.first_commit_ms !== null}});
      await tellChosen();
    } catch (failure) {
      start = null;
      programs.put({failure});
    }
  };
  // Twenty pages that ask for sixty epochs every other second would be a third of the server's work, so a page asks for those since its last look,
  // with room for epochs that are committed meanwhile. The newest epoch that it has comes again, since what its commit took is known only afterwards.
  let newest = 0, shown = [], drawn, isKnown = false;
  const wanted = () => shown.length && newest >= shown.at(-1).epoch ? Math.min(EPOCHS, 2 * (newest - shown.at(-1).epoch) + 4) : EPOCHS;
  const showEpochs = found => {
    const isNext = found.length && shown.some(one => one.epoch === found[0].epoch);
    shown = isNext ? shown.filter(one => one.epoch < found[0].epoch).concat(found).slice(-EPOCHS) : found;
    epochs.put({epochs: shown});
    if (!isNext && found.length < EPOCHS) shown = []; // it has fallen behind, so it asks for all of them again
  };
  const told = found => {
    situation('');
    isKnown = true, newest = found.epochs;
    if (drawn !== found.generation) {
      drawn = found.generation;
      ask(`${base}/graph`).then(drawing => graph.put({drawing}), () => { drawn = undefined; });
    }
    places.problem.replaceChildren();
    const lag = found.inputs.reduce((sum, one) => sum + one.lag, 0);
    places.facts.replaceChildren(facts([
      ['state', make('span', {class: found.running ? 'good' : 'quiet'}, state(found))], ['epochs', found.epochs], ['records that wait', number(lag)],
      ['stream time', time(found.stream_time_ms)], ['generation', found.generation], ['tasks', found.tasks], ['key groups', found.key_groups],
      ['late', number(found.late)], ['without a key', number(found.null_key)], ['errors', found.errors ? linkToLetters(found.errors, name) : number(found.errors)],
    ]));
    places.inputs.replaceChildren(table([
      {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'partition', of: one => String(one.partition), isNumber: true},
      {title: 'next offset', of: one => one.next_offset, isNumber: true}, {title: 'records that wait', of: one => one.lag, isNumber: true},
    ], found.inputs, {empty: 'Nothing has been read yet.'}));
    places.stores.replaceChildren(table([
      {title: 'store', of: one => link(one.store, 'applications', name, 'stores', one.store)},
      {title: 'rows', of: one => one.rows, isNumber: true},
      {title: 'changelog', of: one => link(one.changelog, 'topics', one.changelog)},
      {title: 'records in its changelog', of: one => one.records, isNumber: true}, {title: 'size of its changelog', of: one => bytes(one.bytes), isNumber: true},
    ], found.stores, {empty: 'This application keeps no store.'}));
    places.restoring.replaceChildren(...(found.restoring.length ? [make('h2', {}, 'Restoring'), table([
      {title: 'task', of: one => `${one.task} of ${one.tasks}`}, {title: 'progress', of: one => make('progress', {value: one.changes, max: Math.max(1, one.changes_total)})},
      {title: 'changes', of: one => `${number(one.changes)} of ${number(one.changes_total)}`, isNumber: true}, {title: 'changes/s', of: one => one.changes_per_second, isNumber: true},
      {title: 'seconds left', of: one => one.seconds_left ?? '', isNumber: true},
    ], found.restoring)] : []));
    graph.put({steps: found.steps});
    tellPrograms(found);
  };
  const failed = error => { if (isKnown) situation(error.message, 'bad'); else places.problem.replaceChildren(problem(error)); };
  try {
    told(await ask(base));
  } catch (error) {
    failed(error);
    if (error.status === 404) {
      el.replaceChildren(make('h1', {}, name), problem(error), link('To the applications'));
      return;
    }
  }
  if (!signal) return;
  listen(`${base}/events`, {}, signal, {state: told}, {fail: failed});
  keepAsking(() => ask(`${base}/epochs`, {last: wanted()}), 2, signal, showEpochs, () => {});
}

// Links to what the step of a box reads, writes and keeps.
const placesOf = (application, box) => [
  box.topic ? make('p', {}, 'topic ', link(box.topic, 'topics', box.topic)) : null,
  box.id.startsWith('connector:') ? make('p', {}, 'connector ', link(box.id.slice(10), 'connectors', box.id.slice(10))) : null,
  ...box.stores.map(store => make('p', {}, 'store ', link(store, 'applications', application, 'stores', store))),
];
