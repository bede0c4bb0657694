// Traces in Chrome's format, as TensorFlow's timeline and profilers write them: an object with traceEvents, or the events alone.

/** loaded is the trace that is shown, and what each node cost in it; other pages colour by it. */
export const loaded = { trace: null, costs: null, from: "" };

/** limits on what is read: a page that hangs tells nothing. */
const mostEvents = 2_000_000;

/** around are the categories of events that last while ops run. */
const around = new Set(["step", "part", "plan"]);

/** parse reads a trace. It throws an Error that says what is wrong. */
export function parse(value) {
  const events = Array.isArray(value) ? value : value?.traceEvents;
  if (!Array.isArray(events)) throw new Error("This is no trace in Chrome's format: it has no traceEvents.");
  if (events.length > mostEvents) throw new Error(`The trace has ${events.length} events; ${mostEvents} are the most that are read.`);
  const processes = new Map(), threads = new Map(), open = new Map(), spans = [], flows = new Map();
  const thread = (e) => {
    const key = `${e.pid}/${e.tid}`;
    let t = threads.get(key);
    if (!t) threads.set(key, t = { pid: e.pid, tid: e.tid, name: "", spans: [] });
    return t;
  };
  const number = (v) => (typeof v === "number" && Number.isFinite(v) ? v : Number(v) || 0);
  for (const e of events) {
    if (!e || typeof e !== "object") continue;
    switch (e.ph) {
      case "M":
        if (e.name === "process_name") processes.set(e.pid, String(e.args?.name ?? e.pid));
        if (e.name === "thread_name") thread(e).name = String(e.args?.name ?? "");
        break;
      case "X":
        add(thread(e), { cat: e.cat, name: String(e.name ?? ""), at: number(e.ts), took: Math.max(0, number(e.dur)), args: e.args ?? {} });
        break;
      case "B": {
        const key = `${e.pid}/${e.tid}`;
        if (!open.has(key)) open.set(key, []);
        open.get(key).push(e);
        break;
      }
      case "E": {
        const b = open.get(`${e.pid}/${e.tid}`)?.pop();
        if (b) add(thread(b), { cat: b.cat, name: String(b.name ?? ""), at: number(b.ts), took: Math.max(0, number(e.ts) - number(b.ts)), args: { ...b.args, ...e.args } });
        break;
      }
      case "s":
      case "t":
      case "f": {
        const key = `${e.cat ?? ""}/${e.name ?? ""}/${e.id}`;
        if (!flows.has(key)) flows.set(key, []);
        flows.get(key).push({ ph: e.ph, key: `${e.pid}/${e.tid}`, at: number(e.ts) });
        break;
      }
    }
  }
  function add(t, s) {
    // Steps and their parts are around the ops, and none themselves.
    s.around = s.args.op === undefined && around.has(s.cat);
    s.op = String(s.args.op ?? (s.around ? s.cat : s.name));
    s.node = String(s.args.name ?? s.args.node ?? s.name);
    s.thread = t;
    t.spans.push(s);
    spans.push(s);
  }
  if (!spans.length) throw new Error("The trace has no events with a duration.");
  const all = [...threads.values()].filter((t) => t.spans.length);
  for (const t of all) t.spans.sort((a, b) => a.at - b.at || b.took - a.took);
  const begin = spans.reduce((m, s) => Math.min(m, s.at), Infinity);
  let end = 0;
  for (const s of spans) {
    s.at -= begin;
    end = Math.max(end, s.at + s.took);
  }
  for (const list of flows.values()) for (const e of list) e.at -= begin;
  const lanes = layers(all, processes);
  return { spans, lanes, end, arrows: [...flowArrows(flows, threads), ...tensorArrows(spans)] };
}

/** layers puts the spans of each thread into as many rows as overlap. */
function layers(threads, processes) {
  const by = new Map();
  for (const t of threads) {
    const name = processes.get(t.pid) ?? `process ${t.pid}`;
    if (!by.has(t.pid)) by.set(t.pid, { pid: t.pid, name, threads: [] });
    by.get(t.pid).threads.push(t);
  }
  const lanes = [...by.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  let row = 0;
  for (const lane of lanes) {
    lane.row = row++;
    lane.threads.sort((a, b) => a.tid - b.tid);
    for (const t of lane.threads) {
      t.row = row;
      const ends = [];
      for (const s of t.spans) {
        let k = ends.findIndex((e) => e <= s.at + 1e-9);
        if (k < 0) k = ends.length;
        ends[k] = s.at + s.took;
        s.row = row + k;
      }
      t.rows = ends.length;
      row += ends.length;
    }
  }
  return Object.assign(lanes, { rows: row });
}

/** flowArrows are those that the trace has itself. */
function flowArrows(flows, threads) {
  const out = [];
  for (const list of flows.values()) {
    list.sort((a, b) => a.at - b.at);
    for (let i = 1; i < list.length; i++) {
      const from = spanAt(threads.get(list[i - 1].key), list[i - 1].at), to = spanAt(threads.get(list[i].key), list[i].at);
      if (from && to && from !== to) out.push({ from, to });
    }
  }
  return out;
}

/** spanAt is the span of a thread at a moment, or the next one. */
function spanAt(thread, at) {
  if (!thread) return null;
  let low = 0, high = thread.spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (thread.spans[middle].at <= at) low = middle + 1;
    else high = middle;
  }
  for (let i = low - 1; i >= 0 && i > low - 16; i--) {
    const s = thread.spans[i];
    if (at <= s.at + s.took) return s;
  }
  return thread.spans[low] ?? null;
}

/** tensorArrows go from the Send of a tensor to its Recv, which name it alike in their arguments. */
function tensorArrows(spans) {
  const sends = new Map(), out = [];
  const edge = (s) => s.args.edge ?? s.args.tensor_name;
  for (const s of spans) if (/Send$/.test(s.op) && edge(s)) sends.set(edge(s), s);
  for (const s of spans) {
    const from = /Recv$/.test(s.op) && edge(s) && sends.get(edge(s));
    if (from) out.push({ from, to: s });
  }
  return out;
}

/** remember keeps a trace for all pages. */
export function remember(trace, from) {
  const all = new Map(), sessions = new Map();
  const of = new Map(trace.spans.filter((s) => s.args.session && s.args.step).map((s) => [s.args.step, s.args.session])); // by step
  const add = (costs, s) => {
    const c = costs.get(s.node) ?? { time: 0, memory: 0 };
    c.time += s.took;
    c.memory += Number(s.args.bytes ?? s.args.memory ?? 0) || 0;
    costs.set(s.node, c);
  };
  for (const s of trace.spans) {
    if (s.around) continue; // a step may be called like its target
    add(all, s);
    const session = s.args.session ?? of.get(s.args.step);
    if (!session) continue;
    if (!sessions.has(session)) sessions.set(session, new Map());
    add(sessions.get(session), s);
  }
  Object.assign(loaded, { trace, costs: { all, sessions }, from });
}

/** costsOf is what the nodes of a session cost, by name; where the trace is not about the session, what nodes of the same names did. Null without a trace. */
export const costsOf = (session) => loaded.costs && (loaded.costs.sessions.get(session) ?? loaded.costs.all);

/** hottest sums the spans by op. */
export function hottest(spans) {
  const by = new Map();
  let all = 0;
  for (const s of spans) {
    if (s.around) continue;
    const o = by.get(s.op) ?? { op: s.op, count: 0, total: 0, most: 0, longest: null };
    o.count++;
    o.total += s.took;
    if (s.took >= o.most) [o.most, o.longest] = [s.took, s];
    all += s.took;
    by.set(s.op, o);
  }
  return [...by.values()].map((o) => ({ ...o, part: all ? o.total / all : 0 })).sort((a, b) => b.total - a.total);
}
