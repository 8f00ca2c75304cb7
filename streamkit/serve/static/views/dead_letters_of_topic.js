// The dead letters of a topic: what was wrong with each, and the record itself.

import {address, link, make, problem, shown, table} from '../dom.js';
import {ask} from '../model.js';

export async function render({model, el, signal, go}) {
  const name = model.get('topic'), query = model.get('query') ?? {}, list = make('div');
  const where = make('input', {class: 'wide', value: query.where ?? '', placeholder: "such as step = 'parse'"});
  el.replaceChildren(make('h1', {}, name), make('p', {}, 'dead letters; the records of the topic are at ', link(name, 'topics', name)),
    make('form', {onsubmit: event => { event.preventDefault(); go(`${address('dead-letters', name)}?${new URLSearchParams(where.value ? {where: where.value} : {})}`, {isSamePage: true}); read(); }},
      make('label', {}, 'where', where), make('button', {type: 'submit'}, 'Show')), list);
  const read = async () => {
    try {
      const found = await ask(`/api/v1/dead-letters/${encodeURIComponent(name)}`, {where: where.value}, {signal});
      const names = [...new Set(found.flatMap(row => Object.keys(row)))];
      list.replaceChildren(table(names.map(title => ({title: title.replaceAll('_', ' '), of: row => shown(row[title]), isValue: true})), found, {empty: 'No dead letter.'}));
    } catch (error) { list.replaceChildren(problem(error)); }
  };
  await read();
}
