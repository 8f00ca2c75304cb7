// A chart of lines. In the model: `chart`, a drawing in which everything has its place already, as notebook/chart.py makes it; nothing for none.

import {draw, make} from '../dom.js';

export function render({model, el}) {
  const show = () => {
    const chart = model.get('chart');
    if (!chart) {
      el.replaceChildren();
      return;
    }
    const picture = draw('svg', {class: 'chart', width: chart.width, height: chart.height, viewBox: `0 0 ${chart.width} ${chart.height}`, role: 'img', 'aria-label': chart.title},
      chart.y_ticks.map(tick => [draw('path', {class: 'rule', d: `M${chart.left} ${tick.place}H${chart.right}`}),
        draw('text', {x: chart.left - 6, y: tick.place + 4, 'text-anchor': 'end'}, tick.text)]).flat(),
      chart.x_ticks.map(tick => draw('text', {x: tick.place, y: chart.bottom + 16, 'text-anchor': 'middle'}, tick.text)),
      chart.lines.map(line => [draw('path', {class: 'line', d: `M${line.points.map(point => point.join(' ')).join('L')}`, stroke: line.colour}),
        ...line.points.map(([x, y]) => draw('circle', {cx: x, cy: y, r: 2, fill: line.colour}))]).flat());
    const legend = chart.lines.map(line => {
      const sign = make('i');
      sign.style.background = line.colour;
      return make('span', {}, sign, line.name);
    });
    el.replaceChildren(make('div', {class: 'scroll'}, picture), make('div', {class: 'legend'}, make('span', {}, chart.title), legend, chart.note ? make('span', {}, chart.note) : null));
  };
  model.on('change:chart', show);
  show();
}
