import { h, text } from "../dom.js";
import { Table } from "../table.js";
import { searchField, matcher, task, omitted } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Actors",
  query: () => ({ sections: "actors", limit: 16_384 }),
  show(main, app, params) {
    const note = h("span", { class: "muted" });
    const table = new Table({ label: "Actors", sorted: params.sort ?? "-waiting", onSort: (sort) => app.set({ sort }), key: (a) => a.task + a.name, empty: "No task has told of an actor.",
      columns: [
        { id: "task", label: "Task", width: 100, cell: (a) => task(app, a.task) },
        { id: "kind", label: "Kind", width: 130, cell: (a) => a.kind },
        { id: "name", label: "Name", min: 240, cell: (a) => ({ text: a.name, title: a.name }) },
        { id: "state", label: "State", width: 100, cell: (a) => ({ text: a.state, badge: a.state === "suspended" ? "bad" : a.state === "running" ? "good" : "none" }) },
        { id: "waiting", label: "Waiting", num: true, width: 90, title: "messages in its mailbox", cell: (a) => f.count(a.waiting ?? 0), sort: (a) => a.waiting ?? 0 },
        { id: "handled", label: "Handled", num: true, width: 120, cell: (a) => f.count(a.handled ?? 0), sort: (a) => a.handled ?? 0 },
        { id: "panics", label: "Panics", num: true, width: 80, cell: (a) => ({ text: f.count(a.panics ?? 0), cls: a.panics ? "bad" : "" }), sort: (a) => a.panics ?? 0 },
        { id: "restarts", label: "Restarts", num: true, width: 90, title: "after failures", cell: (a) => ({ text: f.count(a.restarts ?? 0), cls: a.restarts ? "bad" : "" }), sort: (a) => a.restarts ?? 0 },
        { id: "since", label: "Since", num: true, width: 100, cell: (a) => f.ago(a.since, a.clock), sort: (a) => a.clock - a.since },
      ] });
    main.append(h("div", { class: "bar" }, searchField(app, params), note), h("section", { class: "panel fill", "aria-label": "Actors" }, table.el));
    return {
      update(state, p) {
        const matches = matcher(p.q);
        const rows = state.tasks.flatMap((t) => (t.actors ?? []).map((a) => ({ ...a, task: t.task, clock: t.clock }))).filter((a) => matches(a.name, a.kind, a.state, f.taskName(a.task)));
        const left = omitted(state.tasks, "actors");
        text(note, `${f.count(rows.length)} actors${left ? `; ${left}` : ""}`);
        table.update(rows);
      },
      destroy: () => table.destroy(),
    };
  },
};
