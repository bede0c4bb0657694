import { h, panel, text, List } from "../dom.js";
import { Table } from "../table.js";
import { Facts, plain, reason, searchField, matcher, task, session, step, omitted, said, cancelStep } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Steps",
  reasons: true,
  query: (p) => (p.id ? { sections: "steps,resources", step: p.id, detail: true, limit: 1 } : { sections: "steps", limit: 4000 }),
  show: (main, app, params) => (params.id ? one(main, app, params) : all(main, app, params)),
};

function all(main, app, params) {
  const note = h("span", { class: "muted" }), done = said();
  const table = new Table({ label: "Steps", sorted: params.sort ?? "-for", onSort: (sort) => app.set({ sort }), key: (s) => s.id, empty: "No step runs at this moment.",
    columns: [
      { id: "for", label: "Runs for", num: true, width: 90, cell: (s) => f.span(s.seconds), sort: (s) => s.seconds },
      { id: "step", label: "Step", width: 150, cell: (s) => step(app, s.id) },
      ...(app.state.about.cancel ? [{ id: "cancel", label: "Cancel", width: 70, cell: (s) => ({ text: "Cancel", label: `Cancel step ${s.id}`, button: () => cancelStep(app, done, s.id) }), sort: () => 0 }] : []),
      { id: "session", label: "Session", width: 90, cell: (s) => session(app, s.session) },
      { id: "master", label: "Master", width: 90, cell: (s) => task(app, s.master) },
      { id: "parts", label: "Parts", num: true, width: 60, title: "tasks that run a part of it", cell: (s) => f.count(s.parts), sort: (s) => s.parts },
      { id: "waits", label: "Waiting nodes", num: true, width: 110, cell: (s) => f.count(s.waiting), sort: (s) => s.waiting },
      { id: "what", label: "Fetches and targets", min: 180, cell: (s) => ({ text: s.what, title: s.what }) },
    ], under: (s) => [{ text: s.why, cls: s.deadlock ? "bad" : "" }] });
  main.append(h("div", { class: "bar" }, searchField(app, params), note, done), h("section", { class: "panel fill", "aria-label": "Steps" }, table.el));
  return {
    update(state, p) {
      const matches = matcher(p.q);
      const rows = merged(state).filter((s) => matches(s.id, s.session, f.taskName(s.master), s.what, s.why));
      text(note, omitted(state.tasks, "steps"));
      table.update(rows);
    },
    destroy: () => table.destroy(),
  };
}

/** merged is the running steps, each once, of what all tasks tell of them. */
function merged(state) {
  const by = new Map();
  const why = new Map(state.reasons.map((r) => [r.step, { text: plain(r.text), deadlock: r.deadlock }]));
  for (const t of state.tasks) {
    for (const s of t.steps ?? []) {
      let m = by.get(s.id);
      if (!m) by.set(s.id, m = { id: s.id, session: s.session, master: s.master, parts: 0, waiting: 0, seconds: 0, what: "", why: why.get(s.id)?.text ?? "", deadlock: why.get(s.id)?.deadlock });
      m.seconds = Math.max(m.seconds, f.seconds(s.began, t.clock));
      m.parts += s.runs ? 1 : 0;
      m.waiting += s.waits?.length ?? 0;
      if (s.fetches || s.targets) m.what = [...(s.fetches ?? []), ...(s.targets ?? [])].join(", ");
      if (s.error && !m.why) m.why = s.error;
    }
  }
  return [...by.values()];
}

function one(main, app, params) {
  const facts = new Facts();
  const why = h("p", { class: "body" });
  const gone = h("p", { class: "note", hidden: true }, "The step has ended.");
  const done = said(), cancel = h("button", { type: "button", class: "danger", click: () => cancelStep(app, done, params.id) }, "Cancel the step");
  const parts = h("div");
  const lists = new List(parts, (p) => p.task, () => {
    const table = new Table({ label: "Nodes that have begun and not ended", sorted: "-for", key: (w) => w.node, empty: "None of its nodes waits here: it computes, or its part has ended.",
      columns: [
        { id: "for", label: "For", num: true, width: 80, cell: (w) => f.ago(w.since, w.clock), sort: (w) => (w.since ? w.clock - w.since : NaN) },
        { id: "node", label: "Node", min: 200, cell: (w) => ({ text: w.node, href: w.link, title: w.function ? `${w.node} of the function ${w.function}` : w.node }) },
        { id: "op", label: "Op", width: 150, cell: (w) => w.op },
        { id: "device", label: "Device", width: 90, cell: (w) => ({ text: (w.device ?? "").split("/device:")[1] ?? "", title: w.device }) },
        { id: "kind", label: "Waits for", width: 90, cell: (w) => w.kind },
        { id: "what", label: "Which", min: 260, wrap: true, cell: (w) => which(app, w) },
      ] });
    table.el.classList.add("scroll");
    const title = h("h2");
    return { el: h("section", { class: "panel" }, h("header", {}, title), table.el), update: (p) => {
      text(title, `The part on ${f.taskName(p.task)}${p.compiling ? ", which is being compiled" : p.runs ? "" : ", which has ended"}`);
      table.update(p.waits);
    } };
  });
  main.append(h("div", { class: "bar" }, h("h2", {}, `Step ${params.id}`), h("a", { href: app.link("steps") }, "all steps"), done, h("span", { class: "grow" }),
    app.state.about.cancel && cancel),
  gone, panel("What it is", h("div", {}, facts.el)), panel("Why it does not end", why), parts);
  return {
    update(state) {
      const id = Number(params.id);
      const told = state.tasks.flatMap((t) => (t.steps ?? []).filter((s) => s.id === id).map((s) => ({ t, s })));
      gone.hidden = told.length > 0;
      cancel.hidden = told.length === 0;
      if (!told.length) {
        reason(why, "");
        return;
      }
      const own = told.find(({ t, s }) => s.master === t.task) ?? told[0];
      const r = state.reasons.find((x) => x.step === id);
      reason(why, r?.text ?? own.s.error ?? "It has not run for a second yet.");
      facts.update([
        ["Session", session(app, own.s.session)], ["Master", task(app, own.s.master)],
        ["Runs for", f.ago(own.s.began, own.t.clock)], ["Began", f.moment(own.s.began)],
        ["Fetches", (own.s.fetches ?? []).join(", ") || "–"], ["Targets", (own.s.targets ?? []).join(", ") || "–"],
        ["Parts missing", (own.s.owed ?? []).map(f.taskName).join(", ") || "none"], ["Error", own.s.error || "none"],
      ]);
      lists.update(told.map(({ t, s }) => ({ task: t.task, runs: s.runs, compiling: s.compiling, waits: (s.waits ?? []).map((w) => ({ ...w, clock: t.clock, task: w.task, at: t.task,
        link: app.link("graph", { session: own.s.session, task: own.s.master, node: w.node }) })) })));
    },
  };
}

function which(app, w) {
  switch (w.kind) {
    case "input":
      return { text: `${w.edge} from ${f.taskName(w.from)}`, title: w.edge };
    case "resource":
      return { text: `${w.verb}${w.amount > 1 ? ` ${w.amount}` : ""}: ${w.resource}`, href: app.link("queues", { id: `${w.at}|${w.resource}` }), title: w.resource };
    case "room":
      return f.taskName(w.task);
    default:
      return w.text ?? "";
  }
}
