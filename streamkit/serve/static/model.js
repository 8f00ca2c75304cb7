// What a view shows, by the protocol of anywidget: get, set, save_changes, on and off. So a view runs on a page and in a notebook alike.

export class Model {
  #values;
  #changed = new Set();
  #hooks = new Map();

  constructor(values = {}) {
    this.#values = {...values};
  }

  get(name) {
    return this.#values[name];
  }

  set(name, value) {
    this.#values[name] = value;
    this.#changed.add(name);
  }

  save_changes() {
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const name of changed) (this.#hooks.get(`change:${name}`) ?? []).forEach(hook => hook());
    if (changed.length) (this.#hooks.get('change') ?? []).forEach(hook => hook());
  }

  put(values) {
    for (const [name, value] of Object.entries(values)) this.set(name, value);
    this.save_changes();
  }

  on(event, hook) {
    this.#hooks.set(event, [...(this.#hooks.get(event) ?? []), hook]);
  }

  off(event, hook) {
    this.#hooks.set(event, (this.#hooks.get(event) ?? []).filter(one => one !== hook));
  }
}

// What the server answers; what it refuses is an error with its message and hint.
export async function ask(path, parameters = {}, options = {}) {
  return (await answered(path, parameters, options)).text().then(parsed).catch(() => ({}));
}

export const away = () => Object.assign(new Error('The server does not answer.'), {hint: 'Is streamkit serve still running?', isAway: true});

// An answer whose body nobody has read yet, with the same errors.
export async function answered(path, parameters = {}, options = {}) {
  const given = Object.entries(parameters).flatMap(([name, value]) => Array.isArray(value) ? value.map(one => [name, one]) : [[name, value]]);
  const query = new URLSearchParams(given.filter(([name, value]) => value !== null && value !== undefined && (value !== '' || name.startsWith('key.'))));
  let answer;
  try {
    answer = await fetch(query.size ? `${path}?${query}` : path, {headers: {Accept: 'application/json'}, ...options});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw away();
  }
  if (answer.status !== 401) dispatchEvent(new Event('streamkit:let-in'));
  if (answer.ok) return answer;
  if (answer.status === 401) dispatchEvent(new Event('streamkit:token'));
  const {error: kind, message = `The server answered ${answer.status}.`, hint, faults} = await answer.text().then(parsed).catch(() => ({}));
  throw Object.assign(new Error(message), {kind, hint, faults, status: answer.status});
}

// JSON as a value. A whole number that JavaScript would round stays the text that it is, so that it is shown, and found again, with all its digits.
export function parsed(text) {
  const exact = (_, value, context) => typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '') ? context.source : value;
  return /\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

// Ask again and again, as long as the page is shown; `tell` gets each answer, `fail` each error. Ends when the signal says so.
export function keepAsking(work, seconds, signal, tell, fail) {
  let timer;
  const again = async () => {
    if (signal.aborted) return;
    if (!document.hidden) {
      try { tell(await work()); } catch (error) { if (!signal.aborted) fail(error); }
    }
    if (!signal.aborted) timer = setTimeout(again, seconds * 1000);
  };
  signal.addEventListener('abort', () => clearTimeout(timer));
  again();
}
