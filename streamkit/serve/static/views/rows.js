// Rows that move, as texts, below what there is to say of them; with a chart if there is one.
// In the model: `title`, `note`, `facts` (names and texts), `columns`, `rows` (texts), `fresh` (the numbers of rows that are new), `chart` (a drawing), `is_live`.

import {facts, make, table} from '../dom.js';
import {render as renderChart} from './chart.js';

export function render({model, el}) {
  const places = {};
  for (const part of ['heading', 'chart', 'rows', 'note']) places[part] = make('div');
  places.rows.className = 'rows';
  el.classList.add('streamkit');
  el.replaceChildren(...Object.values(places));
  const show = () => {
    const rows = model.get('rows') ?? [], fresh = new Set((model.get('fresh') ?? []).map(at => rows[at]));
    places.heading.replaceChildren(make('strong', {}, model.get('title') ?? ''), facts(model.get('facts') ?? []));
    places.rows.replaceChildren(table((model.get('columns') ?? []).map(({title, isNumber}, at) => ({title, isNumber, of: row => row[at]})),
      rows, {empty: 'No row yet.', kind: row => fresh.has(row) ? 'new' : ''}));
    const note = model.get('note'), situation = model.get('is_live') ? '' : 'No longer kept up. ';
    places.note.replaceChildren(note || situation ? make('p', {class: 'quiet', role: 'status'}, situation, note ?? '') : '');
  };
  renderChart({model, el: places.chart});
  for (const name of ['rows', 'fresh', 'facts', 'columns', 'title', 'note', 'is_live']) model.on(`change:${name}`, show);
  show();
}
