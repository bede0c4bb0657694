import { h, panel, text } from "../dom.js";
import { Table } from "../table.js";
import { searchField, Kinds, Resets, matcher, task, omitted } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Memory",
  query: () => ({ sections: "resources,devices", limit: 16_384 }),
  show(main, app, params) {
    const note = h("span", { class: "muted" });
    const kinds = new Kinds(app, "Kind");
    const resets = app.state.about.reset ? new Resets(app) : null;
    const devices = new Table({ label: "Memory of devices", sorted: "-part", key: (d) => d.name, empty: "No task has told of a device.",
      columns: [
        { id: "name", label: "Device", width: 140, cell: (d) => ({ text: f.taskName(d.name), title: d.name }) },
        { id: "use", label: "In use", num: true, width: 90, cell: (d) => f.bytes(d.memory_in_use ?? 0), sort: (d) => d.memory_in_use ?? 0 },
        { id: "peak", label: "Peak", num: true, width: 90, cell: (d) => f.bytes(d.memory_peak ?? 0), sort: (d) => d.memory_peak ?? 0 },
        { id: "idle", label: "Idle", num: true, width: 90, title: "kept for tensors to come", cell: (d) => f.bytes(d.memory_idle ?? 0), sort: (d) => d.memory_idle ?? 0 },
        { id: "limit", label: "Limit", num: true, width: 90, cell: (d) => (d.memory_limit ? f.bytes(d.memory_limit) : "none"), sort: (d) => d.memory_limit ?? Infinity },
        { id: "part", label: "Use of the limit, or of the largest peak", min: 200, cell: (d) => ({ text: `${Math.round(100 * d.part)} %`, meter: d.part }), sort: (d) => d.part },
      ] });
    const containers = new Table({ label: "Containers", sorted: "-bytes", key: (g) => g.key, empty: "No container has tensors whose size is known.",
      columns: [
        { id: "task", label: "Task", width: 90, cell: (g) => task(app, g.task) },
        { id: "device", label: "Device", width: 80, cell: (g) => g.device },
        { id: "container", label: "Container", min: 120, cell: (g) => g.container || "(default)" },
        { id: "kind", label: "Kind", width: 110, cell: (g) => g.kind },
        { id: "count", label: "Resources", num: true, width: 90, cell: (g) => f.count(g.count), sort: (g) => g.count },
        { id: "bytes", label: "Size", num: true, width: 90, cell: (g) => f.bytes(g.bytes), sort: (g) => g.bytes },
        { id: "part", label: "Part of all", width: 120, cell: (g) => ({ text: `${Math.round(100 * g.part)} %`, meter: g.part }), sort: (g) => g.bytes },
      ] });
    const table = new Table({ label: "Resources", sorted: params.sort ?? "-bytes", onSort: (sort) => app.set({ sort }), key: (x) => x.key, empty: "There is no such resource.",
      columns: [
        { id: "name", label: "Resource", min: 200, cell: (x) => ({ text: x.r.name, title: x.r.name, href: app.link("queues", { id: x.key }) }) },
        { id: "kind", label: "Kind", width: 100, cell: (x) => x.r.kind },
        { id: "task", label: "Task", width: 90, cell: (x) => task(app, x.t.task) },
        { id: "device", label: "Device", width: 80, cell: (x) => deviceOf(x.r) },
        { id: "container", label: "Container", width: 120, cell: (x) => x.r.container || "(default)" },
        { id: "bytes", label: "Size", num: true, width: 90, cell: (x) => (x.r.bytes === undefined ? "–" : f.bytes(x.r.bytes)), sort: (x) => x.r.bytes ?? NaN },
        { id: "part", label: "Of the largest", width: 120, cell: (x) => ({ text: `${Math.round(100 * x.part)} %`, meter: x.part * 0.999 }), sort: (x) => x.r.bytes ?? NaN },
        { id: "what", label: "What", min: 160, wrap: true, cell: (x) => ({ text: x.r.description ?? "", title: x.r.description }) },
      ] });
    main.append(
      panel("Memory of devices", limit(devices.el)),
      panel("By container", limit(containers.el), { more: resets && [h("span", { class: "grow" }), resets.el] }),
      h("div", { class: "bar" }, searchField(app, params), kinds.el, note),
      h("section", { class: "panel fill", "aria-label": "Resources" }, table.el));
    return {
      update(state, p) {
        const matches = matcher(p.q);
        const all = state.tasks.flatMap((t) => (t.resources ?? []).map((r) => ({ r, t, key: `${t.task}|${r.id}` })));
        kinds.update(p, all.map((x) => x.r.kind));
        const most = all.reduce((m, x) => Math.max(m, x.r.bytes ?? 0), 0);
        for (const x of all) x.part = most ? (x.r.bytes ?? 0) / most : 0;
        const shown = !p.kind && !p.q ? all : all.filter((x) => (!p.kind || x.r.kind === p.kind) && matches(x.r.name, x.r.container, x.r.kind, f.taskName(x.t.task), deviceOf(x.r)));
        const left = omitted(state.tasks, "resources");
        text(note, `${f.count(shown.length)} resources, ${f.bytes(shown.reduce((n, x) => n + (x.r.bytes ?? 0), 0))}${left ? `; ${left}` : ""}`);
        table.update(shown);
        containers.update(grouped(all));
        resets?.update(state);
        const listed = state.tasks.flatMap((t) => t.devices ?? []);
        const peak = listed.reduce((m, d) => Math.max(m, d.memory_peak ?? 0), 1);
        devices.update(listed.map((d) => ({ ...d, part: (d.memory_in_use ?? 0) / (d.memory_limit || peak) })));
      },
      destroy() {
        table.destroy();
        containers.destroy();
        devices.destroy();
      },
    };
  },
};

const deviceOf = (r) => (r.device ?? "").split("/device:")[1] ?? "";

/** limit keeps a list of groups from taking the page. */
function limit(el) {
  el.style.maxHeight = "200px";
  return el;
}

function grouped(all) {
  const by = new Map();
  let sum = 0;
  for (const { r, t } of all) {
    if (!r.bytes) continue;
    sum += r.bytes;
    const key = `${t.task}|${r.device}|${r.container}|${r.kind}`;
    const g = by.get(key) ?? { key, task: t.task, device: deviceOf(r), container: r.container, kind: r.kind, count: 0, bytes: 0 };
    g.count++;
    g.bytes += r.bytes;
    by.set(key, g);
  }
  return [...by.values()].map((g) => ({ ...g, part: sum ? g.bytes / sum * 0.999 : 0 }));
}
