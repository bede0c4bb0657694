// A canvas that can be moved and zoomed, with the pointer and with keys.

import { h, context } from "./dom.js";

/** Stage keeps what of a plane is seen. draw(g, w, h) draws in the canvas's pixels; at() and to() translate. */
export class Stage {
  constructor({ label, draw, click, open, move, key, zoomY = true, least = 0.05, most = 4 }) {
    Object.assign(this, { draw, zoomY, least, most, x: 0, y: 0, scale: 1, scaleY: 1 });
    let from = null, moved = false;
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": label,
      pointerdown: (e) => {
        from = [e.offsetX, e.offsetY];
        moved = false;
        this.canvas.setPointerCapture(e.pointerId);
      },
      pointermove: (e) => {
        if (from) {
          const dx = e.offsetX - from[0], dy = e.offsetY - from[1];
          if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
          moved = true;
          this.x -= dx / this.scale;
          this.y -= dy / this.scaleY;
          from = [e.offsetX, e.offsetY];
          this.changed = true;
          this.again();
        } else move?.(e);
      },
      pointerup: (e) => {
        if (from && !moved) click?.(e);
        from = null;
      },
      pointerleave: () => move?.(null),
      dblclick: (e) => open?.(e),
      keydown: (e) => {
        const step = 60;
        if (key?.(e)) e.preventDefault();
        else if (e.key === "+" || e.key === "=") this.zoom(1.3, this.w / 2, this.h / 2);
        else if (e.key === "-") this.zoom(1 / 1.3, this.w / 2, this.h / 2);
        else if (e.key === "0") this.fit();
        else if (e.key === "ArrowLeft") this.x -= step / this.scale;
        else if (e.key === "ArrowRight") this.x += step / this.scale;
        else if (e.key === "ArrowUp") this.y -= step / this.scaleY;
        else if (e.key === "ArrowDown") this.y += step / this.scaleY;
        else return;
        e.preventDefault();
        this.again();
      } });
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        this.x += (e.deltaX || e.deltaY) / this.scale;
        this.again();
      } else if (!this.zoomY && !e.ctrlKey && e.altKey) {
        this.y += e.deltaY;
        this.again();
      } else this.zoom(Math.exp(-e.deltaY * 0.0015), e.offsetX, e.offsetY);
    }, { passive: false });
    this.el = h("div", { class: "canvas" }, this.canvas);
    this.resized = new ResizeObserver(() => {
      this.again();
      if (!this.changed && this.box) this.fit();
    });
    this.resized.observe(this.el);
  }

  zoom(by, px, py) {
    this.changed = true;
    const scale = Math.max(this.least, Math.min(this.most, this.scale * by));
    const k = scale / this.scale;
    this.x += px / this.scale - px / scale;
    this.scale = scale;
    if (this.zoomY) {
      this.y += py / this.scaleY - py / (this.scaleY * k);
      this.scaleY = scale;
    }
    this.again();
  }

  /** fit shows the whole box. */
  fit(box = this.box, largest = 1.25) {
    this.box = box;
    this.changed = false;
    const r = this.el.getBoundingClientRect(), room = this.zoomY ? 24 : 0;
    const w = Math.max(50, r.width - 2 * room), tall = Math.max(50, r.height - 2 * room);
    const bw = Math.max(1e-9, box.x1 - box.x0), bh = Math.max(1, box.y1 - box.y0);
    this.scale = this.zoomY ? Math.max(this.least, Math.min(largest, w / bw, tall / bh)) : w / bw;
    if (this.zoomY) this.scaleY = this.scale;
    this.x = box.x0 - (this.zoomY ? (r.width / this.scale - bw) / 2 : 0);
    this.y = this.zoomY ? box.y0 - (r.height / this.scale - bh) / 2 : 0;
    this.again();
  }

  to(px, py) { return [this.x + px / this.scale, this.y + py / this.scaleY]; }

  at(x, y) { return [(x - this.x) * this.scale, (y - this.y) * this.scaleY]; }

  /** again draws with the next frame. */
  again() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (!this.canvas.isConnected) return;
      const { g, w, h: tall } = context(this.canvas);
      Object.assign(this, { w, h: tall });
      this.draw(g, w, tall);
    });
  }

  destroy() {
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
