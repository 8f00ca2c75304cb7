// Elements made of text alone: nothing here takes HTML, so no value of a record can be any.

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const given = new WeakMap();

// A field of one line, which drops line breaks: what it is given counts with them until somebody types. `textIn` is what counts.
export function lineField(attributes) {
  const field = make('input', attributes);
  given.set(field, attributes.value ?? '');
  field.addEventListener('input', () => given.delete(field));
  return field;
}

export const textIn = field => given.get(field) ?? field.value;

export const link = (text, ...path) => make('a', {href: address(...path)}, text);

// To a record: the page of its topic from there on.
export const linkToRecord = (topic, partition, offset) =>
  make('a', {href: `${address('topics', topic)}?${new URLSearchParams({partition, offset, limit: 20})}`}, `${topic} ${partition}/${offset}`);

// An address within these pages, of parts that may hold any character.
export const address = (...path) => '/' + path.map(encodeURIComponent).join('/');

const numbers = new Intl.NumberFormat('en-US', {maximumFractionDigits: 1});
export const number = value => value === null || value === undefined ? '' : numbers.format(value);

// A number that takes little room.
const compact = new Intl.NumberFormat('en-US', {notation: 'compact', maximumFractionDigits: 1});
export const short = value => compact.format(value);

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let place = 0;
  for (; value >= 1024 && place < units.length - 1; place++) value /= 1024;
  return `${numbers.format(value)} ${units[place]}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return '';
  if (value < 1000) return `${numbers.format(value)} ms`;
  if (value < 120_000) return `${numbers.format(value / 1000)} s`;
  if (value < 7_200_000) return `${numbers.format(value / 60_000)} min`;
  if (value < 172_800_000) return `${numbers.format(value / 3_600_000)} h`;
  return `${numbers.format(value / 86_400_000)} d`;
}

// A time in milliseconds since 1970, as text; years that JavaScript does not know stay numbers.
export function time(ms) {
  if (ms === null || ms === undefined) return '';
  const found = new Date(ms);
  return Number.isNaN(found.getTime()) ? `${ms} ms` : found.toISOString().replace('T', ' ').replace('Z', '');
}

// A time as the server writes it, to the millisecond, or finer where it says more.
export function timeText(text) {
  if (text === null || text === undefined) return '';
  const [, moment, fraction = ''] = /^(.*?)(?:\.(\d+))?$/s.exec(String(text).replace('T', ' ').replace(/Z$|\+00:00$/, ''));
  return /:\d\d$/.test(moment) ? `${moment}.${fraction.replace(/0+$/, '').padEnd(3, '0')}` : String(text);
}

export const shown = value => value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : Object.is(value, -0) ? '-0' : String(value);

const NUMBERS = /^(tinyint|smallint|int|bigint|float|double|decimal)\b/;

// A column of values of a type in Spark's words, if it is known: numbers to the right, and a float by the fewest digits that mean it.
export function valueColumn(title, type, of) {
  const text = row => shown(type === 'float' ? shortest(of(row)) : of(row));
  return {title, of: text, isValue: true, isNumber: NUMBERS.test(type ?? '')};
}

// A float comes as the double of the same value, which has up to seventeen digits.
function shortest(value) {
  if (typeof value !== 'number' || Math.fround(value) !== value) return value;
  for (let digits = 1; digits < 9; digits++) {
    const found = Number(value.toPrecision(digits));
    if (Math.fround(found) === value) return found;
  }
  return value;
}

// The columns of a schema in Spark's words, such as `a int, b map<string, int>`: their types by their names.
export function typesOf(schema) {
  const types = new Map();
  let depth = 0, start = 0;
  const take = end => {
    const [, quoted, plain, type] = /^(?:`((?:[^`]|``)*)`|(\S+))\s*(.*)$/s.exec(schema.slice(start, end).trim()) ?? [];
    if (quoted !== undefined || plain) types.set(quoted?.replaceAll('``', '`') ?? plain, type.replace(/ NOT NULL$/i, ''));
    start = end + 1;
  };
  for (let at = 0; at < schema.length; at++) {
    if ('<('.includes(schema[at])) depth++;
    if ('>)'.includes(schema[at])) depth--;
    if (schema[at] === ',' && !depth) take(at);
  }
  take(schema.length);
  return types;
}

// A table; a column is a title, what it shows of a row (text, a number, an element or several), and whether it is a number.
export function table(columns, rows, {empty = 'Nothing yet.', kind = () => ''} = {}) {
  if (!rows.length) return make('p', {class: 'quiet'}, empty);
  const head = make('tr', {}, columns.map(({title, isNumber}) => make('th', {scope: 'col', class: isNumber && 'number'}, title)));
  const body = rows.map(row => make('tr', {class: kind(row)}, columns.map(({of, isNumber, isValue}) => {
    const found = of(row);
    const text = isNumber && typeof found === 'number' ? number(found) : found;
    const shown = cell(typeof text === 'number' ? String(text) : text ?? '');
    return make('td', {class: [isNumber && 'number', isValue && 'value'].filter(Boolean).join(' ') || false}, isValue ? make('div', {class: 'bounded'}, shown) : shown);
  })));
  return make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, body)));
}

// A long text is shown by its beginning; a click shows all of it.
const TEXT_SHOWN = 400;
export function cell(text) {
  if (typeof text !== 'string' || text.length <= TEXT_SHOWN) return text;
  const rest = make('span', {hidden: true}, text.slice(TEXT_SHOWN));
  const more = make('button', {type: 'button', class: 'more', onclick: () => { rest.hidden = false; more.remove(); }}, `… ${number(text.length - TEXT_SHOWN)} more`);
  return make('span', {}, text.slice(0, TEXT_SHOWN), more, rest);
}

export function facts(pairs) {
  return make('dl', {class: 'facts'}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, typeof value === 'number' ? number(value) : value))));
}

// What to do about an error, in words of the pages where the hint of the server is for those who ask it by HTTP; none where a page has nothing to say.
const HINTS = [
  [/\braw=true\b/, 'streamkit consume --raw prints its bytes.'],
  [/\/topics\/\{topic\}/, 'The page of the topic has its schema.'],
  [/\/stores\b/, 'The page of the application lists its stores.'],
  [/\/api\/v1\/(?:topics|applications|groups)\b/, 'The pages that are named at the top list what there is.'],
  [/\bAuthorization\b/, 'The page asks for it.'],
  [/\boffset=earliest\b/, 'earliest begins at the first record that is left.'],
  [/\bleave it out\b/, 'Show begins anew.'],
  [/\/api\/|\/openapi\.json|\bheader\b|\bContent-|\bcursor\b|\b[a-z_]+=/, ''],
];
const hintOf = ({hint}) => HINTS.find(([words]) => words.test(hint ?? ''))?.[1] ?? hint;

export const problem = error => {
  const hint = hintOf(error);
  const [first, ...place] = String(error.message ?? error).split('\n');  // a place in a text has its line, and carets below the words
  return make('div', {class: 'problem', role: 'alert'}, make('strong', {}, cell(first)), place.length ? make('pre', {}, place.join('\n')) : null,
    hint ? make('div', {class: 'quiet'}, hint) : null);
};

// A line of the last values, without axes: what it shows stands beside it in figures.
export function spark(values, width = 120, height = 22) {
  const most = Math.max(...values, 1e-9), step = width / Math.max(1, values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)} ${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return draw('svg', {class: 'spark', width, height, 'aria-hidden': 'true'}, points.length > 1 ? draw('path', {d: `M${points.join('L')}`}) : null);
}
