// A table that stays quick with many rows: only those in sight are in the document.

import { h, text, attr, colour } from "./dom.js";

const rowHeight = 24; // of a row whose texts each take one line
const underHeight = 20; // the same of what is under a row
const around = 6; // rows that are made beyond those in sight

/**
 * Table shows rows. A column has an id, a label, and cell(row): a text, or {text, href, cls, title, badge, meter, spark, button, label}. sort(row)
 * gives what it is sorted by, where that is not the cell's text; num puts it to the right; width is in pixels; wrap breaks long texts into
 * lines, where others are cut. under(row) is what stands under the row, over the whole width that is in sight: a list of texts, {text, cls} and
 * {text, href, title}; an empty one takes no room.
 */
export class Table {
  constructor({ label, columns, key, sorted, onSort, under = null, empty = "There is nothing.", current = null }) {
    Object.assign(this, { columns, key, onSort, current, under, rows: [], sort: sorted });
    this.heights = new Map(); // by key, of the rows that have been in sight
    this.varies = under !== null || columns.some((c) => c.wrap);
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
    this.resized = new ResizeObserver(() => {
      this.heights.clear(); // texts wrap differently
      this.draw();
    });
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
    const [first, end, above, below] = this.sight(this.el.scrollTop, this.el.clientHeight || 400);
    while (this.pool.length < end - first) {
      const cells = this.columns.map((c) => h("td", { class: c.wrap ? "wrap" : c.num ? "num" : null }));
      const tr = h("tr", {}, cells);
      this.body.insertBefore(tr, this.below);
      const place = this.under && h("div"), line = this.under && h("tr", { class: "under" }, h("td", { colspan: this.columns.length }, place));
      if (line) this.body.insertBefore(line, this.below);
      this.pool.push({ tr, cells, line, place });
    }
    this.pool.forEach(({ tr, cells, line, place }, i) => {
      tr.hidden = first + i >= end;
      if (tr.hidden) {
        if (line) line.hidden = true;
        return;
      }
      const row = this.rows[first + i];
      attr(tr, "aria-rowindex", first + i + 2);
      attr(tr, "aria-current", this.current !== null && this.key(row) === this.current ? "true" : null);
      this.columns.forEach((c, j) => paint(cells[j], c.cell(row)));
      if (!line) return;
      attr(line, "aria-rowindex", first + i + 2);
      const pieces = this.under(row).filter((p) => p && shown(p) !== "");
      line.hidden = pieces.length === 0;
      attr(tr, "class", line.hidden ? null : "over");
      compose(place, pieces);
    });
    space(this.above, above);
    space(this.below, below);
    if (this.varies) this.measure(first, Math.min(n, end));
  }

  /** height is that of a row: what it was when it was last in sight, or else the usual one. */
  height(row) {
    return this.heights.get(this.key(row)) ?? rowHeight + (this.under?.(row).some((p) => p && shown(p) !== "") ? underHeight : 0);
  }

  /** sight finds the rows to draw: the first, the one after the last, and the heights of those above and below. */
  sight(top, tall) {
    const n = this.rows.length;
    if (!this.varies) {
      const first = Math.max(0, Math.min(n - 1, Math.floor(top / rowHeight) - around));
      const end = Math.min(n, first + Math.ceil(tall / rowHeight) + 2 * around);
      return [first, end, first * rowHeight, (n - end) * rowHeight];
    }
    const ends = []; // of the rows, from the top of the first
    let at = 0;
    for (const row of this.rows) ends.push(at += this.height(row));
    const begins = (i) => (i > 0 ? ends[i - 1] : 0);
    let in0 = ends.findIndex((e) => e > top), in1 = ends.findIndex((e) => e >= top + tall);
    if (in0 < 0) in0 = Math.max(0, n - 1);
    if (in1 < 0) in1 = n;
    const first = Math.max(0, in0 - around), end = Math.min(n, in1 + 1 + around);
    return [first, end, begins(first), at - begins(end)];
  }

  /** measure notes the heights of the rows that are drawn. */
  measure(first, end) {
    if (!this.el.clientHeight) return;
    if (this.heights.size > 50_000) this.heights.clear(); // of rows that have gone
    for (let i = first; i < end; i++) {
      const { tr, line } = this.pool[i - first];
      this.heights.set(this.key(this.rows[i]), tr.offsetHeight + (line && !line.hidden ? line.offsetHeight : 0));
    }
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

/** compose shows pieces of text and links one after the other. */
function compose(el, pieces) {
  const kinds = pieces.map((p) => (p.href ? "a" : "s")).join("");
  if (el.kinds !== kinds) {
    el.kinds = kinds;
    el.replaceChildren(...pieces.map((p) => h(p.href ? "a" : "span")));
  }
  pieces.forEach((p, i) => {
    const piece = el.children[i];
    if (p.href) attr(piece, "href", p.href);
    attr(piece, "class", p.cls || null);
    attr(piece, "title", p.title);
    text(piece, shown(p));
  });
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
