// The starts that changed the program of an application, and what the chosen one changed, in the form of `streamkit plan`.
// In the model: `programs`, newest first, `chosen`, a generation as text or null, and `program`, what its start changed, both as the server
// gives them; `failure` is an error in its place; `last`, the generation of the last start, and whether it has committed.
// `href` gives the address of a generation.

import {cell, make, number, problem, table, time} from '../dom.js';

const SUBJECTS = ['inputs', 'outputs', 'stores', 'steps'];
const SIGNS = {same: ['=', 'as before', 'quiet'], added: ['+', 'new', 'good'], gone: ['-', 'gone', 'bad'], changed: ['~', 'changed', 'warn']};

export function render({model, el, href = () => null}) {
  const list = make('div'), same = make('p', {class: 'quiet'}), changes = make('div', {class: 'changes', 'aria-live': 'polite'});
  el.replaceChildren(list, same, changes);
  const choose = generation => event => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    model.set('chosen', String(generation));
    model.save_changes();
  };
  const show = () => {
    const chosen = model.get('chosen') ?? null, programs = model.get('programs') ?? [], hadFocus = list.contains(document.activeElement);
    const link = ({generation}) => make('a', {href: href(generation), onclick: choose(generation), 'aria-current': String(generation) === chosen ? 'true' : null}, String(generation));
    list.replaceChildren(table([
      {title: 'generation', of: link, isNumber: true},
      {title: 'started', of: one => time(one.started_ms)}, {title: 'tasks', of: one => one.tasks, isNumber: true},
      {title: 'changes', of: one => one.changes ?? 'not known any more', isNumber: true},
    ], programs, {empty: 'The programs of starts are kept from the next start on.', kind: one => String(one.generation) === chosen ? 'chosen' : ''}));
    if (hadFocus) list.querySelector('a[aria-current]')?.focus({preventScroll: true});
    same.textContent = sameProgram(programs, model.get('last'));
    changes.replaceChildren(...shownChanges(model, chosen, programs));
  };
  for (const name of ['programs', 'chosen', 'program', 'failure']) model.on(`change:${name}`, show);
  show();
}

// Why the last start is none of those that changed the program.
function sameProgram([newest], last) {
  if (!newest || !(last?.generation > newest.generation)) return '';
  return last.hasCommitted ? `Generation ${last.generation} runs the program of generation ${newest.generation}, since its start changed nothing.`
    : `Generation ${last.generation} has committed nothing yet, so the program of generation ${newest.generation} counts.`;
}

function shownChanges(model, chosen, programs) {
  const failure = model.get('failure'), program = model.get('program');
  if (failure) return [problem(failure)];
  if (chosen === null) return programs.length ? [make('p', {class: 'quiet'}, 'Choose a generation to see what its start changed.')] : [];
  if (!program || String(program.generation) !== chosen) return [];
  return [make('h3', {}, `Generation ${program.generation}`), make('p', {}, told(program)),
    ...SUBJECTS.filter(subject => program[subject].length).map(subject => changesOf(subject, program[subject]))];
}

function told(program) {
  if (program.changes === null) return 'The program before it is not known any more.';
  if (program.generation_before === null) return 'It was the first start.';
  return `${number(program.changes)} ${program.changes === 1 ? 'change' : 'changes'} since the program of generation ${program.generation_before}.`;
}

// A line each; steps that stay are only counted, for there are many.
function changesOf(subject, changes) {
  const listed = changes.filter(one => subject !== 'steps' || one.fate !== 'same'), same = changes.length - listed.length;
  const left = same ? make('p', {class: 'quiet'}, `= ${number(same)} ${same === 1 ? 'step' : 'steps'} as before`) : null;
  return make('div', {}, listed.length ? table([
    {title: subject, of: one => signed(one.fate)}, {title: 'name', of: one => one.name},
    {title: 'what it is', of: one => one.before ? [line('gone', one.before), line('added', one.text)] : one.text, isValue: true},
  ], listed) : make('h3', {}, subject), left);
}

const signed = fate => {
  const [sign, words, kind] = SIGNS[fate] ?? [fate, fate, ''];
  return make('span', {class: `sign ${kind}`, title: words}, sign);
};

// The text of before, or of now.
const line = (fate, text) => make('div', {class: fate}, signed(fate), ' ', cell(text));
