// Which point is nearest to a place on the map: points sorted into the cells of a grid.

const CELLS = 256, SHIFT = 8;

export class Near {
  /** @param {Uint16Array} x @param {Uint16Array} y */
  constructor(x, y) {
    Object.assign(this, { x, y });
    this.ends = new Uint32Array(CELLS * CELLS + 1);
    this.order = new Uint32Array(x.length);
    for (let i = 0; i < x.length; i += 1) this.ends[this._cell(x[i], y[i]) + 1] += 1;
    for (let i = 0; i < CELLS * CELLS; i += 1) this.ends[i + 1] += this.ends[i];
    const next = this.ends.slice();
    for (let i = 0; i < x.length; i += 1) this.order[next[this._cell(x[i], y[i])]++] = i;
  }

  _cell(x, y) {
    return ((y >> SHIFT) << 8) | (x >> SHIFT);
  }

  /** The nearest point within a distance in x and in y; -1 if there is none. */
  find(x, y, dx, dy) {
    const clamp = (value) => Math.min(Math.max(value, 0), 65535) >> SHIFT;
    let best = -1, least = 1;
    for (let row = clamp(y - dy); row <= clamp(y + dy); row += 1) {
      for (let column = clamp(x - dx); column <= clamp(x + dx); column += 1) {
        const cell = (row << 8) | column;
        for (let k = this.ends[cell]; k < this.ends[cell + 1]; k += 1) {
          const i = this.order[k], far = ((this.x[i] - x) / dx) ** 2 + ((this.y[i] - y) / dy) ** 2;
          if (far < least) [best, least] = [i, far];
        }
      }
    }
    return best;
  }
}
