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

export async function get(path, query = {}) {
  const url = new URL("v1alpha1/" + path, document.baseURI);
  for (const [key, value] of Object.entries(query)) {
    for (const one of [value].flat()) url.searchParams.append(key, one);
  }
  const gone = (error) => { throw new Refused(path, 0, error.name === "TimeoutError" ? `no answer in ${TIMEOUT_MS / 1000} s` : "no answer"); };
  const answer = await fetch(url, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(gone);
  if (answer.ok) return answer.json().catch(gone);
  const said = await answer.json().catch(() => ({}));
  throw new Refused(path, answer.status, said.message ?? answer.statusText);
}

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
