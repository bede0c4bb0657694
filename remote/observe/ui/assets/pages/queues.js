import { h, panel, text } from "../dom.js";
import { Chart } from "../chart.js";
import { Table } from "../table.js";
import { Facts, searchField, matcher, task, session, step, omitted } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Queues",
  query: (p) => (p.id ? { sections: "resources,steps", limit: 16_384 } : { sections: "resources", limit: 16_384 }),
  show: (main, app, params) => (params.id ? one(main, app, params) : all(main, app, params)),
};

const queuesOf = (state) => state.tasks.flatMap((t) => (t.resources ?? []).filter((r) => r.queue).map((r) => ({ r, q: r.queue, t, key: `${t.task}|${r.id}`, rates: t.queueRates?.(r.id) })));

const bounded = (q) => q.capacity !== undefined && q.capacity > 0;

/** condition says in a word or two how a queue is. */
function condition({ q }) {
  const size = q.size ?? 0;
  if (q.missed) return { text: "closed, missed", badge: "warn", title: `sessions that were opened after it was closed got nothing but its end: ${f.count(q.missed)}` };
  if (q.closed) return { text: "closed", badge: "none", title: q.closed_because };
  if (q.enqueues_waiting) return { text: "full", badge: "warn" };
  if (q.dequeues_waiting) return { text: size ? "too few elements" : "empty", badge: "warn" };
  return { text: "flows", badge: "good" };
}

const who = (app, o, clock) => (o?.step ? { text: `session ${o.session} ${f.ago(o.at, clock)} ago`, href: app.link("sessions", { id: o.session, task: o.master }), title: `step ${o.step}, whose master is ${f.taskName(o.master)}` } : { text: "never", cls: "muted" });

function all(main, app, params) {
  const note = h("span", { class: "muted" });
  const table = new Table({ label: "Queues", sorted: params.sort ?? "-waits", onSort: (sort) => app.set({ sort }), key: (x) => x.key, empty: "No task has a queue.",
    columns: [
      { id: "name", label: "Queue", min: 110, cell: (x) => ({ text: x.r.name, href: app.link("queues", { id: x.key }), title: `${x.r.name} in container '${x.r.container ?? ""}'` }) },
      { id: "task", label: "Task", width: 80, cell: (x) => task(app, x.t.task) },
      { id: "kind", label: "Kind", width: 100, cell: (x) => ({ text: x.q.kind, title: x.q.kind }) },
      { id: "state", label: "State", width: 112, cell: condition },
      { id: "size", label: "Elements", num: true, width: 74, cell: (x) => f.count(x.q.size ?? 0), sort: (x) => x.q.size ?? 0 },
      { id: "capacity", label: "Capacity", num: true, width: 72, cell: (x) => (bounded(x.q) ? f.count(x.q.capacity) : "none"), sort: (x) => (bounded(x.q) ? x.q.capacity : Infinity) },
      { id: "fill", label: "Fill", width: 76, cell: (x) => ({ text: bounded(x.q) ? `${Math.round((100 * (x.q.size ?? 0)) / x.q.capacity)} %` : "unbounded", meter: bounded(x.q) ? (x.q.size ?? 0) / x.q.capacity : 0 }), sort: (x) => (bounded(x.q) ? (x.q.size ?? 0) / x.q.capacity : 0) },
      { id: "trend", label: "Lately", width: 96, cell: (x) => ({ text: "elements over the last minute", spark: x.past?.sizes.slice(-54) ?? [], most: bounded(x.q) ? x.q.capacity : 0 }), sort: () => 0 },
      { id: "in", label: "In/s", num: true, width: 58, cell: (x) => f.rate(x.rates?.in), sort: (x) => x.rates?.in ?? NaN },
      { id: "out", label: "Out/s", num: true, width: 58, cell: (x) => f.rate(x.rates?.out), sort: (x) => x.rates?.out ?? NaN },
      { id: "waits", label: "Waiting in / out", num: true, width: 118, title: "enqueues and dequeues that wait", cell: (x) => waiting(x.q), sort: (x) => (x.q.enqueues_waiting ?? 0) + (x.q.dequeues_waiting ?? 0) },
      { id: "since", label: "For", num: true, width: 68, cell: (x) => f.ago(x.q.waiting_since, x.t.clock), sort: (x) => (x.q.waiting_since ? x.t.clock - x.q.waiting_since : NaN) },
    ], under: (x) => ["Last enqueue: ", who(app, x.q.last_enqueue, x.t.clock), "; last dequeue: ", who(app, x.q.last_dequeue, x.t.clock)] });
  main.append(h("div", { class: "bar" }, searchField(app, params), note), h("section", { class: "panel fill", "aria-label": "Queues" }, table.el));
  return {
    update(state, p) {
      const matches = matcher(p.q);
      const every = queuesOf(state);
      const rows = !p.q ? every : every.filter((x) => matches(x.r.name, x.r.container, f.taskName(x.t.task), x.q.kind, condition(x).text));
      for (const x of rows) x.past = state.queues.get(x.key);
      const left = omitted(state.tasks, "resources");
      text(note, `${f.count(rows.length)} queues${left ? `; ${left}` : ""}`);
      table.update(rows);
    },
    destroy: () => table.destroy(),
  };
}

const waiting = (q) => (q.enqueues_waiting || q.dequeues_waiting ? { text: `${f.count(q.enqueues_waiting ?? 0)} / ${f.count(q.dequeues_waiting ?? 0)}`, cls: "warn" } : "0 / 0");

function one(main, app, params) {
  const facts = new Facts();
  const chart = new Chart({ title: "Elements", format: f.count });
  const gone = h("p", { class: "note", hidden: true }, "There is no such resource any more.");
  const waits = new Table({ label: "Operations that wait", sorted: "-for", key: (w) => w.step + w.node, empty: "No operation waits.",
    columns: [
      { id: "for", label: "For", num: true, width: 90, cell: (w) => f.ago(w.since, w.clock), sort: (w) => (w.since ? w.clock - w.since : NaN) },
      { id: "verb", label: "To", width: 90, cell: (w) => w.verb ?? "" },
      { id: "amount", label: "Elements", num: true, width: 80, cell: (w) => f.count(w.amount || 1), sort: (w) => w.amount ?? 1 },
      { id: "step", label: "Step", width: 160, cell: (w) => step(app, w.step) },
      { id: "session", label: "Session", width: 90, cell: (w) => session(app, w.session) },
      { id: "node", label: "Node", min: 160, wrap: true, cell: (w) => w.node },
    ] });
  const [at, id] = split(params.id);
  const title = h("h2", {}, id);
  main.append(h("div", { class: "bar" }, title, h("a", { href: app.link("queues") }, "all queues")), gone, panel("What it is", facts.el), chart.el,
    panel("Who waits", waits.el));
  return {
    update(state) {
      const t = state.tasks.find((x) => x.task === at);
      const r = t?.resources?.find((x) => x.id === id);
      gone.hidden = Boolean(r);
      if (!r) return;
      const q = r.queue, rates = t.queueRates?.(id);
      text(title, `${r.name} on ${f.taskName(at)}`);
      chart.el.hidden = !q;
      facts.update(q ? [
        ["Task", task(app, at)], ["Kind", q.kind],
        ["Container", r.container || "the default one"], ["State", condition({ q }).text + (q.closed_because ? `: ${q.closed_because}` : "")],
        ["Elements", `${f.count(q.size ?? 0)} of ${bounded(q) ? f.count(q.capacity) : "any number"}${q.min_after_dequeue ? `, of which ${f.count(q.min_after_dequeue)} stay` : ""}`], ["Size", f.bytes(r.bytes ?? 0)],
        ["Enqueued", `${f.count(q.enqueued ?? 0)}, ${f.rate(rates?.in)} a second`], ["Dequeued", `${f.count(q.dequeued ?? 0)}, ${f.rate(rates?.out)} a second`],
        ...(q.closed ? [["Closed", who(app, q.closed_by, t.clock)]] : []),
        ...(q.missed ? [["Sessions opened later that got nothing but its end", f.count(q.missed)], ["The last of them", who(app, q.last_missed, t.clock)]] : []),
        ["Last enqueue", who(app, q.last_enqueue, t.clock)], ["Last dequeue", who(app, q.last_dequeue, t.clock)],
        ["Enqueues waiting", f.count(q.enqueues_waiting ?? 0)], ["Dequeues waiting", `${f.count(q.dequeues_waiting ?? 0)}${q.lacking ? `; the first lacks ${f.count(q.lacking)} elements` : ""}`],
      ].map(([n, v]) => [n, v?.text && !v.href ? v.text : v]) : [["Task", task(app, at)], ["Kind", r.kind], ["Container", r.container || "the default one"], ["Size", r.bytes ? f.bytes(r.bytes) : "not known"], ["Description", r.description || "–"], ["Held by", (r.held_by ?? []).join(", ") || "nobody"]]);
      const past = state.queues.get(params.id);
      if (q && past) chart.update(past.times, [{ name: "elements", values: past.sizes }, ...(bounded(q) ? [{ name: "capacity", values: past.times.map(() => q.capacity), hue: "muted" }] : [])]);
      waits.update((t.steps ?? []).flatMap((s) => (s.waits ?? []).filter((w) => w.resource === id).map((w) => ({ ...w, step: s.id, session: s.session, clock: t.clock }))));
    },
    destroy() {
      chart.destroy();
      waits.destroy();
    },
  };
}

function split(key) {
  const i = key.indexOf("|");
  return [key.slice(0, i), key.slice(i + 1)];
}
