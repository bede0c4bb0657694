// A table that stays quick with many rows: only those in sight are in the document.

import { h, text, attr, colour } from "./dom.js";

const rowHeight = 24;
const around = 6; // rows that are made beyond those in sight

/**
 * Table shows rows. A column has an id, a label, and cell(row): a text, or {text, href, cls, title, badge, meter, spark, button, label}. sort(row)
 * gives what it is sorted by, where that is not the cell's text; num puts it to the right; width is in pixels.
 */
export class Table {
  constructor({ label, columns, key, sorted, onSort, empty = "There is nothing.", current = null }) {
    Object.assign(this, { columns, key, onSort, current, rows: [], sort: sorted });
    this.head = h("tr", { "aria-rowindex": 1 }, columns.map((c) => (c.th = h("th", { scope: "col", class: c.num ? "num" : null, title: c.title },
      h("button", { type: "button", click: () => this.sortBy(c) }, c.label)))));
    this.above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.body = h("tbody", {}, this.above, this.below);
    this.table = h("table", { "aria-label": label }, h("colgroup", {}, columns.map((c) => h("col", { style: c.width ? { width: `${c.width}px` } : {} }))),
      h("thead", {}, this.head), this.body);
    const wide = columns.reduce((sum, c) => sum + (c.width ?? c.min ?? 140), 0);
    this.table.style.minWidth = `${wide}px`;
    this.empty = h("p", { class: "empty" }, empty);
    this.el = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label, scroll: () => this.draw() }, this.table, this.empty);
    this.pool = [];
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.el);
  }

  sortBy(column) {
    const s = this.sort === column.id ? `-${column.id}` : this.sort === `-${column.id}` ? column.id : column.num ? `-${column.id}` : column.id;
    this.sort = s;
    this.onSort?.(s);
    this.update(this.rows);
  }

  update(rows) {
    const down = this.sort?.startsWith("-");
    const by = this.columns.find((c) => c.id === (down ? this.sort.slice(1) : this.sort));
    for (const c of this.columns) attr(c.th, "aria-sort", c === by ? (down ? "descending" : "ascending") : null);
    if (by) {
      const value = by.sort ?? ((r) => shown(by.cell(r)));
      const keyed = rows.map((r, i) => [value(r), i, r]);
      const sign = down ? -1 : 1;
      keyed.sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1]);
      rows = keyed.map((k) => k[2]);
    }
    this.rows = rows;
    this.empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    attr(this.table, "aria-rowcount", rows.length + 1);
    this.draw();
  }

  draw() {
    const n = this.rows.length;
    const tall = this.el.clientHeight || 400;
    const first = Math.max(0, Math.min(n - 1, Math.floor(this.el.scrollTop / rowHeight) - around));
    const many = Math.min(n - first, Math.ceil(tall / rowHeight) + 2 * around);
    while (this.pool.length < many) {
      const cells = this.columns.map((c) => h("td", { class: c.num ? "num" : null }));
      const tr = h("tr", {}, cells);
      this.body.insertBefore(tr, this.below);
      this.pool.push({ tr, cells });
    }
    this.pool.forEach(({ tr, cells }, i) => {
      tr.hidden = i >= many;
      if (tr.hidden) return;
      const row = this.rows[first + i];
      attr(tr, "aria-rowindex", first + i + 2);
      attr(tr, "aria-current", this.current !== null && this.key(row) === this.current ? "true" : null);
      this.columns.forEach((c, j) => paint(cells[j], c.cell(row)));
    });
    space(this.above, first * rowHeight);
    space(this.below, (n - first - many) * rowHeight);
  }

  destroy() {
    this.resized.disconnect();
  }
}

function space(tr, height) {
  tr.hidden = height <= 0;
  const px = `${Math.max(0, height)}px`;
  if (tr.style.height !== px) tr.style.height = px;
}

const shown = (v) => (v !== null && typeof v === "object" ? v.text : v) ?? "";

/** compare orders numbers by value, and texts with the numbers in them; what is not there comes first. */
export function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    if (Number.isNaN(a) || Number.isNaN(b)) return (Number.isNaN(b) ? 1 : 0) - (Number.isNaN(a) ? 1 : 0);
    return a - b;
  }
  return collator.compare(String(a ?? ""), String(b ?? ""));
}

const collator = new Intl.Collator("en", { numeric: true });

/** paint shows a cell, in the elements that are there already if they are of the same kind. */
export function paint(td, v) {
  if (v === null || typeof v !== "object") {
    become(td, "text");
    text(td, v ?? "");
    attr(td, "title", null);
    return;
  }
  attr(td, "title", v.title);
  const kind = v.href ? "a" : v.button ? "button" : v.badge ? "badge" : v.meter !== undefined ? "meter" : v.spark ? "spark" : "span";
  const el = become(td, kind);
  switch (kind) {
    case "a":
      attr(el, "href", v.href);
      break;
    case "button":
      el.onclick = v.button;
      attr(el, "aria-label", v.label);
      break;
    case "badge":
      attr(el, "class", `badge ${v.badge}`);
      break;
    case "meter": {
      attr(el, "aria-label", v.text);
      attr(el, "class", v.meter >= 1 ? "meter full" : "meter");
      const width = `${Math.round(1000 * Math.max(0, Math.min(1, v.meter || 0))) / 10}%`;
      if (el.firstChild.style.width !== width) el.firstChild.style.width = width;
      return;
    }
    case "spark":
      spark(el, v.spark, v.most);
      attr(el, "aria-label", v.text);
      return;
    default:
      attr(el, "class", v.cls);
  }
  text(el, v.text);
}

const makers = {
  a: () => h("a"),
  button: () => h("button", { type: "button", class: "link" }),
  badge: () => h("span"),
  span: () => h("span"),
  meter: () => h("span", { role: "img" }, h("i")),
  spark: () => h("canvas", { class: "spark", role: "img" }),
};

function become(td, kind) {
  if (td.kind === kind) return td.firstChild;
  td.kind = kind;
  if (kind === "text") {
    td.textContent = "";
    return td;
  }
  const el = makers[kind]();
  td.replaceChildren(el);
  return el;
}

/** spark draws a small line of the latest values, which are at most most. */
function spark(canvas, values, most) {
  const w = canvas.clientWidth || 80, tall = 18, scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale);
  if (canvas.height !== tall * scale) canvas.height = tall * scale;
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, w, tall);
  const top = most > 0 ? most : Math.max(1, ...values);
  g.strokeStyle = colour("c0");
  g.lineWidth = 1.2;
  g.beginPath();
  const last = values.length - 1;
  values.forEach((v, i) => {
    const x = w - 1.5 - (last - i) * 1.5, y = tall - 2 - (tall - 4) * Math.min(1, v / top);
    if (x >= 0) g[i === 0 || x < 1.5 ? "moveTo" : "lineTo"](x, y);
  });
  g.stroke();
}
