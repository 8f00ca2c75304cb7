// A store: the row of a key, or rows page by page, as they are or as they were; and what became of a key.

import {address, bytes, facts, link, make, milliseconds, number, problem, shown, table, timeText} from '../dom.js';
import {ask} from '../model.js';

export async function render({model, el, signal, go}) {
  const application = model.get('application'), name = model.get('store'), query = model.get('query') ?? {};
  const base = `/api/v1/applications/${encodeURIComponent(application)}/stores/${encodeURIComponent(name)}`;
  const about = make('div'), form = make('form'), rows = make('div'), note = make('p', {class: 'quiet', role: 'status'}), more = make('button', {type: 'button', hidden: true}, 'Next page');
  el.replaceChildren(make('h1', {}, name), make('p', {}, 'store of ', link(application, 'applications', application)), about, make('h2', {}, 'Rows'), form, note, rows, more);
  let store, cursor = null;
  try {
    store = await ask(base, {}, {signal});
  } catch (error) {
    about.replaceChildren(problem(error));
    return;
  }
  const names = columnsOf(store.key);
  const count = make('span', {class: 'quiet'}, 'counting …');
  ask(`${base}/count`, {}, {signal}).then(found => { count.textContent = number(found.rows); count.className = ''; }, () => { count.textContent = ''; });
  about.replaceChildren(facts([['rows', count], ['key', store.key], ['columns', store.columns], ['window', milliseconds(store.window_size_ms)], ['kept for', milliseconds(store.retention_ms)],
    ['records in its changelog', number(store.changelog_rows)], ['size of its changelog', bytes(store.changelog_bytes)]]));
  const fields = Object.fromEntries(names.map(column => [column, make('input', {name: column, value: query[`key.${column}`] ?? ''})]));
  const start = make('input', {name: 'start', value: query.start ?? '', placeholder: 'first'}), end = make('input', {name: 'end', value: query.end ?? '', placeholder: 'last'});
  const then = make('input', {name: 'as_of', value: query.as_of ?? '', placeholder: 'now', title: 'the number of an epoch, or a time such as 2026-01-31T12:00:00Z'});
  form.append(make('label', {}, 'as of epoch or time', then), ...names.map(column => make('label', {}, column, fields[column])), make('button', {type: 'submit'}, 'Look up'), make('button', {type: 'button', onclick: () => history()}, 'Its history'),
    make('label', {}, 'or from', start), make('label', {}, 'to before', end), make('button', {type: 'button', onclick: () => read(null, true)}, 'List'));
  const draw = (found, text) => {
    const columns = [...new Set(found.flatMap(row => Object.keys(row)))];
    rows.replaceChildren(table(columns.map(title => ({title, of: row => shown(row[title]), isValue: true})), found, {empty: 'No row.'}));
    note.textContent = text;
  };
  const state = parameters => go(`${address('applications', application, 'stores', name)}?${new URLSearchParams(parameters)}`, {replace: true, isSamePage: true});
  const failed = error => { note.textContent = ''; more.hidden = true; rows.replaceChildren(problem(error)); };
  const key = () => Object.fromEntries(names.map(column => [`key.${column}`, fields[column].value]));
  const moment = () => then.value.trim() ? {as_of: then.value.trim()} : {};
  const lookUp = async () => {
    state({...key(), ...moment()});
    more.hidden = true;
    try {
      const found = await ask(base, {...key(), ...moment()}, {signal});
      draw(found.rows, `${number(found.rows.length)} row${found.rows.length === 1 ? '' : 's'} of this key.`);
    } catch (error) { failed(error); }
  };
  const history = async () => {
    state({...key(), history: 'true'});
    more.hidden = true;
    try {
      const found = await ask(`${base}/history`, key(), {signal});
      const changes = found.changes.map(({epoch, committed_at, is_deleted, ...row}) => ({epoch: epoch ?? 'forgotten', committed: timeText(committed_at), what: is_deleted ? 'deleted' : '', ...row}));
      draw(changes, `${number(changes.length)} change${changes.length === 1 ? '' : 's'} of this key, oldest first; compaction leaves the newest one of each row.`);
    } catch (error) { failed(error); }
  };
  const read = async (after = null, isAsked = false) => {
    const wanted = {start: start.value, end: end.value, ...moment()};
    if (isAsked) state(Object.fromEntries(Object.entries(wanted).filter(([, value]) => value)));
    try {
      const page = await ask(`${base}/rows`, {...wanted, cursor: after}, {signal});
      cursor = page.cursor, more.hidden = !cursor;
      draw(page.rows, `${number(page.rows.length)} rows${cursor ? '; there are more' : ''}.`);
    } catch (error) { failed(error); }
  };
  form.onsubmit = event => { event.preventDefault(); lookUp(); };
  more.onclick = () => read(cursor);
  await (query.history ? history() : names.some(column => fields[column].value) ? lookUp() : read());
}

// The names of the columns that a schema in Spark's words has, such as `a int, b map<string, int>`.
export function columnsOf(schema) {
  const names = [];
  let depth = 0, start = 0;
  const take = end => {
    const text = schema.slice(start, end).trim();
    if (text) names.push(text.startsWith('`') ? text.slice(1, text.indexOf('`', 1)) : text.split(/\s/)[0]);
    start = end + 1;
  };
  for (let at = 0; at < schema.length; at++) {
    if ('<('.includes(schema[at])) depth++;
    if ('>)'.includes(schema[at])) depth--;
    if (schema[at] === ',' && !depth) take(at);
  }
  take(schema.length);
  return names;
}
