// The step that is chosen in a graph: what its box does, its totals, and what it left out.
// In the model: `drawing`, `steps` and `chosen`, as the graph has them. `places` gives elements to put behind what the box does, `lettersOf` what shows
// so many records that failed at a step.

import {facts, make, milliseconds, number, table} from '../dom.js';

export const FAILED = 'error';  // how records are counted at which a step failed

export function render({model, el, places = () => [], lettersOf = rows => rows}) {
  const show = () => el.replaceChildren(...(stepOf(model, places, lettersOf) ?? [make('p', {class: 'quiet'}, 'Choose a box to see what its step has done.')]));
  for (const name of ['chosen', 'steps', 'drawing']) model.on(`change:${name}`, show);
  show();
}

// Elements that say so; null if no box is chosen.
function stepOf(model, places, lettersOf) {
  const chosen = model.get('chosen'), box = model.get('drawing')?.boxes.find(one => one.id === chosen);
  if (!box) return null;
  const steps = (model.get('steps') ?? []).filter(one => box.steps.includes(one.step));
  const counts = steps.flatMap(one => Object.entries(one.counts).map(([reason, rows]) => ({step: one.step, reason, rows})));
  return [
    make('h2', {}, box.id), make('pre', {}, told(box)), box.line ? make('p', {class: 'quiet'}, `declared at ${box.line}`) : null,
    ...places(box),
    facts([['rows in', number(steps.reduce((sum, one) => sum + one.rows_in, 0))], ['rows out', number(steps.reduce((sum, one) => sum + one.rows_out, 0))],
      ['busy', milliseconds(steps.reduce((sum, one) => sum + one.busy_us, 0) / 1000)]]),
    counts.length ? table([{title: 'counted as', of: one => one.reason.replace('_', ' ')}, {title: 'rows', of: one => one.reason === FAILED ? lettersOf(one.rows, one.step) : one.rows, isNumber: true}], counts) : null,
    make('p', {class: 'quiet'}, 'Since the first start of the application.'),
  ].filter(Boolean);
}

// What a box does, without the exchanges on the way.
const told = box => (box.note || '').split('\n').filter(line => !/^(send|receive): /.test(line)).join('\n');
