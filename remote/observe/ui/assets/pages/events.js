import { h, text } from "../dom.js";
import { Table } from "../table.js";
import { searchField, Kinds, matcher, task } from "../parts.js";
import * as f from "../format.js";

const bad = /fail|down|lost|refused|panic|expired|suspended/;

export default {
  title: "Events",
  query: () => ({ sections: "events", limit: 4096 }),
  show(main, app, params) {
    const note = h("span", { class: "muted" });
    const follow = h("input", { type: "checkbox" });
    follow.checked = params.follow !== "0";
    follow.addEventListener("change", () => {
      app.set({ follow: follow.checked ? "" : "0" });
      app.again();
    });
    const kinds = new Kinds(app, "What");
    const table = new Table({ label: "Events", key: (e) => e.key, empty: "The tasks remember no such event.",
      columns: [
        { id: "at", label: "Time", width: 110, cell: (e) => ({ text: f.clock(e.at, true), title: f.moment(e.at) }), sort: (e) => e.at },
        { id: "task", label: "Task", width: 100, cell: (e) => task(app, e.task) },
        { id: "kind", label: "What", width: 150, cell: (e) => ({ text: e.kind, badge: bad.test(e.kind) ? "bad" : "none" }) },
        { id: "subject", label: "Of", width: 170, cell: (e) => ({ text: short(e.subject), title: e.subject }) },
        { id: "text", label: "More", min: 300, wrap: true, cell: (e) => ({ text: e.text ?? "", title: e.text }) },
      ] });
    main.append(h("div", { class: "bar" }, searchField(app, params), kinds.el, h("label", {}, follow, "Follow"), note),
      h("section", { class: "panel fill", "aria-label": "Events" }, table.el));
    return {
      update(state, p) {
        kinds.update(p, state.events.map((e) => e.kind));
        const matches = matcher(p.q);
        const rows = state.events.filter((e) => (!p.kind || e.kind === p.kind) && matches(e.kind, e.subject, e.text, f.taskName(e.task)));
        text(note, `${f.count(rows.length)} events`);
        table.update(rows);
        if (follow.checked && !table.sort) table.el.scrollTop = table.el.scrollHeight;
      },
      destroy: () => table.destroy(),
    };
  },
};

const short = (subject) => (subject?.startsWith("/job:") ? f.taskName(subject) : subject ?? "");
