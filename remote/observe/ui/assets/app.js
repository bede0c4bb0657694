// The frame around the pages: which one is shown, what it asks the server, and how often.

import { h, fill, text, attr, tip } from "./dom.js";
import { State } from "./state.js";
import * as f from "./format.js";
import overview from "./pages/overview.js";
import steps from "./pages/steps.js";
import sessions from "./pages/sessions.js";
import queues from "./pages/queues.js";
import memory from "./pages/memory.js";
import tasks from "./pages/tasks.js";
import links from "./pages/links.js";
import actors from "./pages/actors.js";
import events from "./pages/events.js";
import graph from "./pages/graph.js";
import timeline from "./pages/timeline.js";

const pages = { overview, steps, sessions, queues, memory, tasks, links, actors, events, graph, timeline };
const groups = [["overview"], ["steps", "sessions", "queues", "memory"], ["tasks", "links", "actors", "events"], ["graph", "timeline"]];

const refresh = 1000;      // milliseconds between looks
const reasonsEvery = 5;    // looks, on pages that do not show why steps do not end
const patience = 15;       // seconds until a request is given up, some more than the server takes at most
const recordingPatience = 30; // the same for a recording, which waits for steps

const el = (id) => document.getElementById(id);
const state = new State();
const app = {
  state,
  /** api asks one of the server's endpoints. Its errors have the server's message. */
  api: (name, params = {}, signal = undefined) => ask(`${name}${query(params)}`, { signal }, name === "timeline" ? recordingPatience : patience),
  /** act asks the server to change something. */
  act: (name, body) => ask(name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }, patience),
  /** link is the address of a page. */
  link: (page, params = {}) => `#/${page}${query(params)}`,
  /** again shows what is known already, after something on the page was chosen. */
  again: () => show(),
};

function query(params) {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== null && v !== "") p.set(k, v);
  const s = p.toString();
  return s ? `?${s}` : "";
}

/** ask sends a request, and gives it up after some seconds: one that gets lost on the way must not hold the page. */
async function ask(path, options, seconds) {
  const late = AbortSignal.timeout(seconds * 1000);
  try {
    return await read(await fetch(`/ui/api/${path}`, { ...options, signal: options.signal ? AbortSignal.any([options.signal, late]) : late }));
  } catch (e) {
    throw e.name === "TimeoutError" ? new Error(`The server has not answered for ${seconds} s`) : e;
  }
}

async function read(answer) {
  const body = await answer.text();
  let value;
  try {
    value = JSON.parse(body);
  } catch {
    throw new Error(body.trim().slice(0, 300) || `the server answered ${answer.status}`);
  }
  if (!answer.ok) throw new Error(value.message ?? `the server answered ${answer.status}`);
  return value;
}

/** set changes a page's parameters; those without a value go. Once the page has been left, even if the browser has not told of it yet, nothing changes. */
function set(page, params) {
  if (page !== current || location.hash !== page.address) return;
  const all = { ...page.params, ...params };
  history.replaceState(null, "", app.link(page.name, all));
  page.address = location.hash;
  page.params = Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined && v !== null && v !== ""));
}

let current = null; // { name, params, page, view, address: the hash it was opened with or has set since }

/** route shows the page of the address. */
function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const name = pages[path] ? path : "overview";
  const params = Object.fromEntries(new URLSearchParams(search));
  tip.hide();
  current?.view?.destroy?.();
  const page = pages[name];
  const main = fill(el("main"), h("h1", { class: "visually-hidden" }, page.title));
  main.scrollTop = 0;
  const shown = current = { name, params, page, view: null, address: location.hash };
  current.view = page.show(main, { ...app, set: (params) => set(shown, params) }, params);
  navigation();
  show();
  look();
}

const places = {};

function navigation() {
  if (!places.overview) {
    fill(el("nav"), groups.map((group, i) => [i > 0 && h("hr"), group.map((name) => {
      const number = h("span", { class: "count" });
      const a = h("a", { href: app.link(name) }, h("span", {}, pages[name].title), number);
      places[name] = { a, number };
      return a;
    })]));
  }
  for (const [name, { a }] of Object.entries(places)) attr(a, "aria-current", name === current.name ? "page" : null);
}

/** counts shows beside the pages' names how much there is. */
function counts() {
  const all = state.tasks;
  const running = all.reduce((n, t) => n + t.running, 0), open = all.reduce((n, t) => n + t.open, 0);
  const up = all.filter((t) => t.state === "up").length;
  text(places.overview.number, state.reasons.length ? state.reasons.length : "");
  places.overview.number.className = state.reasons.length ? "count bad" : "count";
  attr(places.overview.number, "title", state.reasons.length ? "steps that have run for more than a second" : null);
  text(places.steps.number, running || "");
  text(places.sessions.number, open || "");
  text(places.tasks.number, all.length ? (up === all.length ? all.length : `${up}/${all.length}`) : "");
  places.tasks.number.className = up < all.length ? "count bad" : "count";
}

/** clusterName tells this cluster from others: how many tasks of each job it has, and where its first one is. */
function clusterName() {
  const jobs = new Map();
  for (const t of state.tasks) {
    const job = f.taskName(t.task).split(":")[0];
    jobs.set(job, (jobs.get(job) ?? 0) + 1);
  }
  const first = state.tasks.find((t) => t.address)?.address;
  return [...jobs].map(([job, n]) => `${n} ${job}`).join(", ") + (first ? ` at ${first}` : "");
}

function show() {
  if (!state.cluster.clock) return;
  counts();
  const name = clusterName();
  text(el("cluster"), `${name}, seen from ${f.taskName(state.cluster.task)}`);
  document.title = `${current.page.title} – ${name} – Troupe`;
  attr(el("cluster"), "title", state.cluster.spec);
  current.view.update?.(state, current.params);
}

let timer = 0, paused = false, asking = null, looks = 0;

/** look asks for what the shown page needs, shows it, and comes again. */
async function look() {
  clearTimeout(timer);
  asking?.abort();
  const mine = asking = new AbortController();
  const at = current;
  try {
    const { page, params } = at;
    const ask = page.query(params);
    const wantsReasons = page.reasons || looks % reasonsEvery === 0;
    looks++;
    const began = performance.now();
    const [cluster, why] = await Promise.all([app.api("see", ask, mine.signal), wantsReasons ? app.api("why", {}, mine.signal) : null]);
    if (current !== at) return;
    const drawn = performance.now();
    state.take(cluster);
    if (why) state.reasons = why.reasons ?? [];
    show();
    app.took = { asked: drawn - began, shown: performance.now() - drawn };
    live("on", f.clock(Date.now() * 1e6));
  } catch (e) {
    if (mine.signal.aborted) return;
    live("off", e instanceof TypeError ? "The server does not answer" : e.message);
  }
  if (!paused && !document.hidden) timer = setTimeout(look, refresh);
}

function live(how, what) {
  const l = el("live");
  if (paused) how = "";
  attr(l, "class", how || null);
  text(l, paused ? `Paused ${what}` : what);
}

function pause(value) {
  paused = value;
  attr(el("pause"), "aria-pressed", String(paused));
  text(el("pause"), paused ? "Go on" : "Pause");
  if (paused) {
    clearTimeout(timer);
    live("", f.clock(Date.now() * 1e6));
  } else look();
}

const remembered = {
  get: (k) => { try { return localStorage.getItem(k) ?? ""; } catch { return ""; } },
  set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* the browser keeps nothing */ } },
};

function theme(value) {
  if (value) document.documentElement.dataset.theme = value;
  else delete document.documentElement.dataset.theme;
  el("theme").value = value;
  remembered.set("theme", value);
  if (current) show();
}

el("pause").addEventListener("click", () => pause(!paused));
el("theme").addEventListener("change", (e) => theme(e.target.value));
document.querySelector("a.skip").addEventListener("click", (e) => {
  e.preventDefault();
  el("main").focus();
});
const keys = [["/", "to the filter"], ["Esc", "out of the filter, which stays; out of a dialog"], ["p", "stops the refresh, and has it go on"], ["?", "shows these keys"],
  ["Arrows, + and −, 0", "in a graph or a timeline: move, zoom, show all"], ["Enter", "in a graph: opens the chosen group"]];

/** showKeys opens a dialog with the keys, once. */
function showKeys() {
  if (document.querySelector("dialog")) return;
  const d = h("dialog", { "aria-labelledby": "keys-title", close: () => d.remove() }, h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "keys" }, keys.map(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("div", { class: "bar" }, h("button", { type: "button", autofocus: true, click: () => d.close() }, "Close")));
  document.body.append(d);
  d.showModal();
}

el("keys").addEventListener("click", showKeys);
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && e.target.matches("main input[type=search]")) {
    e.preventDefault(); // browsers empty the field
    el("main").focus();
  }
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
  if (e.key === "p") pause(!paused);
  if (e.key === "?") showKeys();
  if (e.key === "/") {
    const search = document.querySelector("main input[type=search]");
    if (search) {
      e.preventDefault();
      search.focus();
    }
  }
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!paused) look();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());
addEventListener("hashchange", route);

theme(remembered.get("theme"));
globalThis.troupe = app; // for the console
try {
  state.about = await app.api("about");
} catch (e) {
  live("off", e.message);
}
route();
