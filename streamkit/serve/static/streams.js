// Streams of events. A browser opens at most six connections to a server, for all of its pages together, and a stream is one of them. Without turns,
// the seventh page would wait for ever. So a page that is hidden has no stream, and those that are shown share a few connections in turns.
// A query that goes on begins anew with each connection, so it keeps its own.

import {parsed} from './model.js';

const STREAMS = 3, QUERIES = 2; // connections; what is left is for everything else that pages ask
const TURN_MS = 1000; // a page keeps its connection for so long while others wait

// Events of the server until the signal; the browser connects again by itself. What is committed once they have `begun` is among them. One that
// `hasCursor` goes on behind its last event after a pause. `wait` is called if a query must wait for another page.
export async function listen(path, parameters, signal, events, fail, begun = () => {}, {hasCursor = false, isQuery = false, wait = () => {}} = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  let isOver = false;
  const hear = slot => new Promise(done => {
    const source = new EventSource(query.size ? `${path}?${query}` : path);
    for (const [name, hook] of Object.entries({begun: () => {}, ...events})) {
      source.addEventListener(name, event => {
        if (hasCursor) query.set('cursor', event.lastEventId);
        hook(parsed(event.data));
      });
    }
    source.onopen = begun;
    source.onerror = () => {
      isOver = source.readyState === EventSource.CLOSED;
      fail(isOver);
      if (isOver) end();
    };
    const end = () => {
      source.close();
      clearInterval(turn);
      signal.removeEventListener('abort', end);
      document.removeEventListener('visibilitychange', hidden);
      done();
    };
    const hidden = () => { if (document.hidden) end(); };
    const turn = isQuery || !slot ? null : setInterval(async () => { if (await isWanted(slot)) end(); }, TURN_MS);
    signal.addEventListener('abort', end);
    if (!isQuery) document.addEventListener('visibilitychange', hidden);
    if (signal.aborted) end();
  });
  while (!signal.aborted && !isOver) {
    if (!isQuery) await untilShown(signal);
    await withConnection(isQuery, signal, hear, wait);
  }
}

// Until the page is shown, or the signal.
function untilShown(signal) {
  return new Promise(done => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      signal.removeEventListener('abort', look);
      done();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
    look();
  });
}

const isWanted = async slot => (await navigator.locks.query()).pending.some(one => one.name === slot);

// Do the work with one of the connections that the pages of this browser share; it is told which. Browsers have locks for pages of this machine and for
// those by HTTPS. Elsewhere each page has a connection at once.
async function withConnection(isQuery, signal, work, wait) {
  if (signal.aborted) return;
  if (!navigator.locks) {
    await work(null);
    return;
  }
  const slots = Array.from({length: isQuery ? QUERIES : STREAMS}, (_, at) => `streamkit ${isQuery ? 'query' : 'stream'} ${at}`);
  for (const slot of slots) {
    const isFree = await navigator.locks.request(slot, {ifAvailable: true}, async lock => {
      if (lock) await work(slot);
      return Boolean(lock);
    });
    if (isFree) return;
  }
  wait();
  const pending = (await navigator.locks.query()).pending.map(one => one.name), waiting = slot => pending.filter(name => name === slot).length;
  const shortest = slots.reduce((best, slot) => waiting(slot) < waiting(best) ? slot : best);
  await navigator.locks.request(shortest, {signal}, () => work(shortest)).catch(error => { if (error.name !== 'AbortError') throw error; });
}
