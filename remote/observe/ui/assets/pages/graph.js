import { h, fill, text, colour, series, tip } from "../dom.js";
import { Folded, label, place, walk } from "../layout.js";
import { Stage } from "../stage.js";
import { costsOf } from "../trace.js";
import * as f from "../format.js";

const found = 60; // search results that are listed

export default {
  title: "Graph",
  query: () => ({ sections: "sessions", limit: 4000 }),
  show(main, app, params) {
    if (!app.state.about.graph) {
      main.append(h("p", { class: "note" }, "This server does not give out graphs."));
      return {};
    }
    return new GraphPage(main, app, params);
  },
};

class GraphPage {
  constructor(main, app, params) {
    Object.assign(this, { app, params: { ...params } });
    this.sessions = h("select", { "aria-label": "Session", change: (e) => {
      const [task, session] = e.target.value.split("|");
      location.hash = app.link("graph", { task, session });
    } });
    this.colours = h("select", { change: (e) => {
      this.set({ color: e.target.value });
      this.stage.again();
      this.legends();
    } }, [["", "device"], ["task", "task"], ["op", "op"], ["time", "time in the trace"], ["memory", "memory in the trace"]].map(([v, l]) => h("option", { value: v, selected: (params.color ?? "") === v }, l)));
    this.search = h("input", { type: "search", placeholder: "Find nodes  ( / )", "aria-label": "Find nodes by name or op", value: params.q ?? "", input: (e) => {
      this.set({ q: e.target.value });
      this.find();
    } });
    this.crumbs = h("ol", { class: "crumbs" });
    this.note = h("span", { class: "muted", role: "status" });
    this.legend = h("ul", { class: "legend" });
    this.chosen = h("div", { class: "body" });
    this.results = h("div");
    this.stage = new Stage({ label: "The graph. Arrows move between what is shown, Enter opens, Backspace goes up, plus and minus zoom, 0 shows all.",
      draw: (g, w, tall) => this.draw(g, w, tall), click: (e) => this.choose(this.under(e)), open: (e) => this.open(this.under(e)), move: (e) => this.hover(e), key: (e) => this.key(e) });
    main.append(
      h("div", { class: "bar" }, h("label", {}, "Session ", this.sessions), h("label", {}, "Colour by ", this.colours), this.search, this.note),
      h("div", { class: "split" },
        h("section", { class: "panel", "aria-label": "Graph" }, h("header", {}, h("nav", { "aria-label": "Scope" }, this.crumbs), h("span", { class: "grow" }), this.legend), this.stage.el),
        h("section", { class: "panel side", "aria-label": "What is chosen" }, h("header", {}, h("h2", {}, "Chosen")), this.chosen, this.results)));
    this.item = null;
    this.over = null;
  }

  set(params) {
    this.params = { ...this.params, ...params };
    this.app.set(params);
  }

  update(state) {
    const all = state.tasks.flatMap((t) => (t.sessions ?? []).map((s) => ({ task: t.task, session: s.name, nodes: s.nodes ?? 0 })));
    if (!this.params.session && all.length) {
      const largest = all.reduce((a, b) => (b.nodes > a.nodes ? b : a));
      this.set({ task: largest.task, session: largest.session });
    }
    const key = all.map((s) => `${s.task}|${s.session}|${s.nodes}`).join();
    if (key !== this.known && document.activeElement !== this.sessions) {
      this.known = key;
      const at = `${this.params.task}|${this.params.session}`;
      fill(this.sessions, !this.params.session && h("option", { value: "" }, all.length ? "choose" : "none is open"),
        this.params.session && !all.some((s) => s.session === this.params.session) && h("option", { value: at, selected: true }, `${this.params.session}, which has ended`),
        all.map((s) => h("option", { value: `${s.task}|${s.session}`, selected: s.session === this.params.session }, `${s.session} on ${f.taskName(s.task)}, ${f.count(s.nodes)} nodes`)));
    }
    if (this.params.session && !this.asked) {
      this.asked = true;
      if (!this.params.task) this.params.task = all.find((s) => s.session === this.params.session)?.task;
      this.load();
    }
    this.legends();
    this.stage.again();
  }

  async load() {
    text(this.note, "Reading the graph…");
    try {
      const graph = await this.app.api("graph", { task: this.params.task, session: this.params.session });
      this.take(graph);
    } catch (e) {
      text(this.note, e.message);
    }
  }

  take(graph) {
    this.graph = graph;
    const began = performance.now();
    this.folded = new Folded(graph);
    this.tasks = graph.devices.map(f.taskOf);
    this.taskNames = [...new Set(this.tasks)];
    let cut = 0;
    graph.inputs.forEach((ins, i) => { for (const j of ins) if (this.tasks[graph.device[j]] !== this.tasks[graph.device[i]]) cut++; });
    this.cut = cut;
    const at = this.params.node ? this.folded.leaf(this.params.node) : null;
    this.enter(at ? at.parent : this.folded.find(this.params.scope ?? ""), at);
    this.find();
    this.app.state.graphTook = performance.now() - began;
    text(this.note, `${f.count(graph.names.length)}${graph.names.length < graph.nodes ? ` of ${f.count(graph.nodes)}` : ""} nodes on ${graph.devices.length} devices, ${f.count(cut)} edges between tasks`);
  }

  /** enter shows a group. */
  enter(group, choose = null) {
    const room = this.stage.el.getBoundingClientRect();
    this.view = place(this.folded.view(group), { w: Math.max(100, room.width - 48), h: Math.max(100, room.height - 48) }, widths());
    this.names = new Map(this.view.items.map((i) => [i.thing, i]));
    this.hot();
    this.set({ scope: group.path, node: "" });
    this.choose(choose ? this.names.get(choose) ?? null : null);
    const path = [];
    for (let g = group; g; g = g.parent) path.unshift(g);
    fill(this.crumbs, path.map((g) => h("li", {}, g === group ? h("span", { "aria-current": "location" }, g.name || "all") : h("button", { type: "button", class: "link", click: () => this.enter(g) }, g.name || "all"))));
    this.legends();
    this.stage.fit(this.view.box);
    if (this.item) this.toItem();
  }

  open(item) {
    if (!item || item.thing.virtual) return;
    const t = item.thing;
    if (item.outside) this.enter(t.parent ?? this.folded.root, t);
    else if (t.node < 0) this.enter(t);
  }

  choose(item) {
    this.item = item;
    this.about(item);
    this.set({ node: item && item.thing.node >= 0 ? this.graph.names[item.thing.node] : "" });
    this.stage.again();
  }

  /** toItem moves the chosen item into sight. */
  toItem() {
    const s = this.stage, i = this.item;
    const [x, y] = s.at(i.x, i.y), [x1, y1] = s.at(i.x + i.w, i.y + i.h);
    if (x < 0) s.x -= (20 - x) / s.scale;
    if (y < 0) s.y -= (20 - y) / s.scale;
    if (x1 > s.w) s.x += (x1 - s.w + 20) / s.scale;
    if (y1 > s.h) s.y += (y1 - s.h + 20) / s.scale;
    s.again();
  }

  key(e) {
    if (!this.view) return false;
    if (e.key === "Enter" && this.item) this.open(this.item);
    else if (e.key === "Backspace" && this.view.group.parent) this.enter(this.view.group.parent, this.view.group);
    else if (e.key === "Escape") this.choose(null);
    else if (e.key.startsWith("Arrow") && !e.shiftKey) {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
      const at = this.item ?? this.view.items[0];
      let best = this.item ? null : at, score = Infinity;
      for (const i of this.item ? this.view.items : []) {
        const x = i.x - at.x, y = i.y - at.y, along = dx * x + dy * y, across = Math.abs(dx * y) + Math.abs(dy * x);
        if (i !== at && along > 1 && along + 2 * across < score) [best, score] = [i, along + 2 * across];
      }
      if (!best) return true;
      this.choose(best);
      this.toItem();
    } else return false;
    return true;
  }

  under(e) {
    if (!this.view) return null;
    const [x, y] = this.stage.to(e.offsetX, e.offsetY);
    return this.view.items.find((i) => x >= i.x && x <= i.x + i.w && y >= i.y && y <= i.y + i.h) ?? null;
  }

  hover(e) {
    const item = e ? this.under(e) : null;
    if (item !== this.over) {
      this.over = item;
      this.stage.again();
    }
    if (item) tip.show(e.clientX, e.clientY, `${item.thing.path || item.thing.name}\n${item.thing.node >= 0 ? `${this.graph.ops[this.graph.op[item.thing.node]]} on ${f.taskName(this.graph.devices[this.graph.device[item.thing.node]])}` : `${f.count(item.thing.nodes)} nodes`}`);
    else tip.hide();
  }

  /** hot finds what the things of the view cost in the loaded trace. */
  hot() {
    this.most = { time: 0, memory: 0 };
    const costs = costsOf(this.params.session);
    if (!costs) return;
    for (const i of this.view.items) {
      i.time = i.memory = 0;
      if (i.outside) continue;
      for (const leaf of walk(i.thing)) {
        const c = costs.get(this.graph.names[leaf.node]);
        i.time += c?.time ?? 0;
        i.memory += c?.memory ?? 0;
      }
      this.most.time = Math.max(this.most.time, i.time);
      this.most.memory = Math.max(this.most.memory, i.memory);
    }
  }

  /** shades gives an item's colours, with the part of it that each takes. */
  shades(item) {
    const by = this.params.color ?? "", t = item.thing;
    if (by === "time" || by === "memory") {
      const part = this.most[by] ? (item[by] ?? 0) / this.most[by] : 0;
      return [[part > 0.66 ? colour("bad") : part > 0.2 ? colour("c1") : part > 0 ? colour("c2") : colour("line"), 1]];
    }
    if (by === "op") {
      if (t.node < 0) return [[colour("c7"), 1]];
      return [[series(this.graph.op[t.node]), 1]];
    }
    const all = new Map();
    for (const [d, n] of t.devices) {
      const k = by === "task" ? this.taskNames.indexOf(this.tasks[d]) : d;
      all.set(k, (all.get(k) ?? 0) + n);
    }
    return [...all].sort((a, b) => a[0] - b[0]).map(([k, n]) => [series(k), n / t.nodes]);
  }

  legends() {
    if (!this.graph) return;
    const by = this.params.color ?? "";
    const swatch = (c, label) => h("li", {}, h("i", { style: { background: c } }), label);
    const cut = h("li", {}, h("i", { style: { background: colour("bad"), height: "2px", width: "14px" } }), "between tasks");
    let list;
    if (by === "time" || by === "memory") list = costsOf(this.params.session) ? [swatch(colour("bad"), "most"), swatch(colour("c1"), "more"), swatch(colour("c2"), "some"), swatch(colour("line"), "none")] : [h("li", {}, "open a trace on the page Timeline first")];
    else if (by === "op") list = [...new Set(this.view.items.filter((i) => i.thing.node >= 0).map((i) => this.graph.op[i.thing.node]))].slice(0, 8).map((o) => swatch(series(o), this.graph.ops[o]));
    else list = (by === "task" ? this.taskNames : this.graph.devices).slice(0, 8).map((d, i) => swatch(series(i), f.taskName(d)));
    const key = by + list.map((l) => l.textContent).join() + colour("c0");
    if (key === this.legendKey) return;
    this.legendKey = key;
    fill(this.legend, list, cut);
  }

  draw(g, w, tall) {
    if (!this.view) return;
    const s = this.stage;
    const line = colour("muted"), bad = colour("bad"), accent = colour("accent"), words = colour("text"), back = colour("panel"), soft = colour("soft");
    const near = this.over ?? this.item;
    g.lineJoin = "round";
    const edge = (e) => {
      const p = e.points.map(([x, y]) => s.at(x, y));
      const strong = near && (e.from === near || e.to === near);
      g.globalAlpha = strong ? 1 : near ? 0.25 : e.cut ? 0.85 : 0.5;
      g.strokeStyle = e.cut ? bad : strong ? accent : line;
      g.lineWidth = Math.min(4, 1 + Math.log10(e.tensors + e.controls)) * (e.cut ? 1.2 : 1);
      g.setLineDash(e.tensors ? [] : [4, 3]);
      g.beginPath();
      g.moveTo(...p[0]);
      for (let i = 1; i < p.length; i++) {
        const [x0, y0] = p[i - 1], [x1, y1] = p[i], m = e.down ? (y1 - y0) / 2 : (x1 - x0) / 2;
        if (e.down) g.bezierCurveTo(x0, y0 + m, x1, y1 - m, x1, y1);
        else g.bezierCurveTo(x0 + m, y0, x1 - m, y1, x1, y1);
      }
      g.stroke();
      if (s.scale > 0.35) { // the arrow's head
        const [x, y] = p.at(-1), d = e.back ? -1 : 1, size = 5 * Math.min(1, s.scale);
        g.setLineDash([]);
        g.beginPath();
        g.moveTo(x, y);
        const [ax, ay] = e.down ? [0, d * size * 1.6] : [d * size * 1.6, 0], [cx, cy] = e.down ? [size, 0] : [0, size];
        g.lineTo(x - ax - cx, y - ay - cy);
        g.lineTo(x - ax + cx, y - ay + cy);
        g.closePath();
        g.fillStyle = g.strokeStyle;
        g.fill();
      }
    };
    const seen = (e) => {
      const [x0, y0] = s.at(...e.points[0]), [x1, y1] = s.at(...e.points.at(-1));
      return Math.max(x0, x1) > -w && Math.min(x0, x1) < 2 * w && Math.max(y0, y1) > -tall && Math.min(y0, y1) < 2 * tall;
    };
    for (const e of this.view.edges) if (e.points && !e.cut && seen(e)) edge(e);
    for (const e of this.view.edges) if (e.points && e.cut && seen(e)) edge(e);
    g.globalAlpha = 1;
    g.setLineDash([]);
    g.textBaseline = "middle";
    const q = (this.params.q ?? "").toLowerCase();
    for (const i of this.view.items) {
      const [x, y] = s.at(i.x, i.y), iw = i.w * s.scale, ih = i.h * s.scale;
      if (x > w || y > tall || x + iw < 0 || y + ih < 0) continue;
      const group = i.thing.node < 0;
      const r = Math.min(ih / 2, group ? 4 * s.scale : 13 * s.scale);
      g.beginPath();
      g.roundRect(x, y, iw, ih, r);
      g.fillStyle = i.outside ? soft : back;
      g.fill();
      g.save();
      g.clip();
      let at = x;
      for (const [c, part] of this.shades(i)) {
        g.fillStyle = c;
        g.globalAlpha = i.outside ? 0.5 : 1;
        g.fillRect(at, y + ih - Math.max(3, 5 * s.scale), part * iw, Math.max(3, 5 * s.scale));
        at += part * iw;
      }
      g.restore();
      const match = q && this.hits?.has(i.thing);
      g.strokeStyle = i === this.item ? accent : match ? colour("c1") : i.outside ? colour("line") : line;
      g.lineWidth = i === this.item || match ? 2.2 : 1;
      g.setLineDash(i.outside ? [3, 3] : []);
      g.beginPath();
      g.roundRect(x, y, iw, ih, r);
      g.stroke();
      g.setLineDash([]);
      if (s.scale < 0.3) continue;
      const size = Math.max(Math.min(10.5, 24 * s.scale), Math.min(13, 12 * s.scale));
      g.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
      g.fillStyle = i.outside ? colour("muted") : words;
      const { name, count } = label(i);
      const room = iw - 14 * s.scale - (count ? g.measureText(count).width + 8 : 0);
      g.textAlign = "left";
      g.fillText(short(g, name, room), x + 7 * s.scale, y + ih / 2 - 2 * s.scale);
      if (count) {
        g.textAlign = "right";
        g.fillStyle = colour("muted");
        g.fillText(count, x + iw - 7 * s.scale, y + ih / 2 - 2 * s.scale);
      }
    }
  }

  /** about tells of an item in the column at the side. */
  about(item) {
    if (!item) {
      const all = this.view?.items.filter((i) => !i.outside) ?? [];
      fill(this.chosen, h("p", { class: "muted" }, "Choose a thing to see what it is. A double click or Enter opens a group."),
        h("h2", {}, "In this scope"), h("ul", { class: "plain" }, all.slice(0, 200).map((i) => h("li", {}, h("button", { type: "button", class: "link", click: () => (i.thing.node < 0 ? this.enter(i.thing) : (this.choose(i), this.toItem())) }, i.thing.name),
          h("span", { class: "muted" }, i.thing.node < 0 ? `  ${f.count(i.thing.nodes)}` : `  ${this.graph.ops[this.graph.op[i.thing.node]]}`)))));
      return;
    }
    const t = item.thing, g = this.graph;
    const lines = [h("p", { class: "mono" }, t.path || t.name)];
    const goto = (i) => h("button", { type: "button", class: "link", click: () => this.enter(this.folded.leaves[i].parent, this.folded.leaves[i]) }, g.names[i]);
    const list = (title, nodes) => nodes.length > 0 && [h("h2", {}, title), h("ul", { class: "plain" }, nodes.slice(0, 30).map((i) => h("li", {}, goto(i), h("span", { class: this.tasks[g.device[i]] === this.tasks[g.device[t.node]] ? "muted" : "bad" }, `  ${f.taskName(g.devices[g.device[i]])}`))),
      nodes.length > 30 && h("li", { class: "muted" }, `and ${f.count(nodes.length - 30)} more`))];
    if (t.node >= 0) {
      const users = [];
      g.inputs.forEach((ins, i) => { if (ins.includes(t.node)) users.push(i); });
      const cost = costsOf(this.params.session)?.get(g.names[t.node]);
      lines.push(h("p", {}, `${g.ops[g.op[t.node]]} on ${f.taskName(g.devices[g.device[t.node]])}`), cost && h("p", {}, `${f.span(cost.time / 1e6)} in the trace, ${f.bytes(cost.memory)} put out`),
        list("Inputs", g.inputs[t.node]), list("Runs after", g.control[t.node]), list("Taken by", users));
    } else {
      lines.push(h("p", {}, `${f.count(t.nodes)} nodes`), h("ul", { class: "plain" }, [...t.devices].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([d, n]) => h("li", {}, h("span", { class: "swatch", style: { background: series(d) } }), ` ${f.taskName(g.devices[d])}  ${f.count(n)}`))),
        !t.virtual && h("button", { type: "button", click: () => this.open(item) }, item.outside ? "Go there" : "Open"));
    }
    fill(this.chosen, lines);
  }

  /** find lists the nodes that match the search, and marks what has them. */
  find() {
    const q = (this.params.q ?? "").toLowerCase().trim();
    this.hits = null;
    fill(this.results);
    if (!q || !this.folded) {
      this.stage.again();
      return;
    }
    const g = this.graph, all = [];
    const ops = g.ops.map((o) => o.toLowerCase().includes(q));
    g.names.forEach((n, i) => { if (ops[g.op[i]] || n.toLowerCase().includes(q)) all.push(i); });
    this.hits = new Set();
    for (const i of all) for (let t = this.folded.leaves[i]; t; t = t.parent) this.hits.add(t);
    fill(this.results, h("div", { class: "body" }, h("h2", {}, `${f.count(all.length)} nodes match`), h("ul", { class: "plain" }, all.slice(0, found).map((i) => h("li", {},
      h("button", { type: "button", class: "link", click: () => this.enter(this.folded.leaves[i].parent, this.folded.leaves[i]) }, g.names[i]), h("span", { class: "muted" }, `  ${g.ops[g.op[i]]}`))),
    all.length > found && h("li", { class: "muted" }, `and ${f.count(all.length - found)} more`))));
    this.stage.again();
  }

  destroy() {
    this.stage.destroy();
    tip.hide();
  }
}

/** widths measures texts as they are at the usual scale. */
function widths() {
  const g = document.createElement("canvas").getContext("2d");
  g.font = '12px system-ui, "DejaVu Sans", sans-serif';
  return (s) => g.measureText(s).width;
}

/** short cuts a text in its middle to fit a width. */
function short(g, s, room) {
  if (g.measureText(s).width <= room) return s;
  let n = Math.max(2, Math.floor((s.length * room) / g.measureText(s).width) - 1);
  while (n > 2 && g.measureText(`${s.slice(0, Math.ceil(n / 2))}…${s.slice(-Math.floor(n / 2))}`).width > room) n--;
  return `${s.slice(0, Math.ceil(n / 2))}…${s.slice(-Math.floor(n / 2))}`;
}
