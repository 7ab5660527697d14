// What the page asks the service, and the stream of events.

const TIMEOUT_MS = 10_000;

export async function get(path, query = {}) {
  const url = new URL("v1alpha1/" + path, document.baseURI);
  for (const [key, value] of Object.entries(query)) {
    for (const one of [value].flat()) url.searchParams.append(key, one);
  }
  const answer = await fetch(url, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

// Calls `happened(event)` for each event and `live(true | false)` as the stream comes and goes.
// The browser reconnects by itself and resumes after the last id.
export function follow(happened, live) {
  const stream = new EventSource(new URL("v1alpha1/events/stream", document.baseURI));
  stream.onopen = () => live(true);
  stream.onerror = () => live(false);
  stream.onmessage = (message) => happened(JSON.parse(message.data));
  return stream;
}
