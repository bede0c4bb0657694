// Numbers, sizes, times and names, as people read them.

const thin = "\u202f";

/** count is a number with its thousands apart. */
export function count(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, thin);
}

/** rate is a number per second. */
export function rate(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  if (n === 0) return "0";
  if (n < 0.1) return n.toFixed(2);
  if (n < 10) return n.toFixed(1);
  if (n < 100_000) return count(n);
  return si(n);
}

/** si is a large number in short. */
export function si(n) {
  const units = ["", "k", "M", "G", "T", "P"];
  let i = 0;
  while (Math.abs(n) >= 1000 && i < units.length - 1) [n, i] = [n / 1000, i + 1];
  return `${i && Math.abs(n) < 10 ? n.toFixed(1) : Math.round(n)}${units[i]}`;
}

/** bytes is a size. */
export function bytes(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return `${i === 0 ? Math.round(n) : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n)}${thin}${units[i]}`;
}

/** span is a duration, of seconds. */
export function span(s) {
  if (s === undefined || s === null || Number.isNaN(s)) return "–";
  if (s <= 0) return "0";
  if (s < 1e-3) return `${digits(s * 1e6)}${thin}µs`;
  if (s < 1) return `${digits(s * 1e3)}${thin}ms`;
  if (s < 60) return `${digits(s)}${thin}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${pad(Math.floor(s % 60))}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${pad(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${pad(Math.floor(s / 3600) % 24)}h`;
}

const digits = (n) => (n < 10 ? n.toFixed(1) : String(Math.round(n)));
const pad = (n) => String(n).padStart(2, "0");

/** seconds is the time between two moments in nanoseconds. */
export const seconds = (from, to) => (from ? Math.max(0, (to - from) / 1e9) : NaN);

/** ago is how long ago a moment was, by a clock in nanoseconds. */
export const ago = (at, clock) => (at ? span(seconds(at, clock)) : "–");

/** clock is a moment as the time of the day. */
export function clock(ns, withMillis = false) {
  const d = new Date(ns / 1e6);
  const s = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return withMillis ? `${s}.${String(d.getMilliseconds()).padStart(3, "0")}` : s;
}

/** moment is a moment with its date. Its clock has 24 hours, as that of the other times. */
export function moment(ns) {
  if (!ns) return "–";
  const d = new Date(ns / 1e6);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(ns)}`;
}

/** taskName is a task's or a device's name in short: ps:0, ps:0 GPU:1. */
export function taskName(full) {
  const m = /^\/job:([^/]*)(?:\/replica:\d+)?\/task:(\d+)(?:\/device:(.*))?$/.exec(full ?? "");
  if (!m) return full ?? "";
  return m[3] ? `${m[1]}:${m[2]} ${m[3]}` : `${m[1]}:${m[2]}`;
}

/** taskOf is the task of a device's full name. */
export const taskOf = (device) => device.split("/device:")[0];
