import { h, panel, text, List } from "../dom.js";
import { Chart } from "../chart.js";
import { Held, stateBadge, withoutFrom } from "../parts.js";
import * as f from "../format.js";

const manyProcesses = 8; // of more, the memory chart shows the four that use the most

export default {
  title: "Overview",
  reasons: true,
  query: () => ({ sections: "events", limit: 50 }),
  show(main, app) {
    const tiles = new Map();
    const tile = (name) => {
      const value = h("dd"), el = h("div", { class: "tile" }, h("dt", {}, name), value);
      tiles.set(name, value);
      return el;
    };
    const names = ["Tasks up", "Steps per second", "Failures per second", "Latency p50", "Latency p99", "Steps running", "Sessions open", "Memory in use"];
    const exposed = h("p", { class: "note", hidden: true });
    const held = new Held(app);
    const charts = {
      steps: new Chart({ title: "Steps per second" }),
      latency: new Chart({ title: "Latency of steps", format: f.span, log: true }),
      memory: new Chart({ title: "Memory of tensors, by process", format: f.bytes }),
      moved: new Chart({ title: "Bytes per second between tasks", format: f.bytes }),
    };
    const health = h("tbody");
    const rows = new List(health, (t) => t.task, () => healthRow(app));
    const events = h("tbody");
    const lines = new List(events, (e) => e.key, (e) => ({ el: h("tr", {}, h("td", {}, f.clock(e.at)), h("td", {}, f.taskName(e.task)), h("td", {}, e.kind),
      h("td", { class: "wrap" }, [e.subject, withoutFrom(e.text)].filter(Boolean).join(": "))), update() {} }));
    const heads = (...labels) => h("thead", {}, h("tr", {}, labels.map(([label, num]) => h("th", { scope: "col", class: num ? "num" : null }, label))));
    main.append(exposed, h("dl", { class: "tiles" }, names.map(tile)), held.el,
      h("div", { class: "cols four" }, charts.steps.el, charts.latency.el, charts.memory.el, charts.moved.el),
      h("div", { class: "cols" },
        panel("Tasks", h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Tasks" }, h("table", { "aria-label": "Tasks" }, h("colgroup", {}, [90, 90, 80, 80, 90, 70, null].map((w) => h("col", { style: w ? { width: `${w}px` } : {} }))),
          heads(["Task"], ["State"], ["Steps/s", 1], ["Parts/s", 1], ["Memory", 1], ["Cores", 1], ["Since"]), health))),
        panel("Latest events", h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Latest events" }, h("table", { "aria-label": "Latest events" }, h("colgroup", {}, [82, 90, 130, null].map((w) => h("col", { style: w ? { width: `${w}px` } : {} }))),
          heads(["Time"], ["Task"], ["What"], ["Of"]), events)), { more: h("a", { href: app.link("events") }, "all events") })));
    return {
      update(state) {
        const all = state.tasks, l = state.lines;
        const up = all.filter((t) => t.state === "up").length;
        const put = (name, value, bad = false) => {
          text(tiles.get(name), value);
          tiles.get(name).className = bad ? "bad" : "";
        };
        const now = (k) => l[k].at(-1);
        put("Tasks up", `${up} of ${all.length}`, up < all.length);
        put("Steps per second", f.rate(now("done")));
        put("Failures per second", f.rate(now("failed")), now("failed") > 0);
        put("Latency p50", f.span(now("p50")));
        put("Latency p99", f.span(now("p99")));
        put("Steps running", f.count(sum(all, (t) => t.running)));
        put("Sessions open", f.count(sum(all, (t) => t.open)));
        put("Memory in use", f.bytes(sum(state.processes(), (p) => p.memory)));
        exposed.hidden = !state.cluster.exposed;
        text(exposed, state.cluster.exposed ?? "");
        held.update(state.reasons, 5);
        charts.steps.update(state.times, [{ name: "done", values: l.done }, { name: "failed", values: l.failed, hue: "bad" }]);
        charts.latency.update(state.times, [{ name: "p50", values: l.p50 }, { name: "p99", values: l.p99 }]);
        const memory = [...l.memory].map(([name, values]) => ({ name, values }));
        if (memory.length > manyProcesses) memory.sort((a, b) => (b.values.at(-1) || 0) - (a.values.at(-1) || 0));
        charts.memory.update(state.times, memory.length > manyProcesses ? memory.slice(0, 4) : memory);
        charts.moved.update(state.times, [{ name: "sent", values: l.moved }]);
        // Those that are not up come first, then those that do the most.
        const order = all.length > 12 ? [...all].sort((a, b) => (a.state === "up") - (b.state === "up") || (b.rates?.done ?? 0) - (a.rates?.done ?? 0)) : all;
        rows.update(order.slice(0, 12));
        lines.update(state.events.slice(-10).reverse());
      },
      destroy() {
        for (const c of Object.values(charts)) c.destroy();
      },
    };
  },
};

const sum = (all, of) => all.reduce((n, t) => n + of(t), 0);

function healthRow(app) {
  const name = h("a"), state = h("span"), cells = ["num", "num", "num", "num", "wrap"].map((c) => h("td", { class: c || null }));
  return { el: h("tr", {}, h("td", {}, name), h("td", {}, state), cells), update(t) {
    text(name, f.taskName(t.task));
    name.href = app.link("tasks", { id: t.task });
    text(state, t.state);
    state.className = `badge ${stateBadge(t.state)}`;
    const up = t.state === "up" && t.process;
    text(cells[0], up ? f.rate(t.rates?.done) : "");
    text(cells[1], up ? f.rate(t.rates?.parts) : "");
    text(cells[2], up ? f.bytes(t.process.memory_in_use ?? 0) : "");
    text(cells[3], up && t.process.cpu_seconds ? f.rate(t.rates?.cpu) : up ? "–" : "");
    text(cells[4], up ? `up ${f.ago(t.process.started, t.clock)}` : t.reason || f.ago(t.since, t.clock));
  } };
}
