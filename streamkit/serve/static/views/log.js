// The log as a whole: its topics by size, what waits to be deleted, who deletes it, the folders with its files, and whether it is whole.

import {bytes, facts, link, make, number, problem, table} from '../dom.js';
import {ask, keepAsking} from '../model.js';

const LARGEST = 20;

export function render({model, el, signal, situation}) {
  const roots = make('div'), checked = make('div', {'aria-live': 'polite'});
  const check = make('button', {type: 'button', onclick: async () => {
    check.disabled = true;
    checked.replaceChildren(make('p', {class: 'quiet'}, 'Checking …'));
    checked.replaceChildren(...await ask('/api/v1/log/check', {}, {signal}).then(report, error => [problem(error)]));
    check.disabled = false;
  }}, 'Check the log');
  const draw = () => {
    const found = model.get('log');
    if (!found) return;
    const total = (topic, field) => topic.partitions.reduce((sum, one) => sum + one[field], 0);
    const largest = [...found.topics].sort((one, other) => total(other, 'bytes') - total(one, 'bytes')).slice(0, LARGEST);
    el.replaceChildren(make('h1', {}, 'Log'), facts([['topics', found.topics.length], ['records', number(found.topics.reduce((sum, one) => sum + total(one, 'records'), 0))],
      ['size', bytes(found.topics.reduce((sum, one) => sum + total(one, 'bytes'), 0))], ['applications', found.applications.length], ['groups', found.groups.length],
      ['files that wait to be deleted', found.trash_files]]),
      make('p', {class: 'quiet'}, 'A file waits to be deleted once merges, compaction or retention have left no record in it that counts: it stays for a while, so that whoever reads it can end. ',
        model.get('maintainers')?.length ? `Maintenance runs beside ${model.get('maintainers').join(', ')}.` : 'No application runs now, so only streamkit maintain would do that.'),
      make('h2', {}, 'The largest topics'), table([
        {title: 'topic', of: one => link(one.topic, 'topics', one.topic)}, {title: 'size', of: one => bytes(total(one, 'bytes')), isNumber: true},
        {title: 'records', of: one => total(one, 'records'), isNumber: true}, {title: 'files', of: one => total(one, 'files'), isNumber: true},
        {title: 'frames', of: one => total(one, 'extents'), isNumber: true},
      ], largest),
      make('h2', {}, 'Folders'), roots, make('h2', {}, 'Check'),
      make('p', {class: 'quiet'}, 'It compares the catalog with the files, and changes nothing. streamkit fsck --deep reads every byte, too.'), check, checked);
  };
  model.on('change:log', draw);
  if (signal) {
    const look = () => Promise.all([ask('/api/v1/log', {all: 'true'}), ask('/api/v1/log/storage'), ask('/api/v1/applications')]);
    keepAsking(look, 5, signal, ([log, storage, applications]) => {
      situation('');
      roots.replaceChildren(...storageOf(storage));
      model.put({log, maintainers: applications.filter(one => one.running).map(one => one.name)});
    },
      error => { if (model.get('log')) situation(error.message, 'bad'); else el.replaceChildren(problem(error)); });
  }
}

function storageOf(found) {
  const copies = found['replication.factor'];
  return [
    make('p', {class: 'quiet'}, copies > 1 ? `Each file has ${copies} copies, of which ${found['min.insync.replicas']} must be durable before a write counts.` : 'Each file has one copy.'),
    table([{title: 'folder', of: one => one.path, isValue: true}, {title: 'state', of: one => one.state}], found.roots),
  ];
}

function report(found) {
  const counts = Object.entries(found.counts).map(([name, count]) => `${number(count)} ${name.replaceAll('_', ' ')}`).join(', ');
  return [
    make('p', {role: 'status', class: found.clean ? 'good' : 'bad'}, `The log is ${found.clean ? 'whole' : 'not whole'}. Checked: ${counts}.`),
    found.findings.length ? table([{title: 'severity', of: one => one.severity}, {title: 'kind', of: one => one.kind}, {title: 'where', of: one => one.where, isValue: true},
      {title: 'what', of: one => one.message}, {title: 'to do', of: one => one.action}], found.findings) : '',
  ];
}
