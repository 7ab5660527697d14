// A table that sorts, and lays out only the rows in sight: ten thousand rows scroll like ten.

import { byName, html } from "./dom.js";

// All rows are so high, in pixels: where a row stands is then known without a look at the others. `style.css` has the same number.
const ROW = 30;
// Rows above and below those in sight, so that fast scrolling shows no gap.
const MARGIN = 12;
// With fewer than these others are laid out.
const NEAR = 4;
// Up to so many rows all are laid out: nothing is gained by less.
const WHOLE_MAX = 60;
const KEYS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

// What has no value comes last, whichever way.
function compare(a, b, falling) {
  const [none, other] = [a ?? null, b ?? null].map((value) => value === null || Number.isNaN(value));
  if (none || other) return none - other;
  return (typeof a === "string" ? byName(a, b) : a - b) * (falling ? -1 : 1);
}

// Every word of the filter is in the text, in any order.
export const has = (text, filter) => filter.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));

// `columns`: [{ title, hint, number, width, narrow, least, value, cell, phone }]. `narrow`: its width in a small window; `least`: of one that takes
// the rest. `value(row)` is what is sorted by, none where a column does not sort;
// `falling`: a first press puts the largest on top. `phone: false`: a small window has no room for it.
// `options`: { id(row), text(row): what the filter looks in, nothing(filtered): what stands where no row does, row(row): attributes }.
export class Grid {
  constructor(table, columns, options) {
    Object.assign(this, { table, columns, options, rows: [], found: [], shown: false, filter: "", sorted: null, falling: false, drawn: "", laid: [0, 0], made: new Map() });
    this.box = table.parentElement;
    this.box.classList.add("grid");
    this.body = html("tbody");
    this.heads = columns.map((column) => this.head(column));
    const widths = columns.map((column) => html("col", { style: column.width ? `--width: ${column.width}rem; --narrow: ${column.narrow ?? column.width}rem` : undefined, class: column.phone === false ? "wide" : undefined }));
    table.replaceChildren(html("colgroup", {}, widths), html("thead", {}, html("tr", { "aria-rowindex": 1 }, this.heads)), this.body);
    table.style.minWidth = `${columns.reduce((sum, column) => sum + (column.width ?? column.least ?? 9), 0)}rem`;
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    table.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  head(column) {
    const kinds = [column.number && "number", column.phone === false && "wide"].filter(Boolean).join(" ") || undefined;
    if (!column.value) return html("th", { scope: "col", class: kinds, title: column.hint }, column.title || html("span", { class: "unseen" }, column.hint));
    return html("th", { scope: "col", class: kinds, title: column.hint },
      html("button", { type: "button", class: "sort", onclick: () => this.sort(column) }, column.title));
  }

  // First as the column likes, then the other way, then the order in which the rows came.
  sort(column) {
    const first = column.falling ?? false;
    if (this.sorted !== column) [this.sorted, this.falling] = [column, first];
    else if (this.falling === first) this.falling = !first;
    else this.sorted = null;
    for (const [at, head] of this.heads.entries()) {
      if (this.columns[at] === this.sorted) head.setAttribute("aria-sort", this.falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    this.arrange();
    this.box.scrollTop = 0;
    this.draw();
  }

  // Takes rows, the worst first.
  show(rows, filter = this.filter) {
    const top = filter !== this.filter;
    Object.assign(this, { rows, filter, shown: true });
    this.arrange();
    if (top) this.box.scrollTop = 0;
    this.draw();
  }

  arrange() {
    const { text } = this.options;
    const found = this.filter.trim() ? this.rows.filter((row) => has(text(row), this.filter.trim())) : this.rows;
    const { sorted, falling } = this;
    this.found = sorted ? found.map((row) => [sorted.value(row), row]).sort((a, b) => compare(a[0], b[0], falling)).map(([, row]) => row) : found;
    this.table.setAttribute("aria-rowcount", this.found.length + 1);
  }

  // Rows of which some part may be seen, and so many above and below them.
  span(beside) {
    if (this.found.length <= WHOLE_MAX) return [0, this.found.length];
    const from = Math.max(0, Math.floor(this.box.scrollTop / ROW) - beside);
    return [Math.min(from, this.found.length), Math.min(this.found.length, from + Math.ceil(this.box.clientHeight / ROW) + 2 * beside)];
  }

  // Rows are laid out some at a time, and before they come into sight: most frames of a scroll lay out none.
  scrolled() {
    const [from, to] = this.span(NEAR);
    if (from < this.laid[0] || to > this.laid[1]) this.draw();
  }

  draw() {
    // Before the first answer nobody knows that there is nothing; a window that is laid out asks for rows before.
    if (!this.shown) return;
    const [from, to] = this.laid = this.span(MARGIN);
    // A cell across more columns than a small window shows would make columns that are empty, and as wide as the others.
    const across = this.heads.filter((head) => head.getClientRects().length > 0).length || this.columns.length;
    const { id, row: attributes, nothing } = this.options;
    const of = this.found.slice(from, to).map((row) => {
      const extra = attributes?.(row) ?? {};
      return { row, extra, id: id(row), key: JSON.stringify([row, extra]) };
    });
    const drawn = JSON.stringify([from, to, this.found.length, this.filter === "", across, of.map((one) => one.key)]);
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.row : undefined;
    const rows = of.map((one, at) => this.row(one, from + at + 2));
    this.made = new Map(of.map(({ id, key }, at) => [id, { key, row: rows[at] }]));
    if (!rows.length) rows.push(html("tr", { class: "none" }, html("td", { class: "empty", colspan: across }, html("p", {}, nothing(this.filter.trim() !== "")))));
    const room = (count) => (count > 0 ? [html("tr", { class: "room", "aria-hidden": true }, html("td", { colspan: across, style: `height: ${count * ROW}px` }))] : []);
    this.put([...room(from), ...rows, ...room(this.found.length - to)]);
    // What was laid out again lost it.
    if (focused !== undefined && !this.body.contains(document.activeElement)) this.focus(focused);
  }

  // A row that says the same as before is the same element: a browser lays out what is new.
  row({ row, extra, id, key }, index) {
    const before = this.made.get(id);
    this.made.delete(id);
    if (before?.key === key) {
      before.row.setAttribute("aria-rowindex", index);
      return before.row;
    }
    const cells = this.columns.map((column) => html("td", { class: [column.number && "number", column.phone === false && "wide"].filter(Boolean).join(" ") || undefined }, column.cell(row)));
    return html("tr", { ...extra, "data-row": id, "aria-rowindex": index }, cells);
  }

  // These and no other children, without a touch on those that stay where they are.
  put(rows) {
    const stay = new Set(rows);
    for (const row of [...this.body.children]) if (!stay.has(row)) row.remove();
    let next = this.body.firstChild;
    for (const row of rows) {
      if (row === next) next = next.nextSibling;
      else this.body.insertBefore(row, next);
    }
  }

  // The first thing in the row that can have the focus; nothing where the row is out of sight.
  focus(name) {
    [...this.body.rows].find((row) => row.dataset.row === name)?.querySelector("button, a")?.focus({ preventScroll: true });
  }

  key(event) {
    const step = KEYS[event.key];
    const name = event.target.closest("tbody tr")?.dataset.row;
    if (step === undefined || name === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.found.findIndex((row) => this.options.id(row) === name);
    if (at < 0) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(this.found.length - 1, at + step));
    // The row stands below the heading, and in sight.
    const [top, bottom] = [to * ROW, (to + 1) * ROW - this.box.clientHeight + this.table.tHead.offsetHeight];
    if (this.box.scrollTop > top) this.box.scrollTop = top;
    else if (this.box.scrollTop < bottom) this.box.scrollTop = bottom;
    this.draw();
    this.focus(this.options.id(this.found[to]));
  }
}
