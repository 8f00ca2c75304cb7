// A store: the row of a key, or rows page by page, as they are or as they were; and what became of a key.

import {address, bytes, facts, lineField, link, make, milliseconds, number, problem, shown, table, textIn, timeText, typesOf, valueColumn} from '../dom.js';
import {ask} from '../model.js';

export async function render({model, el, signal, go}) {
  const application = model.get('application'), name = model.get('store'), query = model.get('query') ?? {};
  const base = `/api/v1/applications/${encodeURIComponent(application)}/stores/${encodeURIComponent(name)}`;
  const about = make('div'), form = make('form'), rows = make('div'), note = make('p', {class: 'quiet', role: 'status'}), more = make('button', {type: 'button', hidden: true}, 'Next page');
  el.replaceChildren(make('h1', {}, name), make('p', {}, 'store of ', link(application, 'applications', application)), about);
  let store, cursor = null;
  try {
    store = await ask(base, {}, {signal});
  } catch (error) {
    about.replaceChildren(problem(error));
    return;
  }
  el.append(make('h2', {}, 'Rows'), form, note, rows, more);
  const types = new Map([...typesOf(store.key), ...typesOf(store.columns), ['epoch', 'bigint']]);
  const columns = [...typesOf(store.key)].map(([name, type]) => ({name, type})), names = columns.map(({name}) => name);
  const count = make('span', {class: 'quiet'}, 'counting …');
  ask(`${base}/count`, {}, {signal}).then(found => { count.textContent = number(found.rows); count.className = ''; }, () => { count.textContent = ''; });
  about.replaceChildren(facts([['rows', count], ['key', store.key], ['columns', store.columns], ['window', milliseconds(store.window_size_ms)], ['kept for', milliseconds(store.retention_ms)], ['versions kept for', milliseconds(store.history_ms)],
    ['records in its changelog', number(store.changelog_rows)], ['size of its changelog', bytes(store.changelog_bytes)]]));
  const fields = Object.fromEntries(names.map(column => [column, lineField({name: column, value: query[`key.${column}`] ?? ''})]));
  const nulls = Object.fromEntries(names.length > 1 ? names.map(column => [column, make('input', {type: 'checkbox', 'aria-label': `${column} is null`, checked: Boolean(query[`null.${column}`])})]) : []);
  const start = lineField({name: 'start', value: query.start ?? '', placeholder: 'first'}), end = lineField({name: 'end', value: query.end ?? '', placeholder: 'last'});
  const then = make('input', {name: 'as_of', value: query.as_of ?? '', placeholder: 'now', title: 'the number of an epoch, or a time of the host such as 2026-01-31T12:00:00Z'});
  const validAt = make('input', {name: 'valid_at', value: query.valid_at ?? '', placeholder: 'newest', title: 'an event time such as 2026-01-31T12:00:00Z: the versions that were valid then'});
  const hasVersions = store.history_ms !== null;
  form.append(make('label', {}, 'as of epoch or host time', then), ...(hasVersions ? [make('label', {}, 'valid at event time', validAt)] : []), ...names.map(column => make('div', {class: 'field'}, make('label', {}, column, fields[column]), nulls[column] && make('label', {class: 'beside'}, nulls[column], 'null'))), make('button', {type: 'submit'}, 'Look up'), make('button', {type: 'button', onclick: () => history()}, 'Its history'),
    make('label', {}, 'or from', start), make('label', {}, 'to before', end), make('button', {type: 'button', onclick: () => read(null, true)}, 'List'));
  const isGone = (row, title) => row[GONE] && !names.includes(title);  // a deletion has no values beside the key
  const draw = (found, text, {isListed = false} = {}) => {
    const titles = [...new Set(found.flatMap(row => Object.keys(row)))];
    const column = title => {
      const plain = valueColumn(title, types.get(title), row => row[title]);
      return types.has(title) ? {...plain, of: row => isGone(row, title) ? '' : valueText(row[title], plain.of(row))} : plain;
    };
    const keyColumn = title => ({...column(title), of: row => isShort(row) ? make('a', {href: addressOf(row)}, valueText(row[title])) : valueText(row[title])});
    rows.replaceChildren(table(titles.map(title => isListed && title === names[0] ? keyColumn(title) : column(title)), found, {empty: 'No row.'}));
    note.textContent = text;
  };
  const here = parameters => `${address('applications', application, 'stores', name)}?${new URLSearchParams(parameters)}`;
  const state = parameters => go(here(parameters), {isSamePage: true, replace: isFirst});
  let isFirst = true;  // what the address says when the page is opened is no place of its own
  const failed = error => { note.textContent = ''; more.hidden = true; rows.replaceChildren(problem(error)); };
  // The key of the fields: what the server is asked for, and how the address says it. An empty field is a value only where a column can have it.
  const isThere = ({name, type}) => !nulls[name]?.checked && (textIn(fields[name]) || ['string', 'binary'].includes(type));
  const values = () => Object.fromEntries(columns.filter(isThere).map(({name}) => [`key.${name}`, textIn(fields[name])]));
  const isNull = names => names.filter(column => nulls[column]?.checked);
  const key = () => ({...values(), null: isNull(names)});
  const keyState = () => ({...values(), ...Object.fromEntries(isNull(names).map(column => [`null.${column}`, 'true']))});
  const addressOf = row => here({...Object.fromEntries(names.filter(column => column in row).map(column => row[column] === null ? [`null.${column}`, 'true'] : [`key.${column}`, row[column]])), ...moment()});
  const isShort = row => names.every(column => String(row[column] ?? '').length <= KEY_SHOWN);
  const moment = () => Object.fromEntries([then, ...(hasVersions ? [validAt] : [])].map(input => [input.name, input.value.trim()]).filter(([, value]) => value));
  // What was asked for last is shown, also where an earlier answer takes longer.
  let asked = 0;
  const answer = async (path, parameters, show) => {
    const turn = ++asked;
    try {
      const found = await ask(path, parameters, {signal});
      if (turn === asked) show(found);
    } catch (error) { if (turn === asked) failed(error); }
  };
  const lookUp = async () => {
    state({...keyState(), ...moment()});
    more.hidden = true;
    await answer(base, {...key(), ...moment()}, found => {
      draw(found.rows, `${number(found.rows.length)} row${found.rows.length === 1 ? '' : 's'} of this key.`);
    });
  };
  const history = async (limit = null) => {
    state({...keyState(), history: 'true'});
    more.hidden = true;
    note.textContent = 'Reading its changes …';
    rows.replaceChildren();
    await answer(`${base}/history`, {...key(), limit}, found => {
      const changes = found.changes.map(({epoch, committed_at, is_deleted, ...row}) => ({epoch: epoch ?? 'forgotten', committed: timeText(committed_at), what: is_deleted ? 'deleted' : 'written', ...row, [GONE]: is_deleted}));
      const which = found.is_complete ? `${number(changes.length)} change${changes.length === 1 ? '' : 's'} of this key` : `The newest ${number(changes.length)} changes of this key`;
      draw(changes, `${which}, oldest first; ${found.is_complete ? 'compaction leaves the newest one of each row' : 'there are earlier ones'}.`);
      more.hidden = found.is_complete || limit === CHANGES_MOST;
      more.textContent = 'Earlier changes', more.onclick = () => history(CHANGES_MOST);
    });
  };
  const read = async (after = null, isAsked = false) => {
    const wanted = {start: textIn(start), end: textIn(end), ...moment()};
    if (isAsked) state(Object.fromEntries(Object.entries({...wanted, cursor: after}).filter(([, value]) => value)));
    await answer(`${base}/rows`, {...wanted, cursor: after}, page => {
      cursor = page.cursor, more.hidden = !cursor, more.textContent = 'Next page', more.onclick = () => read(cursor, true);
      draw(page.rows, `${number(page.rows.length)} rows${cursor ? '; there are more' : ''}.`, {isListed: true});
    });
  };
  form.onsubmit = event => { event.preventDefault(); lookUp(); };
  const first = query.history ? history() : names.some(column => `key.${column}` in query || nulls[column]?.checked) ? lookUp() : read(query.cursor ?? null);
  isFirst = false;  // each has said its address before it waits
  await first;
}

const CHANGES_MOST = 10_000;  // as many rows as an answer may have
const GONE = Symbol('gone');  // says of a change in a history that the row was deleted
const KEY_SHOWN = 1000;  // characters of a value of a key that is a link

// A value as a text: null, and an empty text or empty bytes, in words.
const valueText = (value, text = shown(value)) => value === null ? make('i', {}, 'null') : value === '' ? make('i', {}, 'empty') : text;
