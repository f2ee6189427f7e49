import { byId, el } from "./dom.js";
import { state } from "./state.js";

// A map of circles on a canvas: hover, click, zoom, drag, and arrow keys.

export class CircleMap {
  // points: { x, y, radius, hue, label, title, detail, link }[], places and radii as shares of the map.
  constructor(points, label) {
    this.points = points;
    this.order = points.map((_, index) => index).sort((a, b) => points[b].radius - points[a].radius);
    this.emphasis = null;
    this.selected = this.hovered = this.focused = -1;
    this.zoom = 1;
    this.centre = [0.5, 0.5];
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": label + " Arrow keys move, Enter opens." });
    this.tip = el("div", { class: "tip", hidden: true });
    this.live = el("div", { class: "skip", "aria-live": "polite" });
    const button = (text, name, action) => el("button", { type: "button", "aria-label": name, title: name, onclick: action }, text);
    this.node = el("div", { class: "map" }, this.canvas, this.tip, this.live, el("div", { class: "zoom" },
      button("+", "Zoom in", () => this.scaleBy(1.5)), button("−", "Zoom out", () => this.scaleBy(1 / 1.5)),
      button("⤢", "Show all", () => this.reset())));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.node);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener("pointerdown", event => { drag = { x: event.clientX, y: event.clientY, moved: false }; });
    canvas.addEventListener("pointermove", event => {
      if (drag && (drag.moved || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4)) {
        if (!drag.moved) canvas.setPointerCapture(event.pointerId);
        drag.moved = true;
        this.centre[0] -= (event.clientX - drag.x) / this.scale;
        this.centre[1] -= (event.clientY - drag.y) / this.scale;
        drag.x = event.clientX;
        drag.y = event.clientY;
        this.hover(-1);
        this.draw();
      } else if (!drag) this.hover(this.at(event));
    });
    canvas.addEventListener("pointerup", event => {
      const clicked = drag && !drag.moved ? this.at(event) : -1;
      drag = null;
      if (clicked >= 0) location.hash = this.points[clicked].link;
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { this.hover(-1); });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      this.scaleBy(Math.exp(-event.deltaY / 400), event);
    }, { passive: false });
    canvas.addEventListener("dblclick", event => this.scaleBy(2, event));
    canvas.addEventListener("keydown", event => this.key(event));
    canvas.addEventListener("focus", () => { if (this.focused < 0 && this.points.length) this.focus(this.selected >= 0 ? this.selected : this.order[0]); });
    canvas.addEventListener("blur", () => { this.focused = -1; this.hover(-1); });
  }

  key(event) {
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" && this.focused >= 0) location.hash = this.points[this.focused].link;
    else if (event.key === "+" || event.key === "=") this.scaleBy(1.5);
    else if (event.key === "-") this.scaleBy(1 / 1.5);
    else if (event.key === "0") this.reset();
    else if (event.key in directions && this.focused >= 0) this.focus(this.next(directions[event.key]));
    else return;
    event.preventDefault();
  }

  // The nearest point in a direction, within 45 degrees of it if there is one.
  next([dx, dy]) {
    const from = this.points[this.focused];
    let best = this.focused, least = Infinity;
    this.points.forEach((point, index) => {
      const along = (point.x - from.x) * dx + (point.y - from.y) * dy;
      const across = Math.abs((point.x - from.x) * dy) + Math.abs((point.y - from.y) * dx);
      const cost = along + 3 * across;
      if (along > 1e-6 && cost < least) [best, least] = [index, cost];
    });
    return best;
  }

  focus(index) {
    this.focused = index;
    const [x, y] = this.place(this.points[index]);
    const margin = 30;
    if (x < margin || y < margin || x > this.width - margin || y > this.height - margin) this.centre = [this.points[index].x, this.points[index].y];
    this.live.textContent = this.points[index].title;
    this.hover(index);
    this.draw();
  }

  scaleBy(factor, event) {
    const zoom = Math.min(200, Math.max(1, this.zoom * factor));
    if (event) {
      const box = this.canvas.getBoundingClientRect();
      const dx = event.clientX - box.left - this.width / 2, dy = event.clientY - box.top - this.height / 2;
      const before = this.scale;
      this.zoom = zoom;
      this.centre[0] += dx / before - dx / this.scale;
      this.centre[1] += dy / before - dy / this.scale;
    } else this.zoom = zoom;
    if (this.zoom === 1) this.centre = [0.5, 0.5];
    this.hover(-1);
    this.draw();
  }

  reset() {
    this.zoom = 1;
    this.centre = [0.5, 0.5];
    this.draw();
  }

  get width() { return this.canvas.clientWidth; }
  get height() { return this.canvas.clientHeight; }
  get scale() { return this.zoom * (Math.min(this.width, this.height) - 24); }
  // A wide map stretches places, but not circles, to use its whole area.
  get stretch() { return Math.min(1.9, Math.max(1, (this.width - 24) / Math.max(1, this.height - 24))); }

  place(point) {
    return [this.width / 2 + (point.x - this.centre[0]) * this.scale * this.stretch, this.height / 2 + (point.y - this.centre[1]) * this.scale];
  }

  size(index) {
    let grown = this.points[index].radius;
    if (this.emphasis && this.bySize) grown = Math.sqrt(this.emphasis.get(index) || 0) * 0.13;
    else if (this.emphasis && this.emphasis.has(index)) grown *= 1.6;
    const least = this.points.length > 2000 ? 1.5 : 3;
    return Math.max(least, grown * this.scale / Math.sqrt(this.zoom));
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = Infinity;
    for (let index = 0; index < this.points.length; index++) {
      const [px, py] = this.place(this.points[index]);
      const radius = this.size(index);
      const distance = Math.hypot(px - x, py - y);
      // Of overlapping circles, the smaller one is meant.
      if (distance <= Math.max(radius, 7) && distance + radius < least) [best, least] = [index, distance + radius];
    }
    return best;
  }

  hover(index) {
    this.canvas.classList.toggle("over", index >= 0);
    if (index === this.hovered) return;
    this.hovered = index;
    this.tip.hidden = index < 0;
    if (index >= 0) {
      const point = this.points[index];
      const [x, y] = this.place(point);
      this.tip.replaceChildren(el("b", {}, point.title), point.detail);
      const left = x > this.width / 2;
      this.tip.style.left = left ? "" : x + this.size(index) + 8 + "px";
      this.tip.style.right = left ? this.width - x + this.size(index) + 8 + "px" : "";
      this.tip.style.top = Math.max(6, Math.min(this.height - 90, y - 20)) + "px";
    }
    this.draw();
  }

  // Draws at the next frame, however often it is called before.
  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint(); });
  }

  paint() {
    const ratio = devicePixelRatio || 1;
    const { canvas, width, height } = this;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const style = getComputedStyle(document.body);
    const [ink, card, light] = ["--ink", "--card", "--dot-light"].map(name => style.getPropertyValue(name).trim());
    const brush = canvas.getContext("2d");
    brush.scale(ratio, ratio);
    const places = this.points.map(point => this.place(point));
    for (const index of this.order) {
      const [x, y] = places[index];
      const radius = this.size(index);
      if (x < -radius || y < -radius || x > width + radius || y > height + radius) continue;
      const faded = this.emphasis && !this.emphasis.has(index);
      brush.beginPath();
      brush.arc(x, y, radius, 0, 7);
      brush.fillStyle = `oklch(${light} 0.14 ${this.points[index].hue} / ${faded ? 0.15 : 0.72})`;
      brush.fill();
      if (this.points.length < 2000) {
        brush.strokeStyle = card;
        brush.stroke();
      }
    }
    for (const index of [this.selected, this.hovered, this.focused]) {
      if (index < 0) continue;
      brush.beginPath();
      brush.arc(places[index][0], places[index][1], this.size(index) + 1.5, 0, 7);
      brush.lineWidth = index === this.selected ? 3 : 2;
      brush.strokeStyle = ink;
      brush.stroke();
    }
    this.paintLabels(brush, places, ink, card);
  }

  // Labels of large circles first; a label that would cover another one is left out.
  paintLabels(brush, places, ink, card) {
    const taken = [];
    const first = this.selected >= 0 ? [this.selected, ...this.order] : this.order;
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    brush.lineJoin = "round";
    brush.font = "600 12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    let examined = 0;
    for (const index of first) {
      if (taken.length >= 160 || examined++ > 1500) break;
      if (this.emphasis && !(this.emphasis.get(index) >= (this.bySize ? 0.01 : 0))) continue;
      const [x, y] = places[index];
      if (x < 0 || y < 0 || x > this.width || y > this.height) continue;
      const label = this.points[index].label;
      // A label would hide a small circle, so it is above it.
      const radius = this.size(index);
      const middle = radius < 8 ? Math.max(8, y - radius - 8) : y;
      // Where the whole label does not fit, its first word may.
      const found = [label, label.split(",")[0]].map(text => this.boxOf(brush, text, x, middle))
        .find(({ box }) => !taken.some(other => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]));
      if (!found) continue;
      const { text, at } = found;
      taken.push(found.box);
      brush.lineWidth = 3.5;
      brush.strokeStyle = card;
      brush.globalAlpha = 0.75;
      brush.strokeText(text, at, middle);
      brush.globalAlpha = 1;
      brush.fillStyle = ink;
      brush.fillText(text, at, middle);
    }
  }

  // The text of a label, its middle, and the area that it covers.
  boxOf(brush, text, x, y) {
    const half = brush.measureText(text).width / 2 + 3;
    const at = Math.min(this.width - half - 2, Math.max(half + 2, x));
    return { text, at, box: [at - half, y - 8, at + half, y + 8] };
  }

  select(index) {
    this.selected = index;
    this.draw();
  }

  // Fades all points but some. Their numbers replace the sizes if "bySize" is true; null shows all points again.
  emphasise(shares, bySize = true) {
    this.emphasis = shares;
    this.bySize = bySize;
    this.draw();
  }
}
