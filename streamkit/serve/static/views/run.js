// A run in a notebook: where it stands, its graph with what the steps do now, the step that is chosen, and what its last epochs took.
// In the model: `facts` (names and texts), `note`, `is_live`, what the graph shows (`drawing`, `steps`, `looked_ms`, `chosen`), and `epochs`.

import {facts, make} from '../dom.js';
import {render as renderGraph} from './graph.js';
import {render as renderEpochs} from './epochs.js';
import {render as renderStep} from './step.js';

export function render({model, el}) {
  const places = {};
  for (const part of ['facts', 'note', 'graph', 'step', 'epochs']) places[part] = make('div');
  const epochs = make('details', {}, make('summary', {}, 'Epochs'), places.epochs);
  el.classList.add('streamkit');
  el.replaceChildren(places.facts, places.note, places.graph, make('aside', {class: 'panel', 'aria-label': 'step'}, places.step), epochs);
  renderGraph({model, el: places.graph});
  renderStep({model, el: places.step});
  renderEpochs({model, el: places.epochs});
  const tell = () => {
    places.facts.replaceChildren(facts(model.get('facts') ?? []));
    const note = model.get('note');
    places.note.replaceChildren(note ? make('p', {class: 'quiet', role: 'status'}, note) : '');
  };
  for (const name of ['facts', 'note']) model.on(`change:${name}`, tell);
  tell();
}
