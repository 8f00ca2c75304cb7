// The pages: which view shows which address. Each address is a whole state, so it can be kept, sent and gone back to.

import {link, make, problem} from './dom.js';
import {Model} from './model.js';

const PAGES = [
  {name: 'Applications', path: /^\/(?:applications)?$/, view: 'applications'},
  {path: /^\/applications\/([^/]+)$/, view: 'application', parts: ['application'], of: 'Applications'},
  {path: /^\/applications\/([^/]+)\/stores\/([^/]+)$/, view: 'store', parts: ['application', 'store'], of: 'Applications'},
  {name: 'Topics', path: /^\/topics$/, view: 'topics'},
  {path: /^\/topics\/([^/]+)$/, view: 'topic', parts: ['topic'], of: 'Topics'},
  {name: 'Dead letters', path: /^\/dead-letters$/, view: 'dead_letters'},
  {path: /^\/dead-letters\/([^/]+)$/, view: 'dead_letters_of_topic', parts: ['topic'], of: 'Dead letters'},
  {name: 'Groups', path: /^\/groups$/, view: 'groups'},
  {path: /^\/groups\/([^/]+)$/, view: 'group', parts: ['group'], of: 'Groups'},
  {name: 'Connectors', path: /^\/connectors$/, view: 'connectors'},
  {path: /^\/connectors\/([^/]+)$/, view: 'connector', parts: ['connector'], of: 'Connectors'},
  {name: 'Log', path: /^\/log$/, view: 'log'},
];
const ADDRESSES = {Applications: '/', Topics: '/topics', 'Dead letters': '/dead-letters', Groups: '/groups', Connectors: '/connectors', Log: '/log'};

let leaving = new AbortController();

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const signal = leaving.signal, el = document.createElement('div');
  const page = PAGES.find(one => one.path.test(location.pathname));
  document.querySelector('header nav').replaceChildren(...Object.entries(ADDRESSES).map(([name, href]) =>
    make('a', {href, 'aria-current': (page?.name ?? page?.of) === name ? 'page' : null}, name)));
  situation('');
  document.getElementById('view').replaceChildren(el);
  if (!page) {
    el.append(problem({message: `There is no page at ${location.pathname}.`}), link('To the applications'));
    return;
  }
  const found = page.path.exec(location.pathname).slice(1).map(decodeURIComponent);
  const names = Object.fromEntries((page.parts ?? []).map((part, at) => [part, found[at]]));
  document.title = [...found, page.name ?? page.of, 'StreamKit'].join(' · ');
  const model = new Model({...names, query: Object.fromEntries(new URLSearchParams(location.search))});
  try {
    const {render} = await import(`./views/${page.view}.js`);
    if (!signal.aborted) await render({model, el, signal, go, situation});
  } catch (error) {
    if (!signal.aborted) el.replaceChildren(problem(error));
  }
}

// Go to an address; with `replace`, the state of this page has changed and is no place to go back to.
export function go(href, {replace = false, isSamePage = false} = {}) {
  history[replace ? 'replaceState' : 'pushState'](null, '', href);
  if (!isSamePage) show();
}

export function situation(text, kind = '') {
  const place = document.getElementById('situation');
  if (place.textContent !== text) place.textContent = text;
  place.className = kind;
}

// Where the server wants its token: a cookie has it, which only this server gets.
function askForToken() {
  leaving.abort();
  const token = make('input', {type: 'password', name: 'token', autocomplete: 'current-password', required: true});
  const form = make('form', {onsubmit: event => {
    event.preventDefault();
    document.cookie = `streamkit_token=${token.value.trim()}; path=/; SameSite=Strict${location.protocol === 'https:' ? '; Secure' : ''}`;
    show();
  }}, make('label', {}, 'token', token), make('button', {type: 'submit'}, 'Go on'));
  document.getElementById('view').replaceChildren(make('h1', {}, 'This server answers those who have its token'),
    make('p', {class: 'quiet'}, 'It stands in the file that streamkit serve was given with --token-file.'), form);
  token.focus();
}

document.addEventListener('click', event => {
  const target = event.target.closest?.('a[href^="/"]');
  if (!target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || target.target) return;
  event.preventDefault();
  go(target.getAttribute('href'));
});
addEventListener('popstate', show);
addEventListener('streamkit:token', askForToken);
show();
