// How a graph is folded into few things, and where these are put: no drawing, no document.

import { count } from "./format.js";

/** most is how many things a view shows; where there are more, they are folded. */
export const most = 120;

/**
 * Folded is a graph by name scopes: a tree of groups whose leaves are the nodes. A group with too many members gets groups in
 * between: things of the same name but for a number, nodes of the same op, and then parts of these.
 */
export class Folded {
  constructor(graph) {
    this.graph = graph;
    this.root = { name: "", path: "", parent: null, children: new Map(), node: -1 };
    graph.names.forEach((name, i) => {
      let at = this.root;
      const parts = name.split("/");
      parts.forEach((part, k) => {
        let next = at.children.get(part);
        if (!next) at.children.set(part, next = { name: part, path: at.path ? `${at.path}/${part}` : part, parent: at, children: new Map(), node: -1 });
        if (k === parts.length - 1) next.node = i;
        at = next;
      });
    });
    this.leaves = new Array(graph.names.length);
    this.fold(this.root);
    this.count(this.root);
  }

  /** fold puts groups into a group of too many; where a node is a scope as well, it becomes one of its own things. */
  fold(group) {
    if (group.node >= 0 && group.children.size) {
      const name = `(${group.name})`;
      group.children.set(name, { name, path: `${group.path}/${name}`, parent: group, children: new Map(), node: group.node });
      group.node = -1;
    }
    if (group.node >= 0) this.leaves[group.node] = group;
    const inner = [...group.children.values()];
    if (inner.length > most) this.divide(group, inner);
    for (const c of group.children.values()) this.fold(c);
  }

  divide(group, inner) {
    const by = new Map();
    for (const c of inner) {
      const label = group.series ? "" : c.children.size ? `${c.name.replace(/\d+/g, "#")}` : `${this.graph.ops[this.graph.op[c.node]]} nodes`;
      if (!by.has(label)) by.set(label, []);
      by.get(label).push(c);
    }
    group.children = new Map();
    const put = (name, members, kind) => {
      const g = { name, path: `${group.path}${group.path ? "/" : ""}{${name}}`, parent: group, children: new Map(), node: -1, series: kind };
      for (const m of members) {
        m.parent = g;
        g.children.set(m.name, m);
      }
      group.children.set(`{${name}}`, g);
    };
    if (by.size === 1 || by.size > most) {
      const size = Math.ceil(inner.length / Math.ceil(Math.min(most, Math.sqrt(inner.length))));
      for (let i = 0; i < inner.length; i += size) {
        const part = inner.slice(i, i + size);
        put(part.length > 1 ? `${part[0].name} … ${part.at(-1).name}` : part[0].name, part, true);
      }
      return;
    }
    for (const [label, members] of by) {
      if (members.length === 1) group.children.set(members[0].name, members[0]);
      else put(label, members, false);
    }
  }

  /** count tells of each group how many nodes it has, and on which devices and of which ops they are. */
  count(group) {
    const g = this.graph;
    group.devices = new Map();
    group.nodes = 0;
    if (group.node >= 0) {
      group.nodes = 1;
      group.devices.set(g.device[group.node], 1);
      return;
    }
    for (const c of group.children.values()) {
      this.count(c);
      group.nodes += c.nodes;
      for (const [d, n] of c.devices) group.devices.set(d, (group.devices.get(d) ?? 0) + n);
    }
  }

  /** find is the group of a path; the nearest one above if there is none. */
  find(path) {
    let at = this.root;
    search: while (at.path !== path) {
      for (const c of at.children.values()) {
        if (c.node < 0 && (path === c.path || path.startsWith(`${c.path}/`) || c.series !== undefined && [...walk(c)].some((x) => x.path === path))) {
          at = c;
          continue search;
        }
      }
      return at;
    }
    return at;
  }

  /** leaf is the thing of a node's name. */
  leaf(name) {
    const i = this.index ??= new Map(this.graph.names.map((n, k) => [n, k]));
    return this.leaves[i.get(name)];
  }

  /**
   * view is what a group shows: its things, and beside them what they are joined with outside, folded; and the edges between them, with
   * how many tensors and controls they stand for, and how many of these go from one task to another.
   */
  view(group) {
    const g = this.graph;
    const depth = depthOf(group) + 1;
    const ancestors = [];
    for (let a = group; a; a = a.parent) ancestors.push(a);
    const home = new Map(); // by thing of the tree, what stands for it
    const items = [...group.children.values()].map((t) => ({ thing: t, outside: false }));
    const byThing = new Map(items.map((i) => [i.thing, i]));
    const standsFor = (leaf) => {
      let item = home.get(leaf);
      if (item) return item;
      let at = leaf, under = leaf;
      while (at && !ancestors.includes(at)) [under, at] = [at, at.parent];
      item = byThing.get(under);
      if (!item) {
        item = { thing: under, outside: true };
        byThing.set(under, item);
        items.push(item);
      }
      home.set(leaf, item);
      return item;
    };
    const inside = new Uint8Array(g.names.length);
    for (const leaf of walk(group)) if (leaf.node >= 0) inside[leaf.node] = 1;
    const tasks = g.devices.map((d) => d.split("/device:")[0]);
    const edges = new Map();
    const join = (from, to, control) => {
      if (!inside[from] && !inside[to]) return;
      const a = standsFor(this.leaves[from]), b = standsFor(this.leaves[to]);
      if (a === b) return;
      a.id ??= ids++;
      b.id ??= ids++;
      const key = a.id * 1e6 + b.id;
      let e = edges.get(key);
      if (!e) edges.set(key, e = { from: a, to: b, tensors: 0, controls: 0, cut: 0 });
      e[control ? "controls" : "tensors"]++;
      if (tasks[g.device[from]] !== tasks[g.device[to]]) e.cut++;
    };
    let ids = 0;
    for (let i = 0; i < g.names.length; i++) {
      for (const j of g.inputs[i]) if (j < inside.length) join(j, i, false);
      for (const j of g.control[i]) if (j < inside.length) join(j, i, true);
    }
    return { group, depth, items: foldOutside(items, edges), edges: [...edges.values()].filter((e) => !e.gone) };
  }
}

/** outsideMost is how many things outside a group are shown beside it. */
const outsideMost = 24;

/** foldOutside leaves those that most edges lead to, and makes one of the others. */
function foldOutside(items, edges) {
  const weight = new Map();
  for (const e of edges.values()) {
    for (const end of [e.from, e.to]) if (end.outside) weight.set(end, (weight.get(end) ?? 0) + e.tensors + e.controls);
  }
  const outer = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a));
  if (outer.length <= outsideMost) return items;
  const rest = new Set(outer.slice(outsideMost - 1));
  const others = { outside: true, thing: { name: `${rest.size} others`, path: "", children: new Map(), node: -1, nodes: 0, devices: new Map(), virtual: true } };
  for (const r of rest) {
    others.thing.nodes += r.thing.nodes;
    for (const [d, n] of r.thing.devices) others.thing.devices.set(d, (others.thing.devices.get(d) ?? 0) + n);
  }
  const merged = new Map();
  for (const e of edges.values()) {
    const from = rest.has(e.from) ? others : e.from, to = rest.has(e.to) ? others : e.to;
    if (from === e.from && to === e.to) continue;
    e.gone = true;
    if (from === to) continue;
    const key = from === others ? `<${to.id}` : `>${from.id}`;
    const m = merged.get(key);
    if (m) {
      m.tensors += e.tensors;
      m.controls += e.controls;
      m.cut += e.cut;
    } else merged.set(key, { ...e, from, to, gone: false });
  }
  for (const [key, e] of merged) edges.set(key, e);
  return [...items.filter((i) => !rest.has(i)), others];
}

const depthOf = (group) => (group.parent ? 1 + depthOf(group.parent) : 0);

/** walk gives a group's leaves, and itself if it is one. */
export function* walk(group) {
  if (group.node >= 0) yield group;
  for (const c of group.children.values()) yield* walk(c);
}

const height = 28;
const narrowest = 72, widest = 360; // of items

/** label is what an item shows: its name, and of a group with several nodes their number. */
export const label = (i) => ({ name: i.outside && i.thing.node >= 0 ? i.thing.path : i.thing.name, count: i.thing.node < 0 && i.thing.nodes > 1 ? count(i.thing.nodes) : "" });

/** widthFor is what an item needs for its label, by the widths of texts. */
function widthFor(item, measure) {
  const l = label(item);
  return Math.min(widest, Math.max(narrowest, Math.ceil(measure(l.name) + (l.count && measure(l.count) + 10)) + 18));
}

/**
 * place puts the items of a view in ranks, in the order of the edges: from left to right or from top to bottom, whichever lets the whole be
 * larger in a window of that size. Items without edges come below. It sets x, y, w and h of items, and points of edges. measure
 * gives the width of a text: items are as wide as their labels, within limits.
 */
export function place(view, window = { w: 4, h: 3 }, measure = (s) => 7 * s.length) {
  const { items, edges } = view;
  for (const i of items) Object.assign(i, { out: [], in: [], rank: 0, w: widthFor(i, measure), h: height, prev: [], next: [] });
  const joined = edges.filter((e) => e.from !== e.to);
  for (const e of joined) {
    e.back = false;
    e.from.out.push(e);
    e.to.in.push(e);
  }
  breakCycles(items);
  rankAll(items);
  // A long edge has a place in each rank that it passes.
  const ranks = [];
  const rank = (r) => (ranks[r] ??= []);
  const loose = items.filter((i) => !i.out.length && !i.in.length);
  for (const i of items) if (i.out.length || i.in.length) rank(i.rank).push(i);
  let passing = 0;
  for (const e of joined) {
    const [a, b] = e.back ? [e.to, e.from] : [e.from, e.to];
    e.via = [];
    if (b.rank - a.rank - 1 + passing > 3000) continue;
    for (let r = a.rank + 1; r < b.rank; r++) {
      const v = { passes: true, prev: [], next: [] };
      e.via.push(v);
      rank(r).push(v);
      passing++;
    }
    const chain = [a, ...e.via, b];
    for (let k = 1; k < chain.length; k++) {
      chain[k - 1].next.push(chain[k]);
      chain[k].prev.push(chain[k - 1]);
    }
  }
  const all = ranks.filter(Boolean);
  order(all);
  const ways = [false, true].map((down) => {
    const at = spread(all, down);
    return { down, at, scale: Math.min(1.1, window.w / at.w, window.h / at.h) };
  });
  const { down, at } = ways[1].scale > ways[0].scale ? ways[1] : ways[0];
  for (const r of all) for (const i of r) Object.assign(i, at.places.get(i));
  let bottom = 0;
  for (const r of all) for (const i of r) bottom = Math.max(bottom, i.y + (i.h ?? 0));
  const wide = Math.max(narrowest, ...loose.map((i) => i.w)) + 16;
  const perRow = Math.max(4, Math.round(Math.sqrt((loose.length * window.w * (height + 12)) / (window.h * wide))));
  loose.forEach((i, k) => {
    i.x = (k % perRow) * wide;
    i.y = bottom + (bottom ? 40 : 0) + Math.floor(k / perRow) * (height + 12);
  });
  for (const e of joined) {
    const [a, b] = e.back ? [e.to, e.from] : [e.from, e.to];
    e.down = down;
    e.points = down ? [[a.x + a.w / 2, a.y + a.h], ...e.via.flatMap((v) => [[v.x, v.y], [v.x, v.y + height]]), [b.x + b.w / 2, b.y]]
      : [[a.x + a.w, a.y + a.h / 2], ...e.via.flatMap((v) => [[v.x, v.y], [v.x + v.long, v.y]]), [b.x, b.y + b.h / 2]];
    if (e.back) e.points.reverse();
  }
  view.box = items.reduce((b, i) => ({ x0: Math.min(b.x0, i.x), y0: Math.min(b.y0, i.y), x1: Math.max(b.x1, i.x + i.w), y1: Math.max(b.y1, i.y + i.h) }), { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity });
  if (!items.length) view.box = { x0: 0, y0: 0, x1: widest, y1: height };
  return view;
}

/** spread gives the places of ranks' items, from left to right or from top to bottom, and the size of the whole. */
function spread(ranks, down) {
  const depths = ranks.map((r) => (down ? height : Math.max(narrowest, ...r.map((i) => i.w ?? 0)))); // along the edges
  const begins = []; // of each rank
  let long = 0;
  for (const d of depths) {
    begins.push(long);
    long += d + (down ? 44 : 46);
  }
  const size = (i) => (i.passes ? 6 : down ? i.w : height);
  const gap = down ? 14 : 12;
  const at = new Map(); // the middle of an item across the ranks
  for (const r of ranks) {
    let c = -r.reduce((s, i) => s + size(i) + gap, 0) / 2;
    for (const i of r) {
      at.set(i, c + size(i) / 2);
      c += size(i) + gap;
    }
  }
  // Items move towards the middle of their neighbours, as far as those beside them let them.
  for (let sweep = 0; sweep < 6; sweep++) {
    const forth = sweep % 2 === 0;
    for (const r of forth ? ranks : [...ranks].reverse()) {
      const want = r.map((i) => {
        const n = forth ? i.prev : i.next;
        return n.length ? n.reduce((s, m) => s + at.get(m), 0) / n.length : at.get(i);
      });
      const apart = (a, b) => (size(a) + size(b)) / 2 + gap;
      const low = [], high = [];
      r.forEach((i, k) => { low[k] = k ? Math.max(want[k], low[k - 1] + apart(r[k - 1], i)) : want[k]; });
      for (let k = r.length - 1; k >= 0; k--) high[k] = k < r.length - 1 ? Math.min(want[k], high[k + 1] - apart(r[k], r[k + 1])) : want[k];
      let floor = -Infinity;
      r.forEach((i, k) => {
        const c = Math.max((low[k] + high[k]) / 2, floor);
        at.set(i, c);
        if (k < r.length - 1) floor = c + apart(i, r[k + 1]);
      });
    }
  }
  const places = new Map();
  let low = 0, high = 0;
  ranks.forEach((r, k) => {
    for (const i of r) {
      const c = at.get(i), half = size(i) / 2;
      low = Math.min(low, c - half);
      high = Math.max(high, c + half);
      if (i.passes) places.set(i, down ? { x: c, y: begins[k] } : { x: begins[k], y: c, long: depths[k] });
      else places.set(i, down ? { x: c - half, y: begins[k] } : { x: begins[k], y: c - half });
    }
  });
  return { places, w: down ? high - low : long, h: down ? long : high - low };
}

/** breakCycles marks edges that lead back, so that there are no cycles without them. */
function breakCycles(items) {
  const done = new Set(), open = new Set();
  for (const start of [...items].sort((a, b) => a.in.length - b.in.length)) {
    if (done.has(start)) continue;
    const stack = [[start, 0]];
    open.add(start);
    while (stack.length) {
      const top = stack.at(-1);
      const e = top[0].out[top[1]++];
      if (!e) {
        open.delete(top[0]);
        done.add(top[0]);
        stack.pop();
      } else if (open.has(e.to)) e.back = true;
      else if (!done.has(e.to)) {
        open.add(e.to);
        stack.push([e.to, 0]);
      }
    }
  }
}

/** rankAll gives each item a rank after those of its inputs, and moves those without inputs next to what takes theirs. */
function rankAll(items) {
  const before = (i) => [...i.in.filter((e) => !e.back).map((e) => e.from), ...i.out.filter((e) => e.back).map((e) => e.to)];
  const after = (i) => [...i.out.filter((e) => !e.back).map((e) => e.to), ...i.in.filter((e) => e.back).map((e) => e.from)];
  const left = new Map(items.map((i) => [i, before(i).length]));
  const queue = items.filter((i) => left.get(i) === 0);
  for (let k = 0; k < queue.length; k++) {
    for (const n of after(queue[k])) {
      n.rank = Math.max(n.rank, queue[k].rank + 1);
      left.set(n, left.get(n) - 1);
      if (left.get(n) === 0) queue.push(n);
    }
  }
  for (const i of queue.reverse()) {
    if (before(i).length === 0 && after(i).length) i.rank = Math.max(0, Math.min(...after(i).map((n) => n.rank)) - 1);
  }
}

/** order sorts each rank by where the neighbours are, to and fro. */
function order(ranks) {
  const mean = (list) => list.reduce((s, i) => s + i.at, 0) / list.length;
  for (const r of ranks) r.forEach((i, k) => { i.at = k; });
  for (let sweep = 0; sweep < 8; sweep++) {
    const forth = sweep % 2 === 0;
    for (const c of forth ? ranks : [...ranks].reverse()) {
      for (const i of c) {
        const n = forth ? i.prev : i.next;
        i.want = n.length ? mean(n) : i.at;
      }
      c.sort((a, b) => a.want - b.want);
      c.forEach((i, k) => { i.at = k; });
    }
  }
}
