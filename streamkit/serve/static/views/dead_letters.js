// Records that could not be processed, counted by topic, step and error: all of them, or those of an application, of a step of it, or of a connector.

import {address, link, make, number, problem, shown, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const NUMBERS = ['records', 'replayed'];
const TITLES = {operator: 'step', replayed: 'sent again'};  // as on the page of a topic
const text = value => `'${value.replaceAll("'", "''")}'`;

// The address of the dead letters of an application, or of a step of it.
export const addressOfLetters = (application, operator) => `/dead-letters?${new URLSearchParams({application, ...(operator ? {operator} : {})})}`;

// So many records that failed, as a link to their dead letters.
export const linkToLetters = (count, application, operator) =>
  make('a', {class: 'warn', href: addressOfLetters(application, operator), title: 'their dead letters'}, number(count));

export function render({model, el, signal, situation}) {
  const {application, operator, connector} = model.get('query') ?? {}, owner = application ?? connector;
  // The letters of a step are some of its topic; those of a connector have no columns to tell them by.
  const lettersOf = one => application
    ? make('a', {href: `${address('dead-letters', one.topic)}?${new URLSearchParams({where: `application = ${text(one.application)} and operator = ${text(one.operator)}`})}`}, one.topic)
    : link(one.topic, 'dead-letters', one.topic);
  const draw = () => {
    const all = model.get('counts');
    if (!all) return;
    const found = all.filter(one => (!owner || one.application === owner) && (!operator || one.operator === operator));
    const names = [...new Set(all.flatMap(row => Object.keys(row)))].filter(name => name !== 'topic');
    const empty = owner ? 'There are none: only a step or a connector that sends records which fail to a topic leaves dead letters.'
      : 'There are none: each record was processed, or no step sends those that fail to a topic.';
    el.replaceChildren(make('h1', {}, 'Dead letters'),
      owner ? make('p', {}, operator ? `Those of the step ${operator} of ${owner}. ` : `Those of ${owner}. `, link('Show all', 'dead-letters')) : '', table([
        {title: 'topic', of: lettersOf},
        ...names.map(name => ({title: TITLES[name] ?? name.replaceAll('_', ' '), of: one => NUMBERS.includes(name) ? one[name] : shown(one[name]), isNumber: NUMBERS.includes(name)})),
      ], found, {empty}));
  };
  model.on('change:counts', draw);
  if (signal) {
    keepAsking(() => ask('/api/v1/dead-letters'), 5, signal, counts => { situation(''); model.put({counts}); },
      error => { if (model.get('counts')) situation(error.message, 'bad'); else el.replaceChildren(problem(error)); });
  }
}
