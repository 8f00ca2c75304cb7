// The dead letters of a topic: what was wrong with each, the record itself, and sending those again that are chosen.

import {changeButton, twoSteps, withdraw} from '../changing.js';
import {address, lineField, link, linkToRecord, make, number, problem, shown, table, textIn, timeText} from '../dom.js';
import {ask} from '../model.js';

const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
const total = found => Object.values(found.sent).reduce((sum, one) => sum + one, 0);

// What a replay did, or would do, in words.
function told(found, verb) {
  const parts = Object.entries(found.sent).filter(([, count]) => count).map(([topic, count]) => `${counted(count, 'record')} ${verb} ${topic}`);
  const rest = [found.replayed_before ? `${number(found.replayed_before)} had been sent before` : '',
    found.without_record ? `${counted(found.without_record, 'dead letter')} cannot be sent, having no record` : ''];
  return [parts.join(', ') || `No record ${verb} anywhere`, ...rest].filter(Boolean).join('; ') + '.';
}

export async function render({model, el, signal, go}) {
  const name = model.get('topic'), query = model.get('query') ?? {}, list = make('div'), asked = make('div');
  const path = `/api/v1/dead-letters/${encodeURIComponent(name)}`;
  const where = lineField({class: 'wide', value: query.where ?? '', placeholder: "such as operator = 'parse'"});
  const note = make('p', {class: 'quiet', role: 'status'}), more = make('button', {type: 'button', hidden: true}, 'Older ones');
  let wanted = textIn(where), at = query.cursor ?? null, cursor = null, turns = 0;
  const state = () => `${address('dead-letters', name)}?${new URLSearchParams(Object.entries({where: wanted, cursor: at}).filter(([, value]) => value))}`;
  const read = async () => {
    const turn = ++turns;  // what was asked for last is shown, also where an earlier answer takes longer
    note.textContent = 'Reading …';
    try {
      const page = await ask(path, {where: wanted, cursor: at}, {signal}), found = page.dead_letters;
      if (turn !== turns) return;
      cursor = page.cursor, more.hidden = page.is_complete;
      const some = wanted ? ' that match' : '', which = at ? 'older ones' : 'the newest';
      note.textContent = `${counted(found.length, 'dead letter')}${some}${page.is_complete && !at ? '' : `, ${which}`}; the topic has ${number(page.total)} in all${page.is_complete ? '' : ', and there are older ones'}.`;
      list.replaceChildren(table([
        {title: 'sent again', of: one => one.is_replayed ? 'yes' : one.topic ? again(() => ({partition: [one._partition], where: `_offset = ${one._offset}`}), 'Send again …', ` of ${one.topic} ${one.partition}/${one.offset}`) : 'it has no record'},
        {title: 'record', of: one => one.topic ? linkToRecord(one.topic, one.partition, one.offset) : ''},
        {title: 'step', of: one => make('span', {title: one.line ? `declared at ${one.line}` : ''}, one.operator)},
        {title: 'message', of: one => one.message, isValue: true},
        {title: 'key', of: one => shown(one.key), isValue: true}, {title: 'value', of: one => shown(one.value), isValue: true},
        {title: 'time', of: one => timeText(one.timestamp)}, {title: 'error', of: one => one.error},
        {title: 'application', of: one => one.application}, {title: 'attempt', of: one => one.attempt, isNumber: true},
        {title: 'dead letter', of: one => `${one._partition}/${one._offset}`},
      ], found, {empty: 'No dead letter.'}));
    } catch (error) {
      if (turn !== turns) return;
      note.textContent = '', more.hidden = true;
      list.replaceChildren(problem(error));
    }
  };
  more.onclick = () => { at = cursor; withdraw(asked); go(state(), {isSamePage: true}); read(); };
  const again = (fields, text, which = '') => changeButton(text, twoSteps({
    path: `${path}/replay`, fields, place: asked, after: read,
    bound: found => ({cursor: found.cursor}),  // nobody has seen those that come meanwhile
    preview: found => make('p', {}, told(found, `${which ? `${which.trim()} ` : ''}would go back to`)),
    label: found => which && total(found) === 1 ? `Send the record${which} again` : `Send ${counted(total(found), 'record')} again`,
    done: found => told(found, 'went back to'),
  }));
  const all = again(() => wanted ? {where: wanted} : {}, 'Send all of these again …');
  el.replaceChildren(make('h1', {}, name), make('p', {}, 'dead letters; the records of the topic are at ', link(name, 'topics', name)),
    make('form', {onsubmit: event => { event.preventDefault(); wanted = textIn(where), at = null; withdraw(asked); go(state(), {isSamePage: true}); read(); }},
      make('label', {}, 'where', where), make('button', {type: 'submit'}, 'Show'), all), asked, note, list, more);
  await read();
}
