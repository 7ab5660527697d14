"use strict";
(() => {
  document.documentElement.classList.add("js");

  // Sorting: a button in every heading that names its kind.
  const value = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
  };
  const compare = (a, b, numeric, sign) => {
    if (!numeric) return sign * a.localeCompare(b, undefined, { numeric: true });
    // What has no value stays last in either direction.
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  };
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numeric = head.dataset.sort === "number";
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const body = head.closest("table").tBodies[0];
      const rows = [...body.rows].map((row) => [value(row, head.cellIndex, numeric), row]);
      rows.sort((a, b) => compare(a[0], b[0], numeric, sign));
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      body.append(...rows.map((pair) => pair[1]));
    });
  }

  // Filtering: every word must occur in the row.
  for (const box of document.querySelectorAll("input[data-filters]")) {
    const rows = [...document.getElementById(box.dataset.filters).tBodies[0].rows].map((row) => [row, row.textContent.toLowerCase()]);
    const said = document.getElementById(box.dataset.says);
    const apply = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      said.textContent = words.length ? shown + " of " + rows.length + " rows" : "";
    };
    box.addEventListener("input", apply);
    apply();
  }

  // A link to a closed section opens it; printing opens all.
  const reveal = () => {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const section of opened) section.open = true;
  });
  addEventListener("afterprint", () => {
    for (const section of opened) section.open = false;
  });
})();
