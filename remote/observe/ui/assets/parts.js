// What several pages have.

import { h, fill, panel, List, text, ask } from "./dom.js";
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
    this.el = panel("Steps that do not end, and why", h("div", { class: "body-held" }, this.list, this.none), { more: this.more });
    this.items = new List(this.list, (r) => r.step, () => {
      const time = h("span", { class: "for" }), why = h("p"), id = h("a"), s = h("a"), dead = h("span", { class: "badge bad" }, "deadlock");
      const el = h("li", {}, time, h("div", {}, why, h("p", { class: "muted" }, "step ", id, " of session ", s, " ", dead)));
      return { el, update: (r) => {
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

/** stateBadge is the class of a state of a task or a link. */
export const stateBadge = (state) => ({ up: "good", down: "bad", silent: "warn", "never seen": "warn" })[state] ?? "";

/** actButton asks the server to do something, after a question. */
export function actButton(app, label, question, name, body) {
  const said = h("span", { role: "status", class: "muted" });
  return h("span", { class: "bar" }, h("button", { type: "button", class: "danger", click: async () => {
    if (!await ask(question, label)) return;
    try {
      await app.act(name, body());
      text(said, "Done");
    } catch (e) {
      text(said, e.message);
    }
  } }, label), said);
}
