// SQL: a text with completion and its faults marked; what its statements gave, rows as they come; streams, tables and queries beside it.

import {link, make, number, problem, shown, table} from '../dom.js';
import {aboutServer, change, changeButton} from '../changing.js';
import {ask, keepAsking} from '../model.js';
import {listen} from '../streams.js';

const KEPT = 200;  // rows of a query that goes on
const EXAMPLE = 'SELECT * FROM … WHERE … LIMIT 20';
const STATES = {RUNNING: 'good', ERROR: 'bad', PAUSED: 'warn', WAITING: 'quiet'};
const charactersIn = text => [...text].length;  // as the server counts places; a browser counts 😁 twice
const unitsOf = (text, characters) => [...text].slice(0, characters).join('').length;
const post = (path, fields) => change(`/api/v1/sql/${path}`, fields);

export async function render({model, el, signal, go, situation}) {
  const query = model.get('query') ?? {}, own = await aboutServer().then(found => found.sql_dialect, () => 'spark');
  if (signal?.aborted) return;
  const results = make('div', {class: 'results'}), sources = make('div'), queries = make('div');
  const dialect = make('select', {name: 'dialect'}, ['spark', 'ksql'].map(name => make('option', {value: name, selected: name === (query.dialect ?? own)}, name)));
  const begin = make('input', {type: 'checkbox', checked: query.offset_reset === 'earliest'});
  const fields = () => ({text: editor.text(), dialect: dialect.value});
  const editor = textWithFaults(query.text ?? '', fields, () => execute());
  const stop = make('button', {type: 'button', hidden: true}, 'Stop');
  let reading = null;  // of a query that goes on
  let turns = 0;

  const state = run => `/sql?${new URLSearchParams({text: editor.text(), ...(dialect.value === own ? {} : {dialect: dialect.value}),
    ...(begin.checked ? {offset_reset: 'earliest'} : {}), ...(run ? {run: 'true'} : {})})}`;
  const execute = async (onlyAsks = false) => {
    const turn = ++turns, isOver = () => turn !== turns || signal?.aborted;  // another one was asked for, or the page was left
    reading?.abort();
    stop.hidden = true;
    if (!editor.text().trim()) return;
    go(state(true), {isSamePage: true, replace: onlyAsks});
    results.replaceChildren(make('p', {class: 'quiet', role: 'status'}, 'Working …'));
    try {
      const found = await post('statements', {...fields(), only_asks: onlyAsks});
      if (isOver()) return;
      editor.judge([]);
      if (found.some(one => one.waits)) results.replaceChildren(make('p', {class: 'quiet', role: 'status'}, 'These statements change something, so they wait for Run.'));
      else if (found.some(one => one.goes_on)) live();
      else results.replaceChildren(...found.flatMap(resultOf));
      look().then(told, () => {});
    } catch (error) {
      if (isOver()) return;
      editor.judge(error.faults ?? []);
      results.replaceChildren(faultsOf(error, editor));
    }
  };
  const live = () => {
    reading = new AbortController();
    stop.hidden = false;
    liveRows({place: results, stop, signal: reading.signal, situation, close: () => { reading.abort(); stop.hidden = true; },
      parameters: {...fields(), offset_reset: begin.checked ? 'earliest' : null}});
  };
  stop.onclick = () => { reading?.abort(); stop.hidden = true; results.querySelector('.note')?.append(' Stopped.'); };
  signal?.addEventListener('abort', () => reading?.abort());
  const controls = make('form', {onsubmit: event => { event.preventDefault(); execute(); }}, make('button', {type: 'submit', title: 'Ctrl-Enter'}, 'Run'), stop,
    make('label', {class: 'beside'}, 'dialect', dialect), make('label', {class: 'beside'}, begin, 'streams from their beginnings'));
  const choose = text => { editor.put(text); execute(); };
  el.replaceChildren(make('h1', {}, 'SQL'), make('div', {class: 'split'},
    make('div', {}, editor.element, controls, results),
    make('div', {class: 'beside'}, make('h2', {}, 'Streams and tables'), sources, make('h2', {}, 'Queries'), queries)));
  const look = async () => Object.fromEntries(await Promise.all([['sources', `?dialect=${dialect.value}`], ['queries', '']].map(
    async ([what, asked]) => [what, await ask(`/api/v1/sql/${what}${asked}`)])));
  const told = found => {
    situation?.('');
    if (JSON.stringify(found) === model.get('known')) return;  // so that a button keeps the focus
    model.put({known: JSON.stringify(found)});
    sources.replaceChildren(sourceTable(found.sources, choose));
    queries.replaceChildren(queryTable(found.queries, choose, () => look().then(told)));
  };
  if (signal) keepAsking(look, 3, signal, told, error => situation(error.message, 'bad'));
  dialect.onchange = () => { go(state(false), {isSamePage: true, replace: true}); editor.check(); look().then(told, () => {}); };
  if (query.run) await execute(true);
  else editor.check();
  editor.area.focus();
}

// A text area above a copy of its text, in which what is wrong is marked; with words that may follow below it.
function textWithFaults(text, fields, run) {
  const area = make('textarea', {name: 'text', rows: 8, spellcheck: 'false', placeholder: EXAMPLE, 'aria-label': 'statements', autocomplete: 'off', 'aria-controls': 'sql-words'});
  area.value = text;
  const marks = make('pre', {'aria-hidden': 'true', class: 'marks'}), said = make('p', {class: 'quiet said', role: 'status'});
  const words = make('ul', {class: 'words', id: 'sql-words', role: 'listbox', hidden: true});
  let asking = 0, checking = 0, timer, offered = [], chosen = 0, judged = [];  // each on its own: words may come later than the next check begins
  const mark = faults => {
    const parts = [], value = area.value;
    let at = 0;
    for (const fault of faults.filter(one => one.start !== undefined).sort((one, other) => one.start - other.start)) {
      const start = unitsOf(value, fault.start), behind = unitsOf(value, Math.max(fault.end, fault.start + 1));
      if (start < at) continue;
      parts.push(value.slice(at, start), make('mark', {}, value.slice(start, behind) || ' '));
      at = behind;
    }
    marks.replaceChildren(...parts, value.slice(at), '\n');
    const others = faults.filter(one => !judged.includes(one.message));  // those that a run has found are shown below already
    said.textContent = others.length ? `line ${others[0].line}:${others[0].column}: ${others[0].message}` : '';
  };
  const check = async () => {
    const turn = ++checking;
    try {
      const faults = area.value.trim() ? await post('faults', fields()) : [];
      if (turn === checking) mark(faults);
    } catch { /* the server is away, which the page says */ }
  };
  const close = () => { words.hidden = true; offered = []; area.removeAttribute('aria-activedescendant'); };
  const offer = async () => {
    const place = area.selectionStart, turn = ++asking;
    try {
      const before = area.value.slice(0, place), found = await post('words', {...fields(), place: charactersIn(before)});
      const typed = begun => [...before].slice(charactersIn(before) - begun).join('').length;
      if (turn === asking && place === area.selectionStart) draw(found.map(one => ({...one, begun: typed(one.begun)})), 0);
    } catch { close(); }
  };
  const draw = (found, which) => {
    offered = found, chosen = which;
    words.hidden = !found.length;
    words.replaceChildren(...found.map((one, at) => make('li', {role: 'option', id: `word-${at}`, 'aria-selected': String(at === chosen), onmousedown: event => { event.preventDefault(); take(one); }},
      one.text, make('span', {class: 'quiet'}, one.kind))));
    if (found.length) area.setAttribute('aria-activedescendant', `word-${chosen}`);
    if (found.length) lay(area.selectionStart - found[0].begun, area.selectionStart);
    words.children[chosen]?.scrollIntoView({block: 'nearest'});
  };
  // Below the word that is being typed, which is at the same place in the copy of the text.
  const lay = (from, end) => {
    const texts = document.createTreeWalker(marks, NodeFilter.SHOW_TEXT), range = document.createRange();
    let isBegun = false;
    for (let node = texts.nextNode(), at = 0; node; at += node.length, node = texts.nextNode()) {
      if (!isBegun && from <= at + node.length) { isBegun = true; range.setStart(node, from - at); }
      if (end <= at + node.length) { range.setEnd(node, end - at); break; }
    }
    const word = range.getBoundingClientRect(), all = words.offsetParent.getBoundingClientRect();
    words.style.left = `${Math.max(0, Math.min(word.left - all.left, all.width - words.offsetWidth))}px`;
    words.style.top = word.height ? `${word.bottom - all.top + 2}px` : '';
  };
  const take = word => {
    const end = area.selectionStart;
    area.setRangeText(word.text, end - word.begun, end, 'end');
    close();
    changed();
  };
  const changed = () => {
    ++checking;
    mark([]);
    clearTimeout(timer);
    timer = setTimeout(check, 300);
  };
  area.addEventListener('input', () => {
    changed();
    if (/[\w.]$/.test(area.value.slice(0, area.selectionStart))) offer();
    else close();
  });
  area.addEventListener('scroll', () => { marks.scrollTop = area.scrollTop; });
  area.addEventListener('blur', close);
  area.addEventListener('keydown', event => {
    if (event.key === 'Enter' && event.ctrlKey) { event.preventDefault(); ++asking; close(); run(); }  // words that were asked for come too late
    else if (event.key === ' ' && event.ctrlKey) { event.preventDefault(); offer(); }
    else if (words.hidden) return;
    else if (event.key === 'Escape') close();
    else if (event.key === 'Tab') { event.preventDefault(); take(offered[chosen]); }
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      draw(offered, (chosen + (event.key === 'ArrowDown' ? 1 : offered.length - 1)) % offered.length);
    }
  });
  const element = make('div', {}, make('div', {class: 'editor'}, marks, area, words), said,
    make('p', {class: 'quiet keys'}, 'Ctrl-Enter runs; Ctrl-Space offers words, Tab accepts one.'));
  mark([]);
  const judge = faults => { clearTimeout(timer); ++asking; ++checking; judged = faults.map(one => one.message); mark(faults); };  // who executes a text knows more than its reader
  return {area, element, judge, check, text: () => area.value, put: value => { area.value = value; changed(); },
    show: ({start, end}) => { area.focus(); area.setSelectionRange(unitsOf(area.value, start), unitsOf(area.value, Math.max(end, start + 1))); }};
}

// What is wrong, each with a button that leads to its place in the text.
function faultsOf(error, editor) {
  const places = (error.faults ?? []).filter(one => one.start !== undefined);
  if (!places.length) return problem(error);
  return make('div', {class: 'problem', role: 'alert'}, places.map(one => make('p', {},
    make('button', {type: 'button', class: 'more', onclick: () => editor.show(one)}, `line ${one.line}:${one.column}`), one.message)));
}

const rowTable = (columns, rows, options) => table(columns.map(({name, is_number}, at) => ({title: name, isNumber: is_number, isValue: !is_number, of: row => shown(row[at])})), rows, options);

function resultOf({statement, message, columns, rows, total}) {
  const head = make('p', {class: 'quiet statement'}, statement);
  if (message) return [head, make('p', {role: 'status'}, message)];
  const count = `${number(total)} row${total === 1 ? '' : 's'}${total > rows.length ? `, of which the first ${number(rows.length)} are shown` : ''}.`;
  return [head, rowTable(columns, rows, {empty: 'No row.'}), make('p', {class: 'quiet', role: 'status'}, count)];
}

// Rows of a query that goes on, newest first, until it ends.
function liveRows({place, signal, situation, close, parameters}) {
  const note = make('p', {class: 'quiet note', role: 'status'}, 'Waiting for rows …'), list = make('div');
  let columns = [], rows = [], fresh = new Set(), seen = 0, waits = false;
  place.replaceChildren(make('p', {class: 'quiet statement'}, parameters.text), note, list);
  const draw = () => {
    waits = false;
    list.replaceChildren(rowTable(columns, rows, {empty: 'No row yet.', kind: row => fresh.has(row) ? 'new' : ''}));
    note.textContent = `${number(seen)} row${seen === 1 ? '' : 's'} so far${seen > KEPT ? `, of which the newest ${KEPT} are shown` : ''}.`;
  };
  const soon = () => { if (!waits) { waits = true; requestAnimationFrame(draw); } };
  listen('/api/v1/sql/rows', parameters, signal, {
    columns: found => { columns = found, rows = [], seen = 0; soon(); },
    rows: found => { seen += found.length, fresh = new Set(found), rows = found.reverse().concat(rows).slice(0, KEPT); soon(); },
    end: () => { close(); draw(); note.append(' The query has ended.'); },
  }, {
    isQuery: true,
    begun: () => { situation?.(''); note.textContent = 'Waiting for rows …'; },
    fail: error => {
      close();
      if (columns.length) draw(); else note.textContent = '';
      place.append(problem(error.isAway ? {message: 'The connection to the server is lost, and the query has ended with it.', hint: 'Run begins it anew.'} : error));
    },
    wait: () => { note.textContent = 'Waiting, since other pages of this browser run as many queries that go on as it has connections for …'; },
  });
}

function sourceTable(found, choose) {
  return table([
    {title: 'name', of: one => make('div', {},
      make('button', {type: 'button', class: 'more', onclick: () => choose(`SELECT * FROM ${one.written} LIMIT 20`)}, one.name), make('div', {class: 'quiet'}, one.kind))},
    {title: 'topic', of: one => link(one.topic, 'topics', one.topic)},
    {title: 'columns', of: one => one.key ? `${one.columns}\nkey ${one.key}` : one.columns, isValue: true}, {title: 'filled by', of: one => one['filled by']},
  ], found, {empty: 'No statement has declared any; topics can be read by their names.'});
}

function queryTable(found, choose, after) {
  const failed = make('div');
  const control = (word, one) => changeButton(word, async () => {
    try { await post('statements', {text: `${word.toUpperCase()} \`${one.query}\``}); failed.replaceChildren(); await after(); } catch (error) { failed.replaceChildren(problem(error)); }
  });
  const terminate = one => {
    const place = make('span'), asked = changeButton('Terminate', () => {
      const sure = control('Terminate', one);
      place.replaceChildren(sure, make('button', {type: 'button', onclick: () => place.replaceChildren(asked)}, 'Keep'));
      sure.textContent = 'Terminate for good';
      sure.focus();
    });
    place.append(asked);
    return place;
  };
  return make('div', {}, failed, table([
    {title: 'query', of: one => make('div', {}, one.query, make('div', {class: 'buttons'}, control(one.state === 'PAUSED' ? 'Resume' : 'Pause', one), terminate(one),
      make('button', {type: 'button', onclick: () => choose(`EXPLAIN \`${one.query}\``)}, 'Explain')))},
    {title: 'state', of: one => make('div', {}, make('span', {class: STATES[one.state] ?? ''}, one.state.toLowerCase()), one.failure ? make('div', {class: 'bad'}, one.failure) : one.state === 'WAITING' ? make('div', {class: 'quiet'}, 'for streamkit sql serve, which runs it') : '')},
    {title: 'fills', of: one => one.fills}, {title: 'reads', of: one => one.reads}, {title: 'lag', of: one => one.lag ?? '', isNumber: true},
  ], found, {empty: 'There is no persistent query.'}));
}
