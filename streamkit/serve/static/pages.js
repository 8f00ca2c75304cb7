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
  {name: 'SQL', path: /^\/sql$/, view: 'sql'},
];
const ADDRESSES = {Applications: '/', Topics: '/topics', 'Dead letters': '/dead-letters', Groups: '/groups', Connectors: '/connectors', SQL: '/sql', Log: '/log'};

let leaving = new AbortController();
let heard = null;  // when the server last answered this page

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const signal = leaving.signal, el = document.createElement('div');
  const page = PAGES.find(one => one.path.test(location.pathname));
  document.querySelector('header nav').replaceChildren(...Object.entries(ADDRESSES).map(([name, href]) =>
    make('a', {href, 'aria-current': (page?.name ?? page?.of) === name ? 'page' : null}, name)));
  situation('');
  heard = null;
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

// Go to an address. What a user chooses is a place to go back to; with `replace`, the state of this page has only become what it shows.
export function go(href, {replace = false, isSamePage = false} = {}) {
  const isThere = href === location.pathname + location.search;
  history[replace || isThere ? 'replaceState' : 'pushState'](null, '', href);
  if (!isSamePage) show();
}

// How it is with the server: nothing to say, or what is wrong, and of when the figures are that the page still shows. The header has little room, so it
// shows what is wrong up to the first semicolon; what there is instead, and what to do, is in its title.
export function situation(text, kind = '') {
  const place = document.getElementById('situation'), isBad = kind === 'bad';
  if (!isBad) heard = new Date();
  const [brief] = text.split('; ');
  const told = isBad && heard ? `${/[.!?]$/.test(brief) ? brief : `${brief}.`} What is shown is of ${heard.toISOString().slice(11, 19)}.` : brief;
  if (place.textContent !== told) place.textContent = told;
  place.title = text;
  place.className = kind;
  document.body.classList.toggle('away', isBad);
}

// Where the server wants its token: a cookie has it, which only this server gets. A page that shows something already keeps it, and asks again by itself.
function askForToken() {
  if (document.getElementById('token')) return;
  const cookie = document.cookie, isKnown = heard !== null, view = document.getElementById('view');
  if (!isKnown) leaving.abort();
  const token = make('input', {type: 'password', name: 'token', autocomplete: 'current-password', required: true});
  const form = make('form', {onsubmit: event => {
    event.preventDefault();
    document.cookie = `streamkit_token=${token.value.trim()}; path=/; SameSite=Strict${location.protocol === 'https:' ? '; Secure' : ''}`;
    goOn();
  }}, make('label', {}, 'token', token), make('button', {type: 'submit'}, 'Go on'));
  const asked = make('section', {id: 'token'}, make('h1', {}, 'This server needs its token'),
    /streamkit_token=/.test(cookie) ? make('p', {class: 'bad', role: 'alert'}, 'The server refused the token that this browser has.') : null,
    make('p', {class: 'quiet'}, 'The token is in the file that streamkit serve was given by --token-file.'), form);
  const goOn = () => {
    clearInterval(look);
    asked.remove();
    if (!isKnown) show();
  };
  const look = setInterval(() => { if (!asked.isConnected || document.cookie !== cookie) goOn(); }, 1000);  // it may be given in another page
  situation('');
  if (isKnown) view.prepend(asked);
  else view.replaceChildren(asked);
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
addEventListener('streamkit:let-in', () => document.getElementById('token')?.remove());
show();
