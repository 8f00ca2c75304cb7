"""A trace as a page of HTML that needs no other file: a slider over its epochs, and what each did."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

_STYLE = """
:root { color-scheme: light; }
body { margin: 0; font: 14px/1.45 system-ui, sans-serif; color: #112; background: #fff; }
main { display: grid; grid-template-columns: minmax(280px, 40%) minmax(0, 1fr); gap: 24px; padding: 16px 20px; align-items: start; }
header { padding: 14px 20px; border-bottom: 1px solid #cbd5e1; position: sticky; top: 0; background: #fff; z-index: 1; }
h1 { font-size: 18px; margin: 0 0 8px; }
h2 { font-size: 14px; margin: 18px 0 4px; }
.bar { display: flex; gap: 10px; align-items: center; }
.bar input { flex: 1; max-width: 520px; }
button { font: inherit; padding: 2px 10px; }
#picture svg { max-width: 100%; height: auto; }
#picture { overflow: auto; max-height: calc(100vh - 120px); position: sticky; top: 100px; }
.step { border-left: 3px solid #cbd5e1; padding: 2px 0 2px 10px; margin: 6px 0; }
.step.worked { border-color: #1d6fb8; }
.step.empty { border-color: #b45309; }
.step.failed { border-color: #991b1b; background: #fef2f2; }
#picture .failed :is(rect, path, polygon, ellipse) { stroke: #991b1b; stroke-width: 3; }
.name { font-weight: 600; }
.quiet { color: #475569; }
.reason { color: #9a3412; font-weight: 600; }
.error { color: #991b1b; font-weight: 600; white-space: pre-wrap; }
.scroll { overflow-x: auto; max-width: 100%; background: /* a shadow at a side that hides something, as bars may be unseen */
  linear-gradient(to right, #fff 40%, transparent) left / 48px 100% local, linear-gradient(to left, #fff 40%, transparent) right / 48px 100% local,
  linear-gradient(to right, #0f172a40, transparent) left / 14px 100% scroll, linear-gradient(to left, #0f172a40, transparent) right / 14px 100% scroll;
  background-repeat: no-repeat; }
table { border-collapse: collapse; font: 12px/1.4 ui-monospace, monospace; margin: 3px 0; }
table { width: max-content; }
th, td { text-align: left; padding: 1px 10px 1px 0; border-bottom: 1px solid #e2e8f0; vertical-align: top; }
td div { max-width: 420px; max-height: 9.8em; overflow: auto; overflow-wrap: anywhere; }
tr.before td { background: #fee2e2; text-decoration: line-through; }
tr.after td { background: #dcfce7; }
"""

# Values are set as text alone, never as HTML.
_SCRIPT = """
const epochs = JSON.parse(document.getElementById('epochs').textContent);
const $ = id => document.getElementById(id);
const make = (tag, text, kind) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const shown = value => value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
const moment = text => shown(text ?? null).replace(/(\\.\\d{3})(?:000)?\\+00:00$/, '$1').replace(/\\+00:00$/, '');  // all times are in UTC
const reasons = ['operator', 'error', 'message'];  // of a dead letter: why it is one is read first
const places = ['_partition', '_offset'];  // short, and what a record is found by
const columns = rows => {
  const found = [...new Set(rows.flatMap(row => Object.keys(row)))];
  const names = [...places.filter(name => found.includes(name)), ...found.filter(name => !places.includes(name))];
  return names.includes('is_whole') ? [...reasons, ...names.filter(name => !reasons.includes(name))] : names;
};
function cell(text) {
  const made = make('td');
  made.append(make('div', text));
  return made;
}
function table(rows, kinds = []) {
  const names = columns(rows), made = make('table'), head = make('tr');
  names.forEach(name => head.append(make('th', name)));
  made.append(head);
  rows.forEach((row, at) => {
    const line = make('tr', undefined, kinds[at]);
    names.forEach(name => line.append(cell(name === '_timestamp' ? moment(row[name]) : shown(row[name] ?? null))));
    made.append(line);
  });
  const scroll = make('div', undefined, 'scroll');
  scroll.append(made);
  return scroll;
}
function show(at) {
  const epoch = epochs[at], parts = [];
  $('slider').value = at;
  $('place').textContent = `${at + 1} of ${epochs.length}`;
  $('stream-time').textContent = epoch.stream_time ? `stream time ${epoch.stream_time}` : '';
  const without = epoch.error ? 'No record is known' : 'No record: what time has brought';
  parts.push(make('h2', epoch.records.length ? 'Taken' : without));
  epoch.records.forEach(({topic, row}) => parts.push(make('div', topic, 'name'), table([row])));
  parts.push(make('h2', 'Steps'));
  for (const {step, rows_in, rows_out} of epoch.figures) {
    const left = Object.entries(epoch.left_out[step] ?? {}), rows = epoch.steps[step] ?? [];
    const kind = step === epoch.failed_step ? 'failed' : left.length ? 'empty' : rows_in || rows_out ? 'worked' : '';
    const place = make('div', undefined, `step ${kind}`);
    const line = make('div');
    line.append(make('span', step, 'name'), make('span', `  ${rows_in} in, ${rows_out} out`, 'quiet'));
    left.forEach(([reason, count]) => line.append(make('span', `  ${reason.replace('_', ' ')}: ${count}`, 'reason')));
    if (kind === 'failed') line.append(make('span', '  failed', 'error'));
    place.append(line);
    if (rows.length) place.append(table(rows));
    parts.push(place);
  }
  for (const [store, changes] of Object.entries(epoch.stores)) {
    parts.push(make('h2', `Store ${store}`));
    const pairs = changes.flatMap(([before, after]) => [[before, 'before'], [after, 'after']]).filter(([row]) => row);
    parts.push(table(pairs.map(([row]) => row), pairs.map(([, kind]) => kind)));
  }
  for (const [topic, rows] of Object.entries(epoch.written)) parts.push(make('h2', `Written to ${topic}`), table(rows));
  if (epoch.error) {
    const where = epoch.failed_step ? `Failed in ${epoch.failed_step}` : 'Failed';
    parts.unshift(make('h2', where), make('div', epoch.error, 'error'));
  }
  $('epoch').replaceChildren(...parts);
  mark(epoch);
  try { history.replaceState(null, '', `#${at + 1}`); } catch { /* a page without an address */ }
}
function mark(epoch) {
  const worked = Object.fromEntries(epoch.figures.map(one => [one.step, one.rows_in + one.rows_out]));
  document.querySelectorAll('#picture [data-step]').forEach(box => {
    const isFailed = box.dataset.step === epoch.failed_step;
    box.style.opacity = worked[box.dataset.step] || isFailed ? 1 : 0.35;
    box.classList.toggle('failed', isFailed);
  });
}
const last = epochs.length - 1;
const move = by => show(Math.min(last, Math.max(0, +$('slider').value + by)));
$('slider').oninput = event => show(+event.target.value);
$('back').onclick = () => move(-1);
$('on').onclick = () => move(1);
document.onkeydown = event => {
  if (event.target.tagName !== 'INPUT' && ['ArrowLeft', 'ArrowRight'].includes(event.key)) move(event.key === 'ArrowLeft' ? -1 : 1);
};
if (epochs.length) show(Math.min(last, Math.max(0, (parseInt(location.hash.slice(1)) || 1) - 1)));
"""


def page(application: str, picture: str, epochs: Sequence[dict[str, Any]], *, is_cut: bool = False) -> str:
    """The page; `picture` is HTML of ours, and all else is text."""
    name, last = html.escape(application), max(0, len(epochs) - 1)
    cut = " There were more records." if is_cut else ""
    data = json.dumps(list(epochs)).replace("<", "\\u003c")  # so that no value can end the element
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}: trace</title>
<style>{_STYLE}</style>
<header>
<h1>{name}: what each record does</h1>
<div class="bar">
<button id="back" aria-label="the record before">◀</button>
<input id="slider" type="range" min="0" max="{last}" value="0" aria-label="record">
<button id="on" aria-label="the next record">▶</button>
<span id="place"></span>
<span id="stream-time" class="quiet"></span>
</div>
<div class="quiet">Arrow keys move on and back. Times are in UTC.{cut}</div>
</header>
<main>
<div id="picture">{picture}</div>
<div id="epoch">Nothing was taken.</div>
</main>
<script type="application/json" id="epochs">{data}</script>
<script>{_SCRIPT}</script>
</html>
"""
