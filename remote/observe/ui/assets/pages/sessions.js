import { h, panel, text } from "../dom.js";
import { Table } from "../table.js";
import { Facts, searchField, matcher, task, step, omitted, withoutFrom } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Sessions",
  query: (p) => (p.id ? { sections: "sessions,steps,events", limit: 4000 } : { sections: "sessions", limit: 4000 }),
  show: (main, app, params) => (params.id ? one(main, app, params) : all(main, app, params)),
};

const sessionsOf = (state) => state.tasks.flatMap((t) => (t.sessions ?? []).map((s) => ({ ...s, master: t.task, clock: t.clock })));

const stateOf = (s) => (s.working ? { text: `${s.working} for ${f.ago(s.working_since, s.clock)}`, badge: "warn" }
  : s.lease_ends ? { text: `client gone, ends in ${f.span(f.seconds(s.clock, s.lease_ends))}`, badge: "warn" }
  : s.steps ? { text: "runs", badge: "good" } : { text: "idle", badge: "none" });

function all(main, app, params) {
  const note = h("span", { class: "muted" });
  const table = new Table({ label: "Sessions", sorted: params.sort ?? "-used", onSort: (sort) => app.set({ sort }), key: (s) => s.master + s.name, empty: "No session is open.",
    columns: [
      { id: "name", label: "Session", width: 90, cell: (s) => ({ text: s.name, href: app.link("sessions", { id: s.name, task: s.master }) }) },
      { id: "master", label: "Master", width: 90, cell: (s) => task(app, s.master) },
      { id: "state", label: "State", width: 120, cell: stateOf },
      { id: "who", label: "Client", width: 130, cell: (s) => ({ text: (s.who ?? "").replace(/^the client at /, ""), title: s.who }) },
      { id: "steps", label: "Steps now", num: true, width: 84, cell: (s) => f.count(s.steps ?? 0), sort: (s) => s.steps ?? 0 },
      { id: "done", label: "Done", num: true, width: 84, cell: (s) => f.count(s.steps_done ?? 0), sort: (s) => s.steps_done ?? 0 },
      { id: "failed", label: "Failed", num: true, width: 66, cell: (s) => ({ text: f.count(s.steps_failed ?? 0), cls: s.steps_failed ? "bad" : "" }), sort: (s) => s.steps_failed ?? 0 },
      { id: "nodes", label: "Nodes", num: true, width: 70, cell: (s) => ({ text: f.count(s.nodes ?? 0), href: app.link("graph", { session: s.name, task: s.master }) }), sort: (s) => s.nodes ?? 0 },
      { id: "plans", label: "Plans", num: true, width: 60, cell: (s) => f.count(s.plans ?? 0), sort: (s) => s.plans ?? 0 },
      { id: "opened", label: "Opened", num: true, width: 76, cell: (s) => f.ago(s.opened, s.clock), sort: (s) => s.clock - s.opened },
      { id: "used", label: "Last call", num: true, width: 80, cell: (s) => f.ago(s.used, s.clock), sort: (s) => s.used ?? 0 },
      { id: "tasks", label: "Other tasks", min: 110, cell: (s) => ({ text: (s.tasks ?? []).map(f.taskName).join(", "), title: (s.tasks ?? []).join("\n") }) },
    ], under: (s) => [s.last_error && `Last error: ${withoutFrom(s.last_error)}`] });
  main.append(h("div", { class: "bar" }, searchField(app, params), note), h("section", { class: "panel fill", "aria-label": "Sessions" }, table.el));
  return {
    update(state, p) {
      const matches = matcher(p.q);
      text(note, omitted(state.tasks, "sessions"));
      table.update(sessionsOf(state).filter((s) => matches(s.name, f.taskName(s.master), s.who, s.last_error, (s.tasks ?? []).map(f.taskName).join(" "))));
    },
    destroy: () => table.destroy(),
  };
}

function one(main, app, params) {
  const facts = new Facts();
  const gone = h("p", { class: "note", hidden: true }, "The session has ended.");
  const graph = h("a", { href: app.link("graph", { session: params.id, task: params.task }) }, "its graph");
  const steps = new Table({ label: "Steps of the session", sorted: "-for", key: (s) => s.id, empty: "None runs at this moment.",
    columns: [
      { id: "for", label: "Runs for", num: true, width: 90, cell: (s) => f.ago(s.began, s.clock), sort: (s) => s.clock - s.began },
      { id: "step", label: "Step", width: 160, cell: (s) => step(app, s.id) },
      { id: "what", label: "Fetches and targets", wrap: true, cell: (s) => [...(s.fetches ?? []), ...(s.targets ?? [])].join(", ") },
    ] });
  const events = new Table({ label: "Events of the session", sorted: "-at", key: (e) => e.key, empty: "The tasks remember none.",
    columns: [
      { id: "at", label: "Time", width: 90, cell: (e) => f.clock(e.at), sort: (e) => e.at },
      { id: "kind", label: "What", width: 140, cell: (e) => e.kind },
      { id: "text", label: "More", wrap: true, cell: (e) => ({ text: e.text ?? "", title: e.text }) },
    ] });
  main.append(h("div", { class: "bar" }, h("h2", {}, `Session ${params.id}`), h("a", { href: app.link("sessions") }, "all sessions")), gone,
    panel("What it is", facts.el, { more: app.state.about.graph && graph }), panel("Steps that run", steps.el), panel("Events", events.el));
  return {
    update(state) {
      const s = sessionsOf(state).find((x) => x.name === params.id && (!params.task || x.master === params.task));
      gone.hidden = Boolean(s);
      if (s) {
        graph.href = app.link("graph", { session: s.name, task: s.master });
        facts.update([
          ["Master", task(app, s.master)], ["State", stateOf(s).text],
          ["Client", s.who || "–"], ["Opened", f.moment(s.opened)],
          ["Steps done", f.count(s.steps_done ?? 0)], ["Steps failed", f.count(s.steps_failed ?? 0)],
          ["Nodes", f.count(s.nodes ?? 0)], ["Plans", f.count(s.plans ?? 0)],
          ["Callables", f.count(s.callables ?? 0)], ["Partial runs", f.count(s.partial_runs ?? 0)],
          ["Other tasks", (s.tasks ?? []).map(f.taskName).join(", ") || "none"], ["Last call", `${f.ago(s.used, s.clock)} ago`],
          ["Eager context", s.eager ? `${s.eager.id}, ${f.count(s.eager.handles ?? 0)} handles, ${f.count(s.eager.functions ?? 0)} functions` : "no"],
          ["Last error", s.last_error || "none"], ["Changes waiting", f.count(s.changes_waiting ?? 0)],
        ]);
      }
      steps.update(state.tasks.flatMap((t) => (t.steps ?? []).filter((x) => x.session === params.id && x.master === t.task).map((x) => ({ ...x, clock: t.clock }))));
      events.update(state.events.filter((e) => e.subject === params.id || e.text?.includes(params.id)).slice(-200));
    },
    destroy() {
      steps.destroy();
      events.destroy();
    },
  };
}
