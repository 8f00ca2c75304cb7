// One topic: what it is, and its records: a page of them from an offset or a time on, those for which a condition holds, or what comes.

import {address, bytes, facts, lineField, link, make, number, problem, shown, table, textIn, timeText, typesOf, valueColumn} from '../dom.js';
import {ask, keepAsking} from '../model.js';
import {listen} from '../streams.js';

const KEPT = 200; // rows of the live tail
const ABOUT_SECONDS = 5; // how old the figures of the topic may be while it is watched
const OWN = ['_timestamp', '_partition', '_offset', '_deleted', '_headers'];

export async function render({model, el, signal, go, situation}) {
  const name = model.get('topic'), base = `/api/v1/topics/${encodeURIComponent(name)}`, query = model.get('query') ?? {};
  const about = make('div'), known = make('div'), records = make('div', {class: 'records'}), note = make('p', {class: 'quiet', role: 'status'});
  const fields = {
    where: lineField({class: 'wide', name: 'where', placeholder: "such as amount > 10 and city = 'Rome'", value: query.where ?? ''}),
    time: make('input', {name: 'time', placeholder: '2026-01-31T12:00Z', value: query.time ?? ''}),
    offset: make('input', {name: 'offset', placeholder: 'earliest', title: 'earliest, latest, or a number', value: query.offset ?? '', size: 12}),
    partition: make('input', {name: 'partition', placeholder: 'all', value: query.partition ?? '', size: 5}),
    limit: make('select', {name: 'limit'}, [20, 100, 500].map(count => make('option', {value: count, selected: String(count) === (query.limit ?? '100')}, String(count)))),
  };
  const isLive = make('input', {type: 'checkbox', checked: query.live === 'true'}), pause = make('button', {type: 'button', hidden: true}, 'Pause');
  const more = make('button', {type: 'button', hidden: true}, 'Next page');
  let leaving = null, cursor = null, isPaused = false, rows = null, kept = new Set(), types = new Map();
  let description = null, isRefused = false;  // whether the tail was refused, so that what is shown is old

  const chosen = () => Object.fromEntries(Object.entries(fields).map(([field, input]) => [field, textIn(input).trim()]).filter(([, value]) => value));
  const state = (after = null) => {
    const parameters = new URLSearchParams({...chosen(), ...(after ? {cursor: after} : {})});
    if (isLive.checked) parameters.set('live', 'true');
    return `${address('topics', name)}?${parameters}`;
  };
  const failed = error => { note.textContent = ''; rows = null; records.replaceChildren(problem(error)); };
  const drawRows = () => { if (rows && !isPaused) records.replaceChildren(recordTable(rows, kept, types)); };
  const read = async (after = null) => {
    leaving?.abort();
    leaving = new AbortController();
    pause.hidden = !isLive.checked, isPaused = false;
    more.hidden = true;
    if (isLive.checked) {
      tail(leaving.signal);
      return;
    }
    ask(base, {}, {signal: leaving.signal}).then(described, notDescribed);
    note.textContent = 'Reading …';
    try {
      const {time, offset, ...others} = chosen();
      const page = await ask(`${base}/records`, after ? {...others, cursor: after} : chosen(), {signal: leaving.signal});
      rows = page.records, kept = new Set(), cursor = page.cursor;
      more.hidden = page.is_complete;
      note.textContent = `${number(rows.length)} record${rows.length === 1 ? '' : 's'}${page.is_complete ? '' : '; there are more to read'}.${page.note ? ` ${page.note}.` : ''}`;
      drawRows();
    } catch (error) {
      if (error.name !== 'AbortError') failed(error);
    }
  };
  const described = found => {
    if (!isRefused) situation('');
    if (JSON.stringify(found) === description) return;  // so that what is marked in it stays so
    const isOpen = about.querySelector('details')?.open ?? false, before = types;
    about.replaceChildren(...descriptionOf(found, isOpen));
    description = JSON.stringify(found), types = typesOf(found.schema ?? ''), known.hidden = false;
    if (JSON.stringify([...types]) !== JSON.stringify([...before])) drawRows();  // which may have come before their types
  };
  // Why there is no topic to show is said once, in place of all the rest; of one that has gone meanwhile the header says it.
  const notDescribed = error => {
    if (description || error.name === 'AbortError') return;
    known.hidden = true;
    about.replaceChildren(problem(error), link('To the topics', 'topics'));
  };
  const tail = own => {
    rows = [], kept = new Set(), isRefused = false, pause.textContent = 'Pause';
    note.textContent = 'Connecting …';
    drawRows();
    let skipped = 0, why = '', seen = 0, before = '';
    const say = () => { note.textContent = `${before}${number(seen)} record${seen === 1 ? '' : 's'} since this page was opened${seen > KEPT ? `, of which the newest ${KEPT} are shown` : ''}${skipped ? `; ${number(skipped)} are left out: ${why}` : ''}${isPaused ? '; paused, and they are shown once you go on' : ''}.`; };
    pause.onclick = () => {
      isPaused = !isPaused, pause.textContent = isPaused ? 'Go on' : 'Pause';
      if (isPaused) kept = new Set();
      drawRows();  // also those that came meanwhile
      say();
    };
    const {limit, time: _, offset: __, ...wanted} = chosen();
    listen(`${base}/records`, {...wanted, limit: KEPT}, own, {
      records: found => {
        const came = found.records ?? found;
        seen += came.length;
        situation('');  // what is shown is of now
        const fresh = new Set(came);
        rows = newestFirst(came).concat(rows).slice(0, KEPT), kept = new Set(rows.filter(row => fresh.has(row) || isPaused && kept.has(row)));
        drawRows();
        say();
      },
      skipped: found => { skipped += found.records ?? 0, why = found.why; say(); },
    }, {
      hasCursor: true, newest: {offset: -KEPT},
      begun: () => { isRefused = false; situation(''); if (!seen) note.textContent = `${before}Waiting for records …`; },
      fail: (error, isEnd) => {
        if (isEnd) { failed(error); return; }
        isRefused = true;
        if (description) situation(error.message, 'bad');
      },
      anew: () => {
        rows = [], kept = new Set(), skipped = 0, seen = 0, before = 'The topic was made again, or the log is another one or an older copy; the newest records are shown. ';
        drawRows();
        ask(base, {}, {signal: own}).then(described, notDescribed);
      },
    });
    keepAsking(() => ask(base, {}, {signal: own}), ABOUT_SECONDS, own, described, notDescribed);
  };
  more.onclick = () => { go(state(cursor), {isSamePage: true}); read(cursor); };
  isLive.onchange = () => { go(state(), {isSamePage: true}); read(); };
  const form = make('form', {onsubmit: event => { event.preventDefault(); go(state(), {isSamePage: true}); read(); }},
    make('label', {}, 'where', fields.where), make('label', {}, 'from time', fields.time), make('label', {}, 'from offset', fields.offset),
    make('label', {}, 'partition', fields.partition), make('label', {}, 'rows', fields.limit), make('button', {type: 'submit'}, 'Show'),
    make('label', {class: 'beside'}, isLive, 'live'), pause);
  known.append(make('h2', {}, 'Records'), form, note, records, more);
  el.replaceChildren(make('h1', {}, name), about, known);
  signal?.addEventListener('abort', () => leaving?.abort());
  await read(query.cursor ?? null);
}

function descriptionOf(found, isOpen) {
  const config = Object.entries(found.config ?? {}).map(([setting, value]) => ({setting, value}));
  return [
    facts([['key', found.key.join(', ')], ['event time', found.timestamp], ['format', found.format], ['records', number(found.rows)], ['size', bytes(found.bytes)],
      ['partitions', found.partitions.length], ['schema', found.schema], ['version of the schema', found.version]]),
    config.length ? make('details', {open: isOpen}, make('summary', {}, 'Settings'), table([{title: 'setting', of: one => one.setting}, {title: 'value', of: one => shown(one.value), isValue: true}], config)) : '',
  ];
}

// As texts without their zone, times are in order: a text of a whole second is the beginning of those of its fractions.
const moment = row => String(row._timestamp).replace(/Z$/, '');
const newestFirst = rows => [...rows].sort((one, other) => (moment(one) < moment(other)) - (moment(other) < moment(one)) || other._offset - one._offset);

function recordTable(rows, fresh, types) {
  const names = [...new Set(rows.flatMap(row => Object.keys(row)))].filter(name => !OWN.includes(name));
  return table([
    {title: 'partition', of: row => shown(row._partition), isValue: true, isNumber: true}, {title: 'offset', of: row => shown(row._offset), isValue: true, isNumber: true},
    {title: 'event time', of: row => timeText(row._timestamp), isValue: true},
    ...names.map(name => valueColumn(name, types.get(name), row => row[name])),
    ...(rows.some(row => row._deleted) ? [{title: 'deleted', of: row => row._deleted ? 'yes' : ''}] : []),
  ], rows, {empty: 'No record.', kind: row => fresh.has(row) ? 'new' : ''});
}
