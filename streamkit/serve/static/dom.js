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

export const link = (text, ...path) => make('a', {href: address(...path)}, text);

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

// A time as the server writes it, without what says nothing.
export const timeText = text => text === null || text === undefined ? '' : String(text).replace('T', ' ').replace(/Z$|\+00:00$/, '').replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');

export const shown = value => value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);

// A table; a column is a title, what it shows of a row (text, a number or an element), and whether it is a number.
export function table(columns, rows, {empty = 'Nothing yet.', kind = () => ''} = {}) {
  if (!rows.length) return make('p', {class: 'quiet'}, empty);
  const head = make('tr', {}, columns.map(({title, isNumber}) => make('th', {scope: 'col', class: isNumber && 'number'}, title)));
  const body = rows.map(row => make('tr', {class: kind(row)}, columns.map(({of, isNumber, isValue}) => {
    const found = of(row);
    const text = isNumber && typeof found === 'number' ? number(found) : found;
    return make('td', {class: isNumber ? 'number' : isValue ? 'value' : false}, cell(typeof text === 'number' ? String(text) : text ?? ''));
  })));
  return make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, body)));
}

// A long text is shown by its beginning; a click shows all of it.
const TEXT_SHOWN = 400;
function cell(text) {
  if (typeof text !== 'string' || text.length <= TEXT_SHOWN) return text;
  const rest = make('span', {hidden: true}, text.slice(TEXT_SHOWN));
  const more = make('button', {type: 'button', class: 'more', onclick: () => { rest.hidden = false; more.remove(); }}, `… ${number(text.length - TEXT_SHOWN)} more`);
  return make('span', {}, text.slice(0, TEXT_SHOWN), more, rest);
}

export function facts(pairs) {
  return make('dl', {class: 'facts'}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, typeof value === 'number' ? number(value) : value))));
}

export const problem = error => make('div', {class: 'problem', role: 'alert'}, make('strong', {}, cell(error.message ?? String(error))),
  error.hint ? make('div', {class: 'quiet'}, error.hint) : null);

// A line of the last values, without axes: what it shows stands beside it in figures.
export function spark(values, width = 120, height = 22) {
  const most = Math.max(...values, 1e-9), step = width / Math.max(1, values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)} ${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return draw('svg', {class: 'spark', width, height, 'aria-hidden': 'true'}, points.length > 1 ? draw('path', {d: `M${points.join('L')}`}) : null);
}
