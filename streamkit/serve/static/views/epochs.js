// The last epochs: what each took, as bars, and in a table. In the model: `epochs`, oldest first, as the server's /epochs gives them.

import {make, milliseconds, number, table, timeText} from '../dom.js';

const ROWS = 12;
const PHASES = {plan: 'planning', tasks: 'processing', commit: 'commit'};  // by the field that says how long each took

export function render({model, el}) {
  const show = () => {
    const epochs = model.get('epochs') ?? [];
    if (!epochs.length) {
      el.replaceChildren(make('p', {class: 'quiet'}, model.get('epochs') ? 'No epoch has been committed yet.' : 'Asking for the last epochs …'));
      return;
    }
    const most = Math.max(...epochs.map(took), 1e-9);
    const bars = make('div', {class: 'bars', role: 'img', 'aria-label': `what the last ${epochs.length} epochs took, at most ${milliseconds(most)}`},
      epochs.map(one => {
        const bar = make('div', {class: 'bar', title: `epoch ${one.epoch}: ${milliseconds(took(one))}, ${number(one.records)} records`});
        for (const phase of Object.keys(PHASES)) {
          const part = make('div', {class: phase});
          part.style.height = `${78 * (one[`${phase}_ms`] ?? 0) / most}px`;
          bar.append(part);
        }
        return bar;
      }));
    const legend = make('div', {class: 'legend'}, Object.entries(PHASES).map(([phase, word]) => make('span', {}, make('i', {class: phase}), word)), make('span', {}, `highest: ${milliseconds(most)}`));
    el.replaceChildren(bars, legend, table([
      {title: 'epoch', of: one => String(one.epoch), isNumber: true},
      {title: 'planned at', of: one => timeText(one.time)},
      {title: 'records', of: one => one.records, isNumber: true},
      {title: 'waited behind it', of: one => sum(one.lag), isNumber: true},
      ...Object.entries(PHASES).map(([phase, title]) => ({title, of: one => milliseconds(one[`${phase}_ms`]), isNumber: true})),
      {title: 'slowest task', of: one => milliseconds(one.slowest_task_ms), isNumber: true},
      {title: 'mean task', of: one => milliseconds(one.mean_task_ms), isNumber: true},
      {title: 'oldest record since arrival', of: one => milliseconds(one.oldest_since_arrival_ms), isNumber: true},
      {title: 'late', of: one => one.late, isNumber: true},
    ], epochs.slice(-ROWS).reverse()));
  };
  model.on('change:epochs', show);
  show();
}

const took = one => Object.keys(PHASES).reduce((all, phase) => all + (one[`${phase}_ms`] ?? 0), 0);
const sum = counts => Object.values(counts ?? {}).reduce((all, count) => all + count, 0);
