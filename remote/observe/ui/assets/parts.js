// What several pages have.

import { h, fill, panel, List, text, attr, ask } from "./dom.js";
import * as f from "./format.js";

/** searchField filters what a page lists, by the parameter q. */
export function searchField(app, params, label = "Filter") {
  return h("input", { type: "search", placeholder: `${label}  ( / )`, "aria-label": label, value: params.q ?? "", input: (e) => {
    app.set({ q: e.target.value });
    app.again();
  } });
}

/** chooser is a labelled choice of a parameter's values; the first is the default. */
export function chooser(app, params, name, label, options) {
  return h("label", {}, `${label} `, h("select", { value: null, change: (e) => {
    app.set({ [name]: e.target.value });
    app.again();
  } }, options.map(([value, shown]) => h("option", { value, selected: (params[name] ?? "") === value }, shown))));
}

/** Kinds is a choice among those that there are, by the parameter kind. */
export class Kinds {
  constructor(app, label) {
    Object.assign(this, { app, label, known: "", el: h("span") });
  }

  update(params, kinds) {
    const all = [...new Set(kinds)].sort();
    if (params.kind && !all.includes(params.kind)) all.push(params.kind);
    if (all.join("\n") === this.known || this.el.contains(document.activeElement)) return;
    this.known = all.join("\n");
    this.el.replaceChildren(chooser(this.app, params, "kind", this.label, [["", "all"], ...all.map((k) => [k, k])]));
  }
}

/** matcher tells whether texts have all words of a search. */
export function matcher(q) {
  const words = (q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? (...texts) => {
    const all = texts.join(" ").toLowerCase();
    return words.every((w) => all.includes(w));
  } : () => true;
}

/** task is a task's short name, as a link to it. */
export const task = (app, name) => ({ text: f.taskName(name), href: app.link("tasks", { id: name }), title: name });

/** session is a session's name, as a link to it. */
export const session = (app, name) => (name ? { text: name, href: app.link("sessions", { id: name }) } : "–");

/** step is a step's id, as a link to it. */
export const step = (app, id) => ({ text: String(id), href: app.link("steps", { id }) });

const shortTasks = (why) => why.replace(/\/job:([^/\s]+)\/replica:\d+\/task:(\d+)/g, "$1:$2");

/** plain is why a step does not end as a line of text. */
export const plain = (why) => shortTasks(why).replace(/\{\{\w+ ([^}]*)\}\}/g, "$1");

/** reason shows why a step does not end, with short names of tasks, and nodes as code. */
export function reason(el, why) {
  if (el.why === why) return;
  el.why = why;
  fill(el, shortTasks(why).split(/(\{\{\w+ [^}]*\}\})/).map((part) => {
    const node = /^\{\{\w+ ([^}]*)\}\}$/.exec(part);
    return node ? h("code", {}, node[1]) : part;
  }));
}

/** Held lists the steps that do not end, with the reasons. */
export class Held {
  constructor(app) {
    this.list = h("ul", { class: "held" });
    this.none = h("p", { class: "empty" }, "No step has run for more than a second.");
    this.more = h("span", { class: "muted" });
    this.said = said();
    this.el = panel("Steps that do not end, and why", h("div", { class: "body-held" }, this.list, this.none), { more: [this.more, this.said] });
    this.items = new List(this.list, (r) => r.step, () => {
      const time = h("span", { class: "for" }), why = h("p"), id = h("a"), s = h("a"), dead = h("span", { class: "badge bad" }, "deadlock");
      let shown;
      const cancel = app.state.about.cancel && h("button", { type: "button", class: "danger", click: () => cancelStep(app, this.said, shown) }, "Cancel");
      const el = h("li", {}, time, h("div", {}, why, h("p", { class: "muted" }, "step ", id, " of session ", s, " ", dead)), cancel);
      return { el, update: (r) => {
        shown = r.step;
        if (cancel) attr(cancel, "aria-label", `Cancel step ${r.step}`);
        text(time, f.span(r.seconds));
        reason(why, r.text);
        text(id, r.step);
        id.href = app.link("steps", { id: r.step });
        text(s, r.session);
        s.href = app.link("sessions", { id: r.session });
        dead.hidden = !r.deadlock;
        el.className = r.deadlock ? "deadlock" : "";
      } };
    });
  }

  update(reasons, most = 50) {
    this.items.update(reasons.slice(0, most));
    this.none.hidden = reasons.length > 0;
    text(this.more, reasons.length > most ? `the oldest ${most} of ${f.count(reasons.length)}` : "");
  }
}

/** facts is a list of names and values. */
export class Facts {
  constructor() {
    this.el = h("dl", { class: "facts" });
    this.have = new Map();
  }

  /** update takes pairs of a name and a text, or an element that stays the same. */
  update(pairs) {
    const names = pairs.map(([n]) => n).join("\n");
    if (names !== this.names) {
      this.names = names;
      this.have.clear();
      this.el.replaceChildren(...pairs.flatMap(([name]) => {
        const dd = h("dd");
        this.have.set(name, dd);
        return [h("dt", {}, name), dd];
      }));
    }
    for (const [name, value] of pairs) {
      const dd = this.have.get(name);
      if (value instanceof Node) {
        if (dd.firstChild !== value) dd.replaceChildren(value);
      } else if (value !== null && typeof value === "object") {
        let a = dd.firstChild;
        if (a?.tagName !== "A") dd.replaceChildren(a = h("a"));
        a.setAttribute("href", value.href);
        text(a, value.text);
      } else text(dd, value);
    }
  }
}

/** omitted is the note about entries that the limit left out. */
export function omitted(tasks, section) {
  const n = tasks.reduce((sum, t) => sum + (t.omitted?.[section] ?? 0), 0);
  return n ? `${f.count(n)} more are not listed` : "";
}

/** withoutFrom is an error's text without the task that it is from, which stands beside it. */
export const withoutFrom = (text) => (text ?? "").replace(/(^|: )From \/job:\S+: /, "$1");

/** stateBadge is the class of a state of a task or a link. */
export const stateBadge = (state) => ({ up: "good", down: "bad", silent: "warn", "never seen": "warn" })[state] ?? "";

/** said is where a page tells what became of an act. */
export const said = () => h("span", { role: "status", class: "muted said" });

/** cancelStep cancels a step if that is what is wanted, and says so. */
export async function cancelStep(app, place, id) {
  const why = app.state.reasons.find((r) => r.step === Number(id));
  const done = await ask({ title: `Cancel step ${id}?`, action: "Cancel the step", lines: [why && plain(why.text), "Its client gets the error CANCELLED. The session goes on."].filter(Boolean), act: async () => {
    const a = await app.act("cancel", { step: Number(id) });
    return `Step ${id} of session ${a.session} on ${f.taskName(a.master)} is cancelled.`;
  } });
  if (done) text(place, done);
}

const kindWords = { Var: "variable", Variable: "variable", Queue: "queue", LookupTable: "table" };

/** isDefault tells whether a resource is in the default container of its task, which is named after the job. */
export const isDefault = (r, t) => !r.container || r.container === /^\/job:([^/]*)/.exec(t.task)?.[1];

/** some is a number of things. */
const some = (n, word) => `${f.count(n)} ${word}${n === 1 ? "" : /(?:s|x|ch)$/.test(word) ? "es" : "s"}`;

/** lost says what emptying a container loses, of all that is known of it; without a name the default ones. */
export function lost(state, container) {
  const kinds = new Map(), tasks = new Set();
  let bytes = 0;
  for (const t of state.tasks) {
    for (const r of t.resources ?? []) {
      if (container ? r.container !== container : !isDefault(r, t)) continue;
      const word = kindWords[r.kind] ?? r.kind;
      kinds.set(word, (kinds.get(word) ?? 0) + 1);
      tasks.add(t.task);
      bytes += r.bytes ?? 0;
    }
  }
  if (!kinds.size) return "Nothing is known to be in it.";
  const more = state.tasks.some((t) => t.omitted?.resources) ? "At least " : "";
  return `${more}${[...kinds].sort((a, b) => b[1] - a[1]).map(([word, n]) => some(n, word)).join(", ")}, ${f.bytes(bytes)} on ${some(tasks.size, "task")} are lost.`;
}

/** drainTask asks, drains a task, and says so. */
export async function drainTask(app, place, name) {
  const s = app.state, t = s.tasks.find((x) => x.task === name), short = f.taskName(name);
  const held = t?.process && s.processWith(name)?.tasks.length === 1 ? ` It holds ${f.bytes(t.process.memory_in_use ?? 0)} of tensors.` : ""; // of one among several it is not known
  const done = await ask({ title: `Drain ${short}?`, action: "Drain", lines: [
    `${some(t?.running ?? 0, "running step")} may continue for as long as the task's --drain says. New steps and sessions are UNAVAILABLE, and then its process ends.`,
    `${some(t?.open ?? 0, "session")} of it will be closed. What belongs to the cluster moves to another task; what programs have placed on this one is lost, unless it is durable.${held}`,
    name === s.cluster.task ? "These pages are its own: they end with it." : ""].filter(Boolean), act: async () => {
    await app.act("drain", { task: name });
    return `${short} drains.`;
  } });
  if (done) text(place, done);
}

/** Resets is a choice of containers, and what empties the chosen one. */
export class Resets {
  constructor(app) {
    this.choice = h("select");
    this.said = said();
    this.el = h("span", { class: "bar" }, h("label", {}, "Container ", this.choice), h("button", { type: "button", class: "danger", click: () => this.reset(app) }, "Empty…"), this.said);
  }

  update(state) {
    this.state = state;
    const all = [...new Set(state.tasks.flatMap((t) => (t.resources ?? []).filter((r) => !isDefault(r, t)).map((r) => r.container)))].sort();
    const known = all.join("\n");
    if (known === this.known || document.activeElement === this.choice) return;
    const chosen = this.choice.value;
    this.known = known;
    fill(this.choice, h("option", { value: "" }, "the default ones"), all.map((c) => h("option", { value: c, selected: c === chosen }, c)));
  }

  async reset(app) {
    const container = this.choice.value, s = this.state;
    const what = container ? `the container ${container}` : "the default containers";
    const at = s.tasks.find((t) => t.task === s.cluster.task);
    const done = await ask({ title: `Empty ${what} on all tasks?`, action: container ? "Empty the container" : "Empty the containers", lines: [lost(s, container),
      `${some(at?.open ?? 0, "session")} of ${f.taskName(s.cluster.task)}, all that it has, ${at?.open === 1 ? "is" : "are"} closed.`], act: async () => {
      await app.act("reset", { containers: container ? [container] : [] });
      return `${what[0].toUpperCase()}${what.slice(1)} ${container ? "is" : "are"} empty, and the sessions of ${f.taskName(s.cluster.task)} are closed.`;
    } });
    if (done) text(this.said, done);
  }
}
