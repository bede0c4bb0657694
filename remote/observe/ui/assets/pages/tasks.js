import { h, panel, text } from "../dom.js";
import { Chart } from "../chart.js";
import { Table } from "../table.js";
import { Facts, drainTask, said, searchField, matcher, stateBadge } from "../parts.js";
import * as f from "../format.js";

export default {
  title: "Tasks",
  query: (p) => ({ sections: p.id ? "devices,links" : "devices", limit: 4000 }),
  show: (main, app, params) => (params.id ? one(main, app, params) : all(main, app, params)),
};

const state = (t) => ({ text: t.state, badge: stateBadge(t.state), title: t.reason });

function all(main, app, params) {
  const table = new Table({ label: "Tasks", sorted: params.sort ?? "task", onSort: (sort) => app.set({ sort }), key: (t) => t.task, empty: "No task is declared.",
    columns: [
      { id: "task", label: "Task", width: 110, cell: (t) => ({ text: f.taskName(t.task), href: app.link("tasks", { id: t.task }), title: t.task }) },
      { id: "state", label: "State", width: 100, cell: state },
      { id: "since", label: "Since", num: true, width: 90, cell: (t) => f.ago(t.since || t.process?.started, t.clock), sort: (t) => t.clock - (t.since || t.process?.started || 0) },
      { id: "address", label: "Address", width: 160, cell: (t) => t.address ?? "" },
      { id: "devices", label: "Devices", width: 110, cell: devices },
      { id: "steps", label: "Steps/s", num: true, width: 80, cell: (t) => f.rate(t.rates?.done), sort: (t) => t.rates?.done ?? NaN },
      { id: "parts", label: "Parts/s", num: true, width: 80, cell: (t) => f.rate(t.rates?.parts), sort: (t) => t.rates?.parts ?? NaN },
      { id: "running", label: "Running", num: true, width: 80, cell: (t) => f.count(t.running), sort: (t) => t.running },
      { id: "sessions", label: "Sessions", num: true, width: 80, cell: (t) => f.count(t.open), sort: (t) => t.open },
      { id: "memory", label: "Memory", num: true, width: 90, title: "of tensors, in the task's process", cell: (t) => (t.process ? f.bytes(t.process.memory_in_use ?? 0) : "–"), sort: (t) => t.process?.memory_in_use ?? NaN },
      { id: "of", label: "Of the limit", width: 100, cell: (t) => ({ text: t.process?.memory_limit ? `${Math.round((100 * (t.process.memory_in_use ?? 0)) / t.process.memory_limit)} %` : "no limit", meter: t.process?.memory_limit ? (t.process.memory_in_use ?? 0) / t.process.memory_limit : 0 }), sort: (t) => (t.process?.memory_in_use ?? 0) / (t.process?.memory_limit || Infinity) },
      { id: "resident", label: "Resident", num: true, width: 90, title: "of the process, as the system sees it", cell: (t) => (t.process?.resident ? f.bytes(t.process.resident) : "–"), sort: (t) => t.process?.resident ?? NaN },
      { id: "cpu", label: "Cores", num: true, width: 70, title: "processors that the process keeps busy, of those that it may use", cell: (t) => (t.process?.cpu_seconds ? `${f.rate(t.rates?.cpu)} / ${t.process.processors}` : `– / ${t.process?.processors ?? "–"}`), sort: (t) => t.rates?.cpu ?? NaN },
      { id: "goroutines", label: "Goroutines", num: true, width: 90, cell: (t) => f.count(t.process?.goroutines), sort: (t) => t.process?.goroutines ?? NaN },
      { id: "host", label: "Process", min: 150, wrap: true, cell: (t) => (t.process ? `${t.process.host ?? ""} pid ${t.process.pid}` : t.reason ?? "") },
    ] });
  main.append(h("div", { class: "bar" }, searchField(app, params)), h("section", { class: "panel fill", "aria-label": "Tasks" }, table.el));
  return {
    update(s, p) {
      const matches = matcher(p.q);
      table.update(s.tasks.filter((t) => matches(f.taskName(t.task), t.task, t.state, t.address, t.reason, t.process?.host)));
    },
    destroy: () => table.destroy(),
  };
}

/** devices counts a task's devices by their types. */
function devices(t) {
  const n = new Map();
  for (const d of t.devices ?? []) n.set(d.type, (n.get(d.type) ?? 0) + 1);
  const lost = (t.devices ?? []).filter((d) => d.lost);
  return { text: [...n].map(([type, k]) => `${k} ${type}`).join(", ") + (lost.length ? `, ${lost.length} lost` : ""), cls: lost.length ? "bad" : "", title: lost.map((d) => `${d.name}: ${d.lost}`).join("\n") };
}

/** others tells which other tasks a task's process serves, if there are some: its memory and processors are theirs, too. */
function others(s, t) {
  const all = (s.processWith(t.task)?.tasks ?? []).filter((x) => x !== t.task);
  return all.length ? `, which also serves ${all.map(f.taskName).join(", ")}` : "";
}

function one(main, app, params) {
  const facts = new Facts();
  const chart = new Chart({ title: "Memory of tensors, of the process", format: f.bytes });
  const table = new Table({ label: "Devices", sorted: "name", key: (d) => d.name, empty: "Nothing is known of its devices.",
    columns: [
      { id: "name", label: "Device", width: 100, cell: (d) => d.name.split("/device:")[1] },
      { id: "state", label: "State", width: 100, cell: (d) => (d.lost ? { text: "lost", badge: "bad", title: d.lost } : { text: "serves", badge: "good" }) },
      { id: "running", label: "Parts now", num: true, width: 90, cell: (d) => f.count(d.parts_running ?? 0), sort: (d) => d.parts_running ?? 0 },
      { id: "done", label: "Done", num: true, width: 110, cell: (d) => f.count(d.parts_done ?? 0), sort: (d) => d.parts_done ?? 0 },
      { id: "failed", label: "Failed", num: true, width: 80, cell: (d) => f.count(d.parts_failed ?? 0), sort: (d) => d.parts_failed ?? 0 },
      { id: "programs", label: "Programs", num: true, width: 90, cell: (d) => f.count(d.programs ?? 0), sort: (d) => d.programs ?? 0 },
      { id: "use", label: "In use", num: true, width: 90, cell: (d) => f.bytes(d.memory_in_use ?? 0), sort: (d) => d.memory_in_use ?? 0 },
      { id: "peak", label: "Peak", num: true, width: 90, cell: (d) => f.bytes(d.memory_peak ?? 0), sort: (d) => d.memory_peak ?? 0 },
      { id: "limit", label: "Limit", num: true, width: 90, cell: (d) => (d.memory_limit ? f.bytes(d.memory_limit) : "none"), sort: (d) => d.memory_limit ?? 0 },
      { id: "what", label: "What", min: 160, wrap: true, cell: (d) => ({ text: d.lost || d.description || "", title: d.lost || d.description }) },
    ] });
  const failures = new Table({ label: "Failed steps by code", sorted: "-n", key: (x) => x.code, empty: "No step of its sessions has failed.",
    columns: [{ id: "code", label: "Code", width: 220, cell: (x) => x.code }, { id: "n", label: "Steps", num: true, width: 100, cell: (x) => f.count(x.n), sort: (x) => x.n }, { id: "_", label: "", cell: () => "" }] });
  const told = said();
  const drain = app.state.about.drain && h("button", { type: "button", class: "danger", hidden: true, click: () => drainTask(app, told, params.id) }, "Drain…");
  main.append(h("div", { class: "bar" }, h("h2", {}, params.id), h("a", { href: app.link("tasks") }, "all tasks"), drain, told), panel("What it is", facts.el), chart.el,
    panel("Devices", table.el), panel("Failed steps, by code", failures.el));
  return {
    update(s) {
      const t = s.tasks.find((x) => x.task === params.id);
      if (!t) {
        facts.update([["State", "the cluster has no such task"]]);
        return;
      }
      if (drain) drain.hidden = t.state !== "up";
      const p = t.process ?? {}, n = t.totals ?? {};
      facts.update([
        ["State", `${t.state}${t.since ? ` for ${f.ago(t.since, t.clock)}` : ""}${t.reason ? `: ${t.reason}` : ""}`], ["Address", t.address ?? "–"],
        ["Process", p.pid ? `${p.pid} on ${p.host}${others(s, t)}` : "–"], ["Version", p.version ?? "–"],
        ["Started", f.moment(p.started)], ["Boot", p.boot ?? "–"],
        ["Memory in use", `${f.bytes(p.memory_in_use ?? 0)}${p.memory_limit ? ` of ${f.bytes(p.memory_limit)}` : ""}`], ["Go heap", f.bytes(p.heap ?? 0)],
        ["Resident", p.resident ? f.bytes(p.resident) : "not known"], ["Processor time", p.cpu_seconds ? f.span(p.cpu_seconds) : "not known"],
        ["Goroutines", f.count(p.goroutines)], ["Open files", p.open_files ? f.count(p.open_files) : "not known"],
        ["Steps begun", f.count(n.steps_begun ?? 0)], ["Steps done", f.count(n.steps_done ?? 0)],
        ["Parts of others' steps", f.count(n.parts_begun ?? 0)], ["Client connections", f.count(n.client_connections ?? 0)],
        ["Sessions opened", f.count(n.sessions_opened ?? 0)], ["Sessions expired", f.count(n.sessions_expired ?? 0)],
        ["Sent to tasks", f.bytes(n.bytes_sent ?? 0)], ["Received from tasks", f.bytes(n.bytes_received ?? 0)],
      ]);
      const process = s.processWith(t.task)?.name;
      chart.update(s.times, [{ name: process ?? "in use", values: s.lines.memory.get(process) ?? [] }]);
      table.update(t.devices ?? []);
      failures.update(Object.entries(n.steps_failed ?? {}).map(([code, k]) => ({ code, n: k })));
    },
    destroy() {
      chart.destroy();
      table.destroy();
      failures.destroy();
    },
  };
}
