// A change that is asked for in two steps: what it would do, then whether to do it. Where the server changes nothing, that is said instead.

import {make, problem} from './dom.js';
import {ask} from './model.js';

let server;  // what this server is, and what it may do; asked once

export function aboutServer() {
  server ??= ask('/api/v1/server').catch(error => { server = undefined; throw error; });
  return server;
}

export const allowsChanges = async () => (await aboutServer()).allows_changes;

const READ_ONLY = 'This server changes nothing: start it with --allow-changes.';

export const change = (path, fields, method = 'POST') => ask(path, {}, {method, body: JSON.stringify(fields),
  headers: {Accept: 'application/json', 'Content-Type': 'application/json'}});

// A button that cannot be used twice at the same time, nor where the server changes nothing.
export function changeButton(text, work, attributes = {}) {
  const button = make('button', {type: 'button', ...attributes, onclick: async () => {
    button.disabled = true;
    try { await work(button); } finally { button.disabled = false; }
  }}, text);
  allowsChanges().then(may => { if (!may) { button.disabled = true; button.title = READ_ONLY; } }, () => {});
  return button;
}

const asked = new WeakMap();  // by the place of a preview: whose it is

// Take away what would be done, also if it is only asked for yet: it is of something else than the page shows now.
export function withdraw(place) {
  asked.delete(place);
  place.replaceChildren();
}

// `preview(fields)` draws what the answer to a dry run says, `label` names the button that does it, `done` draws what was done.
// `bound(found)` are fields by which no more is done than the dry run found.
export function twoSteps({path, fields, preview, label, done, place, after = () => {}, bound = () => ({})}) {
  const failed = error => place.replaceChildren(problem(error));
  const cancel = from => make('button', {type: 'button', onclick: () => { withdraw(place); from?.focus(); }}, 'Cancel');
  return async from => {
    const own = {};
    asked.set(place, own);
    try {
      const chosen = fields(), found = await change(path, {...chosen, dry_run: true});
      if (asked.get(place) !== own) return;
      const go = changeButton(label(found), async () => {
        try {
          const what = await change(path, {...chosen, ...bound(found), dry_run: false});
          const said = make('p', {role: 'status', tabindex: -1}, done(what));
          place.replaceChildren(said);
          said.focus();  // or the keyboard would begin again at the top of the page
          after();
        } catch (error) { failed(error); }
      });
      place.replaceChildren(make('div', {class: 'panel'}, preview(found), make('form', {}, go, cancel(from))));
      go.focus();
    } catch (error) { if (asked.get(place) === own) failed(error); }
  };
}
