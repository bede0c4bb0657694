import { h, text, colour, series, tip, panel } from "../dom.js";
import { Table } from "../table.js";
import { Stage } from "../stage.js";
import { loaded, parse, remember, hottest } from "../trace.js";
import * as f from "../format.js";

const rowHeight = 18, head = 20, left = 150;

export default {
  title: "Timeline",
  query: () => ({ sections: "sessions", limit: 1000 }),
  show: (main, app, params) => new TimelinePage(main, app, params),
};

class TimelinePage {
  constructor(main, app, params) {
    Object.assign(this, { app, params });
    this.note = h("span", { class: "muted", role: "status" });
    const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "A trace from a file", change: (e) => this.fromFile(e.target.files[0]) });
    this.steps = h("input", { type: "number", min: "1", max: "100", value: "1", "aria-label": "Steps to record" });
    this.next = h("button", { type: "button", click: () => this.fromServer() }, "Record");
    this.searchText = "";
    const search = h("input", { type: "search", placeholder: "Find  ( / )", "aria-label": "Find nodes or ops", input: (e) => {
      this.searchText = e.target.value.toLowerCase();
      this.stage.again();
    } });
    this.stage = new Stage({ label: "The timeline. Arrows move, plus and minus zoom, 0 shows all.", zoomY: false, least: 1e-7, most: 1e4,
      draw: (g, w, tall) => this.draw(g, w, tall), move: (e) => this.hover(e), click: (e) => { this.chosen = this.under(e); this.stage.again(); }, key: (e) => e.key === "0" && (this.all(), true) });
    this.table = new Table({ label: "Hottest ops", sorted: "-total", key: (o) => o.op, empty: "No trace is loaded.",
      columns: [
        { id: "op", label: "Op", min: 140, cell: (o) => ({ text: o.op, button: () => this.go(o.longest), title: "show the longest" }) },
        { id: "count", label: "Runs", num: true, width: 80, cell: (o) => f.count(o.count), sort: (o) => o.count },
        { id: "total", label: "In all", num: true, width: 90, cell: (o) => f.span(o.total / 1e6), sort: (o) => o.total },
        { id: "mean", label: "Mean", num: true, width: 90, cell: (o) => f.span(o.total / o.count / 1e6), sort: (o) => o.total / o.count },
        { id: "most", label: "Longest", num: true, width: 90, cell: (o) => f.span(o.most / 1e6), sort: (o) => o.most },
        { id: "part", label: "Part", width: 120, cell: (o) => ({ text: `${Math.round(100 * o.part)} %`, meter: o.part * 0.999 }), sort: (o) => o.part },
        { id: "where", label: "Longest node", min: 200, cell: (o) => ({ text: o.longest.node, title: o.longest.node }) },
      ] });
    const able = app.state.about.timeline;
    main.append(h("div", { class: "bar" }, able && h("span", { class: "bar" }, this.next, "the next ", this.steps, " steps"), h("label", {}, "Open a trace ", file), search, this.note),
      this.hint = h("p", { class: "note", hidden: Boolean(able || params.trace) }, "This server does not trace steps. Open the trace of a client: session.run with RunOptions(trace_level=FULL_TRACE) and a RunMetadata, whose step_stats tensorflow.python.client.timeline writes in Chrome’s format."),
      h("section", { class: "panel fill", "aria-label": "Timeline", dragover: (e) => e.preventDefault(), drop: (e) => {
        e.preventDefault();
        this.fromFile(e.dataTransfer.files[0]);
      } }, this.stage.el),
      panel("Hottest ops", this.short(this.table.el)));
    if (params.trace) this.fromAddress(params.trace);
    else if (loaded.trace) this.take(loaded.trace, loaded.from);
  }

  short(el) {
    el.style.maxHeight = "220px";
    return el;
  }

  update() { this.stage.again(); }

  async fromFile(file) {
    if (!file) return;
    await this.read(file.name, async () => JSON.parse(await file.text()));
  }

  async fromAddress(address) {
    await this.read(address, async () => {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(`${address} answered ${answer.status}`);
      return answer.json();
    });
  }

  async fromServer() {
    this.next.disabled = true;
    await this.read("the next steps", () => this.app.api("timeline", { steps: this.steps.value }));
    this.next.disabled = false;
  }

  async read(from, get) {
    text(this.note, `Reading ${from}…`);
    try {
      const trace = parse(await get());
      remember(trace, from);
      this.take(trace, from);
    } catch (e) {
      text(this.note, `${from} cannot be shown: ${e.message}`);
    }
  }

  take(trace, from) {
    this.hint.hidden = true;
    this.trace = trace;
    this.chosen = null;
    const ops = hottest(trace.spans);
    this.hues = new Map([...ops.map((o) => o.op), "step", "part", "plan"].map((op, i) => [op, i]));
    this.table.update(ops);
    text(this.note, `${from}: ${f.count(trace.spans.length)} events in ${f.span(trace.end / 1e6)}, ${f.count(trace.arrows.length)} arrows`);
    this.all();
  }

  all() {
    if (!this.trace) return;
    const r = this.stage.el.getBoundingClientRect();
    this.stage.scale = Math.max(50, r.width - left - 10) / Math.max(1e-6, this.trace.end);
    this.stage.x = -left / this.stage.scale;
    this.stage.y = 0;
    this.stage.again();
  }

  go(span) {
    const s = this.stage;
    s.scale = Math.min(1e4, (s.w - left) / Math.max(span.took * 4, 1e-3));
    s.x = span.at - span.took * 1.5 - left / s.scale;
    s.y = Math.max(0, span.row * rowHeight - s.h / 2);
    this.chosen = span;
    s.again();
  }

  under(e) {
    if (!this.trace || e.offsetX < left) return null;
    const [t, y] = this.stage.to(e.offsetX, e.offsetY - head);
    const row = Math.floor(y / rowHeight), slack = 2 / this.stage.scale;
    for (const lane of this.trace.lanes) {
      for (const th of lane.threads) {
        if (row < th.row || row >= th.row + th.rows) continue;
        return th.spans.find((s) => s.row === row && t >= s.at - slack && t <= s.at + s.took + slack) ?? null;
      }
    }
    return null;
  }

  hover(e) {
    const s = e && this.under(e);
    if (s !== this.over) {
      this.over = s;
      this.stage.again();
    }
    if (!s) {
      tip.hide();
      return;
    }
    const args = Object.entries(s.args).filter(([k]) => k !== "name" && k !== "op").slice(0, 8).map(([k, v]) => `${k}: ${String(typeof v === "object" ? JSON.stringify(v) : v).slice(0, 160)}`);
    tip.show(e.clientX, e.clientY, [s.node, s.op === s.node ? "" : s.op, `${f.span(s.took / 1e6)} from ${f.span(s.at / 1e6)} on`, ...args].filter(Boolean).join("\n"));
  }

  draw(g, w, tall) {
    const words = colour("text"), muted = colour("muted"), line = colour("line"), back = colour("panel"), soft = colour("soft");
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    g.textBaseline = "middle";
    if (!this.trace) {
      g.fillStyle = muted;
      g.textAlign = "center";
      g.fillText(this.app.state.about.timeline ? "Record the next steps, open a trace, or drop its file here." : "Open a trace, or drop its file here.", w / 2, tall / 2);
      return;
    }
    const s = this.stage, t = this.trace;
    s.y = Math.max(0, Math.min(s.y, Math.max(0, t.lanes.rows * rowHeight - tall + head + 10)));
    const y = (row) => head + row * rowHeight - s.y;
    const x = (at) => (at - s.x) * s.scale;
    for (const lane of t.lanes) {
      const top = y(lane.row);
      if (top > tall) break;
      g.fillStyle = soft;
      g.fillRect(0, top, w, rowHeight);
    }
    this.ticks(g, w, tall, x, line, muted);
    g.save();
    g.beginPath();
    g.rect(left, head, w - left, tall - head);
    g.clip();
    const q = this.searchText;
    for (const lane of t.lanes) {
      for (const th of lane.threads) {
        if (y(th.row + th.rows) < head || y(th.row) > tall) continue;
        const filled = new Map(); // by row, up to which pixel something is drawn
        for (const span of th.spans) {
          const x0 = x(span.at), x1 = x(span.at + span.took);
          if (x1 < left) continue;
          if (x0 > w) break;
          const wide = Math.max(1, x1 - x0);
          if (wide <= 1 && filled.get(span.row) >= x0 + 0.5) continue; // another one is there
          filled.set(span.row, x0 + wide);
          const top = y(span.row) + 1;
          const match = q && (span.op.toLowerCase().includes(q) || span.node.toLowerCase().includes(q));
          g.globalAlpha = q && !match ? 0.25 : 1;
          g.fillStyle = series(this.hues.get(span.op));
          g.fillRect(x0, top, wide, rowHeight - 3);
          if (span === this.over || span === this.chosen) {
            g.strokeStyle = words;
            g.strokeRect(x0 + 0.5, top + 0.5, Math.max(1, wide - 1), rowHeight - 4);
          }
          if (wide > 30) {
            g.save();
            g.beginPath();
            g.rect(Math.max(x0, left), top, wide - 2, rowHeight);
            g.clip();
            g.fillStyle = back;
            g.textAlign = "left";
            g.fillText(span.op === span.node ? span.node : `${span.node}`, Math.max(x0, left) + 4, top + rowHeight / 2 - 1);
            g.restore();
          }
        }
      }
    }
    g.globalAlpha = 1;
    this.arrows(g, w, x, y, words);
    g.restore();
    g.textAlign = "left";
    for (const lane of t.lanes) {
      const top = y(lane.row);
      if (top > tall) break;
      if (top + rowHeight > head) {
        g.fillStyle = words;
        g.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
        g.fillText(lane.name.replace(/\/job:([^/]+)\/replica:\d+\/task:(\d+)(?:\/device:)?/, "$1:$2 ").slice(0, 60), 6, top + rowHeight / 2);
        g.font = '11px system-ui, "DejaVu Sans", sans-serif';
      }
      g.fillStyle = muted;
      for (const th of lane.threads) if (y(th.row) + rowHeight > head && y(th.row) < tall) g.fillText((th.name || `thread ${th.tid}`).slice(0, 22), 14, y(th.row) + rowHeight / 2);
    }
    g.fillStyle = back;
    g.fillRect(0, 0, left, head);
  }

  ticks(g, w, tall, x, line, muted) {
    const want = 110 / this.stage.scale, power = 10 ** Math.floor(Math.log10(want));
    const step = [1, 2, 5, 10].find((k) => k * power >= want) * power;
    const first = Math.max(0, Math.ceil(this.stage.to(left, 0)[0] / step) * step);
    g.strokeStyle = line;
    g.lineWidth = 1;
    g.textAlign = "left";
    g.fillStyle = muted;
    for (let at = first; x(at) < w; at += step) {
      const px = Math.round(x(at)) + 0.5;
      g.beginPath();
      g.moveTo(px, head - 4);
      g.lineTo(px, tall);
      g.stroke();
      g.fillText(at === 0 ? "0" : f.span(at / 1e6), px + 3, head / 2);
    }
  }

  arrows(g, w, x, y, words) {
    const many = this.trace.arrows.length > 400;
    g.strokeStyle = words;
    g.fillStyle = words;
    g.lineWidth = 1;
    for (const { from, to } of this.trace.arrows) {
      const near = [this.over, this.chosen].some((s) => s && (s === from || s === to));
      if (many && !near) continue;
      // A Recv that began before the tensor was sent ends when it comes.
      const sent = from.at + from.took, x0 = x(sent), x1 = x(to.at >= sent ? to.at : Math.max(sent, to.at + to.took)), y0 = y(from.row) + rowHeight / 2, y1 = y(to.row) + rowHeight / 2;
      if (Math.max(x0, x1) < left || Math.min(x0, x1) > w) continue;
      g.globalAlpha = near ? 1 : 0.45;
      const m = Math.max(12, Math.abs(x1 - x0) / 3);
      g.beginPath();
      g.moveTo(x0, y0);
      g.bezierCurveTo(x0 + m, y0, x1 - m, y1, x1, y1);
      g.stroke();
      g.beginPath();
      g.moveTo(x1, y1);
      g.lineTo(x1 - 6, y1 - 3);
      g.lineTo(x1 - 6, y1 + 3);
      g.fill();
    }
    g.globalAlpha = 1;
  }

  destroy() {
    this.stage.destroy();
    this.table.destroy();
    tip.hide();
  }
}
