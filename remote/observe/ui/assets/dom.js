// Elements, made and changed without strings of HTML: what a cluster's clients name things never becomes markup.

/** h makes an element. Attributes with functions are listeners, "style" is an object of properties; null and false leave one out. */
export function h(tag, attributes, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") el.addEventListener(name, value);
    else if (name === "class") el.className = value;
    else if (name === "style") for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else if (name === "value") el.value = value;
    else el.setAttribute(name, value === true ? "" : value);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children) {
    if (Array.isArray(c)) add(el, c);
    else if (c !== null && c !== undefined && c !== false) el.append(c);
  }
}

/** fill replaces an element's children. */
export function fill(el, ...children) {
  const all = children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);
  el.replaceChildren(...all);
  return el;
}

/** text sets an element's text if it is another one, so that selections and focus stay. */
export function text(el, value) {
  const s = String(value ?? "");
  if (el.firstChild?.nodeType === Node.TEXT_NODE && el.childNodes.length === 1) {
    if (el.firstChild.data !== s) el.firstChild.data = s;
  } else if (s !== "" || el.firstChild) {
    el.textContent = s;
  }
  return el;
}

/** attr sets an attribute if it is another one; null removes it. */
export function attr(el, name, value) {
  if (value === null || value === undefined || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) {
    el.setAttribute(name, value);
  }
}

/** List keeps an element's children the same as a list of items: one child of a key, made once and updated. */
export class List {
  constructor(el, key, make) {
    Object.assign(this, { el, key, make, have: new Map() });
  }

  update(items) {
    const seen = new Set();
    let at = this.el.firstChild;
    for (const item of items) {
      const k = this.key(item);
      if (seen.has(k)) continue;
      seen.add(k);
      let child = this.have.get(k);
      if (!child) {
        child = this.make(item);
        this.have.set(k, child);
      }
      child.update(item);
      if (child.el === at) at = at.nextSibling;
      else this.el.insertBefore(child.el, at);
    }
    for (const [k, child] of this.have) {
      if (!seen.has(k)) {
        child.el.remove();
        this.have.delete(k);
      }
    }
  }
}

/** panel is a titled part of a page. */
export function panel(title, body, { more = null, fills = false } = {}) {
  return h("section", { class: fills ? "panel fill" : "panel", "aria-label": title }, h("header", {}, h("h2", {}, title), more), body);
}

/** tip is the text beside the pointer. */
export const tip = {
  el: null,
  show(x, y, value) {
    this.el ??= document.body.appendChild(h("div", { class: "tip", "aria-hidden": "true" }));
    text(this.el, value);
    this.el.hidden = false;
    const r = this.el.getBoundingClientRect();
    this.el.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - r.width - 6))}px`;
    this.el.style.top = `${y + 16 + r.height > innerHeight ? Math.max(4, y - r.height - 10) : y + 16}px`;
  },
  hide() {
    if (this.el) this.el.hidden = true;
  },
};

let dialogs = 0;

/**
 * ask opens a dialog that tells what an act does, in lines, and has it done if its button is chosen. The dialog stays open with the error of
 * an act that failed. ask gives what act gave, a line about what was done, or null if the act was not chosen or failed.
 */
export function ask({ title, lines, action, act }) {
  return new Promise((resolve) => {
    const id = `dialog-${++dialogs}`;
    let doing = null, done = null;
    const failure = h("p", { class: "note bad", role: "alert", hidden: true });
    const go = h("button", { type: "button", class: "danger", click: () => {
      doing ??= (async () => {
        attr(go, "aria-disabled", "true");
        failure.hidden = true;
        try {
          done = await act();
          d.close();
        } catch (e) {
          failure.hidden = false;
          text(failure, e.message);
        }
        attr(go, "aria-disabled", null);
        doing = null;
      })();
    } }, action);
    const d = h("dialog", { "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-lines`, cancel: (e) => doing && e.preventDefault(), close: async () => {
      removeEventListener("hashchange", leave);
      await doing; // where the page was left meanwhile
      d.remove();
      resolve(done);
    } },
    h("h2", { id: `${id}-title` }, title), h("div", { id: `${id}-lines` }, lines.map((line) => h("p", {}, line))), failure,
    h("div", { class: "bar" }, h("button", { type: "button", autofocus: true, click: () => doing || d.close() }, "Leave it"), go));
    const leave = () => d.close();
    addEventListener("hashchange", leave);
    document.body.append(d);
    d.showModal();
  });
}

let colours = null;
let coloursOf = "";

/** colour reads one of the style's colours, for canvases. */
export function colour(name) {
  const theme = `${document.documentElement.dataset.theme ?? ""}${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (theme !== coloursOf) [colours, coloursOf] = [new Map(), theme];
  let c = colours.get(name);
  if (c === undefined) {
    c = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, c);
  }
  return c;
}

/** series is the colour of the nth of several things. */
export const series = (n) => colour(`c${n % 8}`);

/** context gives a canvas its size in the device's pixels, and what draws on it in CSS's. */
export function context(canvas) {
  const box = canvas.parentElement.getBoundingClientRect();
  const scale = devicePixelRatio || 1;
  const w = Math.max(1, Math.floor(box.width)), hgt = Math.max(1, Math.floor(box.height));
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(hgt * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(hgt * scale);
  }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, w, hgt);
  return { g, w, h: hgt };
}
