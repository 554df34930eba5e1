// Points drawn without a graphics card: dots are added to an image, one after the other. Of very many, only some are
// drawn while the map moves.

const FLUENT = 150_000;

export class SoftPoints {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.ctx = canvas.getContext("2d");
    this.kind = "density";
    this.n = 0;
    this.base = document.createElement("canvas");
    this.over = document.createElement("canvas");
  }

  setPlaces(x, y) {
    Object.assign(this, { x, y, n: x.length, drawn: "" });
  }

  setColors(colors, palette) {
    Object.assign(this, { colors, palette, drawn: "" });
  }

  /** @param {any} frame As of GlPoints. */
  draw(frame) {
    const { ctx } = this, { width, height, dim, range } = frame;
    const step = frame.isMoving ? Math.max(Math.ceil(this.n / FLUENT), 1) : 1;
    const key = [frame.a, frame.b, frame.c, frame.d, width, height, frame.diameter, frame.alpha, step].join();
    // What is highlighted changes often, the rest does not.
    if (key !== this.drawn) this._dots(this.base, frame, 0, this.n, frame.diameter, Math.min(frame.alpha * Math.sqrt(step), 1), step);
    this.drawn = key;
    ctx.clearRect(0, 0, width, height);
    ctx.globalAlpha = dim;
    ctx.drawImage(this.base, 0, 0);
    ctx.globalAlpha = 1;
    if (!range) return;
    this._dots(this.over, frame, range.start, range.size, frame.diameter * 1.35, Math.max(frame.alpha, 0.85));
    ctx.drawImage(this.over, 0, 0);
  }

  /** Blend dots into an image, the later over the earlier. */
  _dots(canvas, { a, b, c, d, width, height }, start, count, diameter, alpha, step = 1) {
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const sums = this._room(width * height * 4), { x, y, colors, palette } = this;
    const dot = stamp(diameter, alpha), { half, share } = dot, last = Math.min(start + count, this.n);
    const offsets = Int32Array.from(dot.dx, (dx, k) => 4 * (dot.dy[k] * width + dx));
    for (let i = start; i < last; i += step) {
      const px = (a * x[i] + c + 0.5) | 0, py = (b * y[i] + d + 0.5) | 0;
      if (px < half || py < half || px >= width - half || py >= height - half) continue;
      const color = colors[i] * 4, at = 4 * (py * width + px);
      for (let k = 0; k < offsets.length; k += 1) {
        const part = share[k], rest = 1 - part, to = at + offsets[k];
        sums[to] = sums[to] * rest + palette[color] * part;
        sums[to + 1] = sums[to + 1] * rest + palette[color + 1] * part;
        sums[to + 2] = sums[to + 2] * rest + palette[color + 2] * part;
        sums[to + 3] = sums[to + 3] * rest + part;
      }
    }
    canvas.getContext("2d").putImageData(image(sums, width, height), 0, 0);
  }

  _room(size) {
    if (this.sums?.length === size) this.sums.fill(0);
    else this.sums = new Float32Array(size);
    return this.sums;
  }
}

/** Colors were multiplied by how much of them there is; images want them apart. */
function image(sums, width, height) {
  const made = new ImageData(width, height), data = made.data;
  for (let i = 0; i < data.length; i += 4) {
    const share = sums[i + 3];
    if (!share) continue;
    data[i] = sums[i] / share;
    data[i + 1] = sums[i + 1] / share;
    data[i + 2] = sums[i + 2] / share;
    data[i + 3] = 255 * share;
  }
  return made;
}

/** The pixels of a round dot, with soft edges. @param {number} diameter @param {number} alpha */
function stamp(diameter, alpha) {
  const half = Math.ceil((diameter - 1) / 2), dx = [], dy = [], share = [];
  for (let v = -half; v <= half; v += 1) {
    for (let u = -half; u <= half; u += 1) {
      const inside = diameter < 2 ? 1 : Math.min(Math.max(diameter / 2 - Math.hypot(u, v) + 0.5, 0), 1);
      if (inside > 0.02 && (diameter >= 2 || (!u && !v))) {
        dx.push(u);
        dy.push(v);
        share.push(inside * alpha);
      }
    }
  }
  return { half, dx, dy, share: Float32Array.from(share) };
}
