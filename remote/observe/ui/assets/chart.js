// Lines over time, on a canvas.

import { h, text, attr, context, colour, series, tip, List } from "./dom.js";
import * as f from "./format.js";

/** spans are how much of the past a chart shows, in seconds: the least that what is known fits into. */
const spans = [60, 120, 300];

/** Chart draws lines: update(times, lines), times in seconds, and of each line a name and its values; NaN interrupts a line. */
export class Chart {
  constructor({ title, format = f.rate, log = false }) {
    Object.assign(this, { title, format, log });
    this.canvas = h("canvas", { role: "img", "aria-label": title,
      pointermove: (e) => { this.at = e.offsetX; this.pointer = e; this.draw(); },
      pointerleave: () => { this.at = null; tip.hide(); this.draw(); } });
    this.legend = h("ul", { class: "legend" });
    this.items = new List(this.legend, (l) => l.name, (l) => {
      const swatch = h("i"), name = h("span"), value = h("span", { class: "muted" });
      return { el: h("li", {}, swatch, name, value), update: (line) => {
        swatch.style.background = line.colour;
        text(name, line.name);
        text(value, this.format(last(line.values)));
      } };
    });
    this.el = h("section", { class: "panel", "aria-label": title }, h("header", {}, h("h2", {}, title), h("span", { class: "grow" }), this.legend),
      h("div", { class: "body" }, h("div", { class: "chart" }, this.canvas)));
    this.times = [];
    this.lines = [];
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.el);
  }

  update(times, lines) {
    this.times = times;
    this.lines = lines;
    lines.forEach((l, i) => { l.colour = l.hue ? colour(l.hue) : series(i); });
    this.items.update(lines);
    attr(this.canvas, "aria-label", `${this.title}: ${lines.map((l) => `${l.name} ${this.format(last(l.values))}`).join(", ") || "nothing yet"}`);
    this.draw();
  }

  draw() {
    if (!this.canvas.isConnected) return;
    const { g, w, h: tall } = context(this.canvas);
    const left = 52, bottom = 16, top = 6, right = 6;
    const now = this.times.at(-1) ?? 0;
    const shownSeconds = spans.find((s) => now - (this.times[0] ?? now) <= s) ?? spans.at(-1);
    let most = 0, least = Infinity;
    for (const l of this.lines) {
      for (let i = l.values.length - 1; i >= 0 && this.times[i] > now - shownSeconds; i--) {
        const v = l.values[i];
        if (v > most) most = v;
        if (v > 0 && v < least) least = v;
      }
    }
    const scale = this.log ? logScale(least, most) : linearScale(most, this.format === f.bytes ? 1024 : 1000);
    const x = (t) => left + (w - left - right) * (1 - (now - t) / shownSeconds);
    const y = (v) => top + (tall - top - bottom) * (1 - scale.at(v));
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    g.fillStyle = colour("muted");
    g.strokeStyle = colour("line");
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of scale.ticks) {
      const at = Math.round(y(v)) + 0.5;
      g.beginPath();
      g.moveTo(left, at);
      g.lineTo(w - right, at);
      g.stroke();
      g.fillText(this.format(v), left - 6, at);
    }
    g.textAlign = "center";
    g.textBaseline = "bottom";
    for (let s = 0; s < shownSeconds; s += shownSeconds / 5 >= 60 ? 60 : shownSeconds / 4) {
      g.textAlign = s === 0 ? "right" : "center";
      g.fillText(s === 0 ? "now" : s < 60 || s % 60 ? `−${s} s` : `−${s / 60} min`, s === 0 ? w - right : x(now - s), tall);
    }
    g.lineJoin = "round";
    for (const l of [...this.lines].reverse()) {
      g.strokeStyle = l.colour;
      g.lineWidth = 1.5;
      g.beginPath();
      let open = false;
      for (let i = 0; i < this.times.length; i++) {
        const v = l.values[i], at = this.times[i];
        if (at < now - shownSeconds) continue;
        if (Number.isNaN(v) || v === undefined) {
          open = false;
          continue;
        }
        if (open) g.lineTo(x(at), y(v));
        else {
          g.moveTo(x(at), y(v));
          if (Number.isNaN(l.values[i + 1] ?? NaN)) g.lineTo(x(at) + 1.5, y(v));
        }
        open = true;
      }
      g.stroke();
    }
    if (this.at != null && this.times.length) this.mark(g, x, top, tall - bottom);
  }

  /** mark shows the values under the pointer. */
  mark(g, x, top, bottom) {
    let best = 0;
    this.times.forEach((t, i) => { if (Math.abs(x(t) - this.at) < Math.abs(x(this.times[best]) - this.at)) best = i; });
    const at = Math.round(x(this.times[best])) + 0.5;
    g.strokeStyle = colour("muted");
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(at, top);
    g.lineTo(at, bottom);
    g.stroke();
    tip.show(this.pointer.clientX, this.pointer.clientY,
      [f.clock(this.times[best] * 1e9), ...this.lines.map((l) => `${l.name}: ${this.format(l.values[best])}`)].join("\n"));
  }

  destroy() {
    this.resized.disconnect();
    tip.hide();
  }
}

const last = (values) => (values.length ? values[values.length - 1] : NaN);

/** linearScale begins at 0 and ends at a round number of the base. */
function linearScale(most, base) {
  let unit = 1;
  while (unit * base <= most) unit *= base;
  const want = Math.max(most, 1e-9) / unit / 3;
  const power = 10 ** Math.floor(Math.log10(want));
  const steps = base === 1024 ? [1, 2, 4, 8, 10] : [1, 2, 5, 10];
  const step = unit * power * (steps.find((s) => s * power >= want) ?? 10);
  const end = most > 0 ? step * Math.ceil(most / step - 1e-9) : 1;
  const ticks = most > 0 ? Array.from({ length: Math.round(end / step) + 1 }, (_, i) => i * step) : [0, 1];
  return { ticks, at: (v) => v / end };
}

/** logScale goes from one power of ten to another. */
function logScale(least, most) {
  const lo = Math.floor(Math.log10(least === Infinity ? 1e-3 : least)), hi = Math.max(lo + 1, Math.ceil(Math.log10(Math.max(most, 1e-6))));
  const ticks = Array.from({ length: hi - lo + 1 }, (_, i) => 10 ** (lo + i));
  return { ticks, at: (v) => (v > 0 ? (Math.log10(v) - lo) / (hi - lo) : 0) };
}
