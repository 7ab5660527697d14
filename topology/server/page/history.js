// The last hour or day. The service samples each minute and draws; the page asks again when there is another sample.

import { byId, render } from "./dom.js";
import { widthOf } from "./map.js";
import { past } from "./pictures.js";

const HOUR = 3_600;
// How often another sample may be there: twice as often as the service takes one.
const AGAIN_MS = 30_000;

let span = HOUR, asked = "";

export async function drawHistory() {
  const box = byId("history");
  const key = JSON.stringify([span, widthOf(box), Math.floor(Date.now() / AGAIN_MS)]);
  if (asked === key) return;
  asked = key;
  const drawing = await past(span, widthOf(box));
  render(box, drawing.outerHTML, () => drawing);
}

// Buttons that choose how far back.
export function chooses(trouble) {
  const buttons = [...document.querySelectorAll("#history-section [data-span]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      span = Number(button.dataset.span);
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      drawHistory().catch(trouble);
    });
  }
}
