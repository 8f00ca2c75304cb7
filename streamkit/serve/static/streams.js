// Streams of events. A browser opens at most six connections to a server, for all of its pages together, and a stream is one of them. Without turns,
// the seventh page would wait for ever. So a page that is hidden has no stream, and those that are shown share a few connections in turns.
// A query that goes on begins anew with each connection, so it keeps its own.

import {answered, away, parsed} from './model.js';

const STREAMS = 3, QUERIES = 2; // connections; what is left is for everything else that pages ask
const TURN_MS = 1000; // a page keeps its connection for so long while others wait
const AGAIN_MS = 2000; // after a refusal
const LATER = [401, 404, 408, 410, 429]; // refusals of a moment, as are those of the server's own trouble, and all of a question that it once accepted

// Events of the server until the signal. What is committed once they have `begun` is among them. One that `hasCursor` goes on behind its last event after
// a pause; `anew` is called where that is gone, because the topic or the log was deleted and made again, and then it begins with `newest`.
// `fail` is told each time that the server does not answer or refuses, and why; it is asked again, unless the error is the end. A query is not:
// it would begin anew, and nobody would see that rows between are missing. `wait` is called if it must wait for another page.
export async function listen(path, parameters, signal, events, {begun = () => {}, fail, anew = () => {}, newest = {}, hasCursor = false, isQuery = false, wait = () => {}}) {
  let asked = parameters, isAccepted = false;
  const hear = async slot => {
    const leaving = new AbortController(), leave = () => leaving.abort(), hidden = () => { if (document.hidden) leave(); };
    const coming = {isMidway: false};  // then it would begin again with the same event, each turn
    const turn = isQuery || !slot ? null : setInterval(async () => { if (await isWanted(slot) && !coming.isMidway) leave(); }, TURN_MS);
    signal.addEventListener('abort', leave);
    if (signal.aborted) leave();  // while it waited for the connection
    if (!isQuery) document.addEventListener('visibilitychange', hidden);
    try {
      const answer = await answered(path, asked, {headers: {Accept: 'text/event-stream'}, signal: leaving.signal});
      let isFirst = true;
      for await (const {event, id, data} of eventsOf(answer.body, coming)) {
        if (leaving.signal.aborted) return null;
        if (hasCursor && id) {
          const {offset, time, ...others} = asked; // a cursor stands for them
          asked = {...others, cursor: id};
        }
        if (event === 'problem') return Object.assign(new Error(data.message), {hint: data.hint, faults: data.faults});
        if (isFirst) begun();  // not before: without its cursor it would go on with what comes after the next beginning
        isFirst = false, isAccepted = true;
        events[event]?.(data);
      }
      return away();
    } catch (error) {
      if (leaving.signal.aborted) return null;
      return error instanceof TypeError ? away() : error; // a body that breaks off is a TypeError
    } finally {
      leave();
      clearInterval(turn);
      signal.removeEventListener('abort', leave);
      document.removeEventListener('visibilitychange', hidden);
    }
  };
  while (!signal.aborted) {
    if (!isQuery) await untilShown(signal);
    const error = await withConnection(isQuery, signal, hear, wait);
    if (signal.aborted || !error) continue;
    if (error.kind === 'Gone' && asked.cursor) {
      const {cursor, ...others} = asked;
      asked = {...others, ...newest};
      anew();
      continue;
    }
    const isEnd = isQuery || !isAccepted && error.status >= 400 && error.status < 500 && !LATER.includes(error.status);
    fail(error, isEnd);
    if (isEnd) return;
    await pause(AGAIN_MS, signal);
  }
}

// The events of a body, each as its name, id and value; `coming` is told whether one has begun to come. The browser's own EventSource tells nobody why it was refused.
async function* eventsOf(body, coming) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    let from = Math.max(0, text.length - 1), end; // what was read before has no end of an event
    text += value;
    while ((end = text.indexOf('\n\n', from)) >= 0) {
      const fields = Object.fromEntries(text.slice(0, end).split('\n').map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]));
      text = text.slice(end + 2), from = 0;
      if (fields.event) yield {...fields, data: parsed(fields.data)};
    }
    coming.isMidway = text !== '';
  }
}

function pause(milliseconds, signal) {
  return new Promise(done => {
    const timer = setTimeout(over, milliseconds);
    signal.addEventListener('abort', over);
    function over() {
      clearTimeout(timer);
      signal.removeEventListener('abort', over);
      done();
    }
  });
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

// What the work gives with one of the connections that the pages of this browser share; it is told which. Browsers have locks for pages of this machine and for
// those by HTTPS. Elsewhere each page has a connection at once.
async function withConnection(isQuery, signal, work, wait) {
  if (signal.aborted) return null;
  if (!navigator.locks) return work(null);
  const slots = Array.from({length: isQuery ? QUERIES : STREAMS}, (_, at) => `streamkit ${isQuery ? 'query' : 'stream'} ${at}`);
  for (const slot of slots) {
    const done = await navigator.locks.request(slot, {ifAvailable: true}, async lock => lock && {found: await work(slot)});
    if (done) return done.found;
  }
  wait();
  // Who has a connection gives it to those who wait for this one. A query gives none away, so the next query gets whichever is free first.
  const pending = (await navigator.locks.query()).pending.map(one => one.name), waiting = slot => pending.filter(name => name === slot).length;
  const wanted = isQuery ? slots : [slots.reduce((best, slot) => waiting(slot) < waiting(best) ? slot : best)];
  const others = new AbortController();
  let isTaken = false, found = null;
  await Promise.all(wanted.map(slot => navigator.locks.request(slot, {signal: AbortSignal.any([signal, others.signal])}, async () => {
    if (isTaken) return;
    isTaken = true;
    others.abort();
    found = await work(slot);
  }).catch(error => { if (error.name !== 'AbortError') throw error; })));
  return found;
}
