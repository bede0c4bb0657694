import { h, panel, text, attr, fill } from "../dom.js";
import { Table } from "../table.js";
import { chooser, stateBadge, task } from "../parts.js";
import * as f from "../format.js";

const large = 16; // tasks, from which on the matrix shows colours alone

export default {
  title: "Links",
  query: () => ({ sections: "links", limit: 4000 }),
  show(main, app, params) {
    const matrix = h("table", { class: "matrix", "aria-label": "Links from the task of a row to the task of a column" });
    const said = h("p", { class: "muted", role: "status" }, "A row is a task, and its cells are its links to the others. Colours: up, down, stalled; a link that no step needs is closed.");
    const table = new Table({ label: "Links", sorted: "-queued", key: (l) => l.from + l.task, empty: "No task has told of a link.",
      columns: [
        { id: "from", label: "From", width: 100, cell: (l) => task(app, l.from) },
        { id: "to", label: "To", width: 100, cell: (l) => task(app, l.task) },
        { id: "state", label: "State", width: 90, cell: (l) => ({ text: l.state, badge: stateBadge(l.state) }) },
        { id: "since", label: "Since", num: true, width: 90, cell: (l) => f.ago(l.since, l.clock), sort: (l) => l.since ?? 0 },
        { id: "trip", label: "Round trip", num: true, width: 90, cell: (l) => (l.round_trip ? f.span(l.round_trip / 1e9) : "–"), sort: (l) => l.round_trip ?? NaN },
        { id: "rate", label: "Sent/s", num: true, width: 90, cell: (l) => (l.bytes_sent ? known(l.rate) : "–"), sort: (l) => l.rate ?? NaN },
        { id: "sent", label: "Sent", num: true, width: 90, cell: (l) => known(l.bytes_sent), sort: (l) => l.bytes_sent ?? 0 },
        { id: "received", label: "Received", num: true, width: 90, cell: (l) => known(l.bytes_received), sort: (l) => l.bytes_received ?? 0 },
        { id: "queued", label: "Queued", num: true, width: 90, cell: (l) => f.bytes(l.queued ?? 0), sort: (l) => l.queued ?? 0 },
        { id: "stalled", label: "Stalled for", num: true, width: 90, cell: (l) => f.ago(l.stalled_since, l.clock), sort: (l) => (l.stalled_since ? l.clock - l.stalled_since : NaN) },
        { id: "reason", label: "Reason", min: 160, wrap: true, cell: (l) => l.reason ?? "" },
      ] });
    main.append(h("div", { class: "bar" }, chooser(app, params, "value", "Cells show", [["", "state"], ["rate", "bytes sent a second"], ["trip", "round trip"], ["queued", "bytes queued"], ["sent", "bytes sent"]]), said),
      panel("Between tasks", h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Matrix of links", style: { "max-height": "55vh" } }, matrix)),
      h("section", { class: "panel fill", "aria-label": "Links" }, table.el));
    let names = null, cells = null;
    return {
      update(state, p) {
        const tasks = state.tasks;
        const key = tasks.map((t) => t.task).join();
        if (key !== names) {
          names = key;
          cells = build(matrix, tasks);
        }
        const all = [];
        tasks.forEach((t, i) => {
          const to = new Map((t.links ?? []).map((l) => [l.task, l]));
          tasks.forEach((other, j) => {
            if (i === j) return;
            const l = to.get(other.task);
            const link = l && { ...l, from: t.task, clock: t.clock, rate: t.linkRates?.(l.task) ?? null };
            if (link) all.push(link);
            const state = !l ? "" : l.stalled_since ? "stalled" : l.state === "none" ? "" : l.state;
            const td = cells[i][j];
            if (td.className !== state) td.className = state;
            const value = !link ? "" : shown(link, p.value);
            if (tasks.length <= large) text(td, link && l.state === "none" ? "" : value);
            attr(td, "title", `${f.taskName(t.task)} to ${f.taskName(other.task)}: ${l ? l.state : t.state === "up" ? "not told" : `the task is ${t.state}`}${value ? `, ${value}` : ""}${l?.reason ? `, ${l.reason}` : ""}`);
          });
        });
        table.update(all.filter((l) => l.state !== "none" || l.reason));
      },
      destroy: () => table.destroy(),
    };
  },
};

/** known is a size, where the server tells it. */
const known = (n) => (n ? f.bytes(n) : "–");

function shown(l, what) {
  switch (what) {
    case "trip": return l.round_trip ? f.span(l.round_trip / 1e9) : "–";
    case "queued": return f.bytes(l.queued ?? 0);
    case "sent": return known(l.bytes_sent);
    case "rate": return l.bytes_sent ? known(l.rate) : "–";
    default: return l.stalled_since ? "stalled" : l.state;
  }
}

function build(matrix, tasks) {
  const name = (t, i) => (tasks.length <= large ? f.taskName(t.task) : String(i));
  matrix.className = tasks.length > large ? "matrix dense" : "matrix";
  const cells = tasks.map((_, i) => tasks.map((_, j) => h("td", { class: i === j ? "self" : null })));
  fill(matrix, h("thead", {}, h("tr", {}, h("td", {}), tasks.map((t, i) => h("th", { scope: "col", title: t.task }, name(t, i))))),
    h("tbody", {}, tasks.map((t, i) => h("tr", {}, h("th", { scope: "row", title: t.task }, tasks.length <= large ? f.taskName(t.task) : `${i}  ${f.taskName(t.task)}`), cells[i]))));
  return cells;
}
