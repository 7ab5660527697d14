// What the page asks the service, and the stream of events.

const TIMEOUT_MS = 10_000;
// After a refusal, such as too many readers.
const REOPEN_MS = 5_000;

// No answer, or one that says no: `status` tells "there is no such thing" from trouble, and is 0 where nobody answered.
export class Refused extends Error {
  constructor(path, status, message) {
    super(`${path}: ${message}`);
    this.status = status;
  }
}

const gone = (path) => (error) => { throw new Refused(path, 0, error.name === "TimeoutError" ? `no answer in ${TIMEOUT_MS / 1000} s` : "no answer"); };

async function ask(path, query, accept) {
  const url = new URL("v1alpha1/" + path, document.baseURI);
  for (const [key, value] of Object.entries(query)) {
    for (const one of [value].flat()) url.searchParams.append(key, one);
  }
  const answer = await fetch(url, { headers: { accept }, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(gone(path));
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(path, answer.status, said.message ?? answer.statusText);
}

export const get = (path, query = {}) => ask(path, query, "application/json").then((answer) => answer.json().catch(gone(path)));
export const text = (path, query = {}) => ask(path, query, "image/svg+xml").then((answer) => answer.text().catch(gone(path)));

// Calls `happened(event)` for each event after a sequence number, and `live(true | false)` as the stream comes and goes.
// The browser reconnects by itself and resumes after the last id, unless the service refused: then another stream is opened.
export function follow(after, happened, live) {
  const url = new URL("v1alpha1/events/stream", document.baseURI);
  url.searchParams.set("after", after);
  const stream = new EventSource(url);
  stream.onopen = () => live(true);
  stream.onerror = () => {
    live(false);
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => follow(after, happened, live), REOPEN_MS);
  };
  stream.onmessage = (message) => {
    const event = JSON.parse(message.data);
    after = event.sequence;
    happened(event);
  };
}
