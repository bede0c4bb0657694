// What is known of the cluster: the latest look, and what became of it over time.

import { taskName } from "./format.js";

/** kept is how many looks the past has: ten minutes of one a second. */
const kept = 600;

/** window is over how many seconds quantiles are taken: one second may have few steps. */
const windowSeconds = 5;

export class State {
  constructor() {
    this.cluster = { tasks: [] };
    this.tasks = [];        // those of the cluster, with rates
    this.reasons = [];
    this.about = {};
    this.times = [];        // of looks, in seconds since 1970
    this.lines = { done: [], failed: [], p50: [], p99: [], moved: [], memory: new Map() };
    this.samples = [];      // the latest looks' totals, for differences
    this.queues = new Map(); // by key, the sizes that a queue had
    this.events = [];
    this.numbers = new Map(); // by task and boot, the greatest number of an event
  }

  /** take adds a look at the cluster. */
  take(cluster) {
    const before = this.samples.at(-1);
    const sample = { at: cluster.clock / 1e9, tasks: new Map() };
    cluster.tasks ??= [];
    for (const t of cluster.tasks) {
      if (!t.totals || !t.process) continue;
      const failed = Object.values(t.totals.steps_failed ?? {}).reduce((a, b) => a + b, 0);
      sample.tasks.set(`${t.task} ${t.process.boot}`, { at: (t.process.clock ?? cluster.clock) / 1e9, done: t.totals.steps_done ?? 0, failed,
        begun: t.totals.steps_begun ?? 0, parts: t.totals.parts_begun ?? 0, sent: t.totals.bytes_sent ?? 0, received: t.totals.bytes_received ?? 0,
        cpu: t.process.cpu_seconds ?? 0, counts: t.totals.step_seconds?.counts ?? [], queues: queuesOf(t), links: linksOf(t) });
    }
    this.cluster = cluster;
    this.tasks = cluster.tasks.map((t) => this.rated(t, before, sample));
    this.remember(sample);
    for (const t of cluster.tasks) this.hear(t);
    if (cluster.tasks.some((t) => t.resources)) this.watch(cluster);
  }

  /** processes are those that serve the tasks, each with its tasks, their names in short, and its memory: several tasks may share one. */
  processes() {
    const by = new Map();
    for (const t of this.cluster.tasks) {
      if (!t.process) continue;
      const key = processOf(t);
      if (!by.has(key)) by.set(key, { tasks: [], memory: 0 });
      by.get(key).tasks.push(t.task);
      by.get(key).memory = Math.max(by.get(key).memory, t.process.memory_in_use ?? 0); // they answer one after the other
    }
    return [...by.values()].map((p) => ({ ...p, name: p.tasks.length > 4 ? `${taskName(p.tasks[0])} … ${taskName(p.tasks.at(-1))}` : p.tasks.map(taskName).join(", ") }));
  }

  /** processWith is the process that serves a task. */
  processWith(task) {
    return this.processes().find((p) => p.tasks.includes(task));
  }

  /** rated is a task with what it does per second. */
  rated(t, before, sample) {
    const key = `${t.task} ${t.process?.boot}`;
    const now = sample.tasks.get(key), was = before?.tasks.get(key);
    const running = now ? Math.max(0, now.begun - now.done - now.failed) : 0;
    const open = t.totals ? (t.totals.sessions_opened ?? 0) - (t.totals.sessions_closed ?? 0) : 0;
    const out = { ...t, clock: t.process?.clock ?? this.cluster.clock, running, open, rates: null, queueRates: null, linkRates: null };
    const dt = was ? now.at - was.at : 0;
    if (dt <= 0) return out;
    const per = (k) => Math.max(0, now[k] - was[k]) / dt;
    out.rates = { done: per("done"), failed: per("failed"), parts: per("parts"), sent: per("sent"), received: per("received"), cpu: per("cpu") };
    out.queueRates = (id) => {
      const a = was.queues?.get(id), b = now.queues?.get(id);
      return a && b ? { in: (b[0] - a[0]) / dt, out: (b[1] - a[1]) / dt } : null;
    };
    out.linkRates = (task) => {
      const a = was.links?.get(task), b = now.links?.get(task);
      return a !== undefined && b !== undefined ? (b - a) / dt : null;
    };
    return out;
  }

  remember(sample) {
    const since = this.samples.find((s) => s.at > sample.at - windowSeconds - 0.5) ?? this.samples.at(-1);
    this.samples.push(sample);
    while (this.samples.length > 2 * windowSeconds) this.samples.shift();
    const sum = (k) => this.tasks.reduce((n, t) => (t.rates ? (Number.isNaN(n) ? 0 : n) + t.rates[k] : n), NaN);
    const l = this.lines;
    const add = (list, v) => { list.push(v); if (list.length > kept) list.shift(); };
    add(this.times, sample.at);
    add(l.done, sum("done"));
    add(l.failed, sum("failed"));
    add(l.moved, sum("sent"));
    const counts = new Array(25).fill(0);
    for (const [key, now] of sample.tasks) {
      const was = since?.tasks.get(key);
      if (was) now.counts.forEach((c, i) => { counts[i] += Math.max(0, c - (was.counts[i] ?? 0)); });
    }
    add(l.p50, quantile(counts, 0.5));
    add(l.p99, quantile(counts, 0.99));
    const processes = new Map(this.processes().map((p) => [p.name, p.memory]));
    for (const name of processes.keys()) {
      if (!l.memory.has(name)) l.memory.set(name, new Array(this.times.length - 1).fill(NaN));
    }
    for (const [name, values] of l.memory) {
      add(values, processes.get(name) ?? NaN);
      if (values.every(Number.isNaN)) l.memory.delete(name);
    }
  }

  /** hear keeps a task's events that are new. */
  hear(t) {
    if (!t.events?.length) return;
    const key = `${t.task} ${t.process?.boot}`;
    const heard = this.numbers.get(key) ?? 0;
    const fresh = t.events.filter((e) => e.number > heard).map((e) => ({ ...e, task: t.task, key: `${key} ${e.number}` }));
    if (!fresh.length) return;
    this.numbers.set(key, fresh.at(-1).number);
    this.events.push(...fresh);
    this.events.sort((a, b) => a.at - b.at);
    if (this.events.length > 10_000) this.events.splice(0, this.events.length - 10_000);
  }

  /** watch keeps the sizes of queues. */
  watch(cluster) {
    const seen = new Set();
    for (const t of cluster.tasks) {
      for (const r of t.resources ?? []) {
        if (!r.queue) continue;
        const key = `${t.task}|${r.id}`;
        seen.add(key);
        let past = this.queues.get(key);
        if (!past) this.queues.set(key, past = { times: [], sizes: [] });
        past.times.push(cluster.clock / 1e9);
        past.sizes.push(r.queue.size ?? 0);
        if (past.sizes.length > 300) {
          past.times.shift();
          past.sizes.shift();
        }
      }
    }
    for (const key of this.queues.keys()) if (!seen.has(key)) this.queues.delete(key);
  }
}

/** processOf is what tasks of one process have in common, and no others. */
const processOf = (t) => t.process.process ?? t.process.boot;

function queuesOf(t) {
  const queues = t.resources?.filter((r) => r.queue);
  return queues && new Map(queues.map((r) => [r.id, [r.queue.enqueued ?? 0, r.queue.dequeued ?? 0]]));
}

const linksOf = (t) => t.links && new Map(t.links.map((l) => [l.task, l.bytes_sent ?? 0]));

/** quantile estimates what part q of the counted durations do not exceed, in seconds. Bucket i ends at 2^i times 16 µs. */
export function quantile(counts, q) {
  const all = counts.reduce((a, b) => a + b, 0);
  if (all === 0) return NaN;
  let left = q * all;
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] > 0 && left <= counts[i]) {
      const end = 16e-6 * 2 ** i, begin = i === 0 ? 0 : end / 2;
      return begin + (end - begin) * (left / counts[i]);
    }
    left -= counts[i];
  }
  return 16e-6 * 2 ** (counts.length - 1);
}
