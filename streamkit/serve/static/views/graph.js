// The graph of an application, with what its steps do now. In the model: `drawing` (the layout), `steps` (totals), `chosen` (the id of a box).
// Rates and busy time are those between the last two totals; before there are two, the totals stand alone.
// `lettersAt` is the address of the dead letters of a step, to which the figure of what it left out leads if records failed there.
// A notebook has `looked_ms` too, the time of the totals by its own clock, and null once none come any more: then they stand alone again.

import {draw, make, number, short} from '../dom.js';
import {FAILED} from './step.js';

const LEAST_SECONDS = 0.2;
const EXPECTED = ['expired', 'emitted_early']; // windows that retention has deleted, and rows whose result came early, are no loss
const SMALLEST = 0.7;  // of its size: smaller letters are not read
const FRAME = 2;  // pixels of the lines to the left and right of it
const FIGURES = 'figures'; // the part of a box that the layout leaves free for them

export function render({model, el, lettersAt = () => null}) {
  let boxes = new Map(), flows = [], known = null;
  const build = () => {
    const drawing = model.get('drawing');
    boxes = new Map(), flows = [];
    if (!drawing) return;
    const picture = draw('svg', {width: drawing.width, height: drawing.height, viewBox: `0 0 ${drawing.width} ${drawing.height}`, role: 'group',
      'aria-label': `the steps of ${drawing.name}`});
    picture.append(draw('defs', {}, draw('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: 'userSpaceOnUse', orient: 'auto'},
      draw('path', {d: 'M0 0L8 4L0 8z', fill: '#64748b'}))));
    for (const flow of drawing.flows) {
      const path = draw('path', {class: 'flow', d: `M${flow.points.map(point => point.join(' ')).join('L')}`, 'marker-end': 'url(#arrow)'});
      flows.push({flow, path});
      picture.append(path);
    }
    for (const box of drawing.boxes) {
      const room = box.lines.find(line => line.part === FIGURES);
      const figure = draw('text', {class: 'figure', x: box.left + (room?.x ?? 8), y: box.top + (room?.y ?? box.height + 12)});
      const dropped = draw('text', {class: 'figure dropped', x: box.left + box.width - 8, y: box.top + (room?.y ?? box.height + 12), 'text-anchor': 'end'});
      const letters = draw('a', {'pointer-events': 'none'}, dropped);
      const busy = draw('rect', {class: 'busy', x: box.left + 8, y: box.top + box.height - 6, width: 0, height: 3, rx: 1.5});
      const group = draw('g', {class: `box ${box.kind} ${box.gives ?? ''}`, tabindex: 0, role: 'button', 'aria-label': box.id,
        onclick: () => choose(box.id), onkeydown: event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(box.id); } }},
        draw('title', {}, box.note || box.id),
        draw('rect', {class: 'frame', x: box.left, y: box.top, width: box.width, height: box.height, rx: 7}),
        box.lines.filter(line => line !== room).map(line => lineOf(box, line)),
        room && draw('rect', {class: 'busy-ground', x: box.left + 8, y: box.top + box.height - 6, width: box.width - 16, height: 3, rx: 1.5}), busy, figure);
      boxes.set(box.id, {box, group, figure, dropped, letters, busy});
      picture.append(group, letters);  // beside the box, which is a button
    }
    const least = Math.round(SMALLEST * drawing.width);
    picture.style.minWidth = `${least}px`;  // a page that is narrower scrolls
    el.style.setProperty('--least', `${least + FRAME}px`);
    el.replaceChildren(make('div', {class: 'graph'}, picture));
    known = null;
    show();
    mark();
  };
  const choose = id => { model.set('chosen', id); model.save_changes(); };
  const show = () => {
    const looked = model.get('looked_ms'), isOver = looked === null;
    const steps = model.get('steps') ?? [], at = (looked ?? performance.now()) / 1000, seconds = known && !isOver ? at - known.at : 0;
    if (known && !isOver && seconds <= LEAST_SECONDS) return;
    const totals = new Map(steps.map(one => [one.step, one]));
    const before = known?.totals, rates = new Map();
    for (const {box, figure, dropped, letters, busy} of boxes.values()) {
      const own = box.steps.map(step => totals.get(step)).filter(Boolean);
      if (!own.length) continue;
      const sum = (of, from = totals) => box.steps.reduce((all, step) => all + (from.get(step) ? of(from.get(step)) : 0), 0);
      const left = one => Object.entries(one.counts).reduce((all, [reason, count]) => EXPECTED.includes(reason) ? all : all + count, 0);
      if (before && seconds > LEAST_SECONDS) {
        const per = of => Math.max(0, (sum(of) - sum(of, before)) / seconds), share = per(one => one.busy_us) / 1e6;
        rates.set(box.id, per(one => one.rows_out));
        figure.textContent = `${short(Math.round(per(one => one.rows_in)))}/s · ${number(Math.round(100 * share))} % busy`;
        busy.setAttribute('width', Math.min(1, share) * (box.width - 16));
      } else {
        busy.setAttribute('width', 0);
        figure.textContent = `${short(sum(one => one.rows_in))} in`;
      }
      dropped.textContent = sum(left) ? `${short(sum(left))} left out` : '';
      const failed = own.find(one => one.counts[FAILED]), href = failed ? lettersAt(failed.step) : null;
      if (href) {
        letters.setAttribute('href', href);
        letters.removeAttribute('pointer-events');
      }
    }
    for (const {flow, path} of flows) path.classList.toggle('moving', (rates.get(flow.start) ?? 0) > 0);
    if (steps.length) known = {at, totals};
  };
  const mark = () => boxes.forEach(({box, group}) => group.classList.toggle('chosen', box.id === model.get('chosen')));
  model.on('change:drawing', build);
  model.on('change:steps', show);
  model.on('change:looked_ms', show);
  model.on('change:chosen', mark);
  build();
}

// A line of a box, where the layout has it.
const lineOf = (box, line) => draw('text', {x: box.left + line.x, y: box.top + line.y, class: line.part}, line.part === 'store' && line.begins ? `⛁ ${line.text}` : line.text);
