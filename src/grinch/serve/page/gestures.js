// What fingers and mice mean: zoom, pan, hover, click and double click, on any canvas.

const CLICK_DISTANCE = 5, DOUBLE_TIME = 320;

/**
 * @typedef {object} Meanings
 * @property {(factor: number, x: number, y: number) => void} zoom Below 1 is closer.
 * @property {(dx: number, dy: number) => void} pan
 * @property {(x: number, y: number) => void} move
 * @property {() => void} leave
 * @property {(x: number, y: number) => void} click
 * @property {(x: number, y: number) => void} double
 */

export class Gestures {
  /** @param {HTMLElement} target @param {Meanings} meanings */
  constructor(target, meanings) {
    Object.assign(this, { target, meanings, lastClick: -DOUBLE_TIME });
    /** @type {Map<number, {x: number, y: number}>} */
    this.fingers = new Map();
    target.addEventListener("wheel", (event) => this._wheel(event), { passive: false });
    target.addEventListener("pointerdown", (event) => this._down(event));
    target.addEventListener("pointermove", (event) => this._move(event));
    target.addEventListener("pointerup", (event) => this._up(event));
    target.addEventListener("pointercancel", (event) => this.fingers.delete(event.pointerId));
    target.addEventListener("pointerleave", () => meanings.leave());
  }

  _at(event) {
    const box = this.target.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  _wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1, { x, y } = this._at(event);
    const dx = (event.shiftKey ? event.deltaX || event.deltaY : event.deltaX) * unit, dy = event.deltaY * unit;
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) this.meanings.pan(-dx, 0);
    // A pinch on a touchpad comes as a small turn of the wheel with Ctrl.
    else this.meanings.zoom(Math.exp(Math.min(Math.max(dy * (event.ctrlKey ? 0.01 : 0.0018), -1), 1)), x, y);
  }

  _down(event) {
    if (event.button > 0) return;
    this.target.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, this._at(event));
    this.began = this._at(event);
    this.isDrag = this.fingers.size > 1;
  }

  _move(event) {
    const now = this._at(event), before = this.fingers.get(event.pointerId);
    if (!before) return this.meanings.move(now.x, now.y);
    if (this.fingers.size === 2) return this._pinch(event.pointerId, before, now);
    if (!this.isDrag && Math.hypot(now.x - this.began.x, now.y - this.began.y) < CLICK_DISTANCE) return;
    if (!this.isDrag) this.meanings.leave();
    this.isDrag = true;
    this.target.style.cursor = "grabbing";
    this.fingers.set(event.pointerId, now);
    this.meanings.pan(now.x - before.x, now.y - before.y);
  }

  _pinch(id, before, now) {
    const other = [...this.fingers].find(([known]) => known !== id)[1];
    const wide = Math.hypot(before.x - other.x, before.y - other.y), next = Math.hypot(now.x - other.x, now.y - other.y);
    this.fingers.set(id, now);
    this.meanings.zoom(Math.min(Math.max(wide / Math.max(next, 1), 0.5), 2), (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  _up(event) {
    const wasDown = this.fingers.delete(event.pointerId), { x, y } = this._at(event);
    this.target.style.cursor = "";
    if (!wasDown || this.isDrag || this.fingers.size) return;
    const isDouble = event.timeStamp - this.lastClick < DOUBLE_TIME;
    this.lastClick = isDouble ? -DOUBLE_TIME : event.timeStamp;
    if (isDouble) this.meanings.double(x, y);
    else this.meanings.click(x, y);
  }
}
