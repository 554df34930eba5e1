// One answer of the server: the blocks of a part of the icicle, ready to be drawn and asked.

import { css, inkOn, mix } from "grinch/palette";

export const MORE = 1, TOP = 2, POINT = 4, NAMED = 8, WITHIN = 16;
// Rows below the top of a cluster fade, to this at most; and the ground on which they are.
const FADE = 0.13, MOST_FADED = 0.6, GROUND = 0.8;

export class Picture {
  /** @param {import("grinch/unpack").Message} message @param {any} asked */
  constructor({ header, arrays }, asked) {
    this.header = header;
    this.asked = asked;
    this.version = header.version;
    this.key = asked.key;
    this.count = arrays.node?.length ?? 0;
    Object.assign(this, { x0: header.x0, x1: header.x1, perPixel: asked.perPixel });
    /** @type {Int32Array} */ this.node = arrays.node ?? new Int32Array(0);
    /** @type {Int32Array} */ this.parent = arrays.parent;
    /** @type {Uint16Array} */ this.row = arrays.row;
    /** @type {Int32Array} */ this.start = arrays.start;
    /** @type {Int32Array} */ this.size = arrays.size;
    /** @type {Int32Array} */ this.color = arrays.color;
    /** @type {Float32Array} */ this.value = arrays.value;
    /** @type {Float32Array} */ this.height = arrays.height;
    /** @type {Int32Array} */ this.fresh = arrays.fresh;
    /** @type {Uint8Array} */ this.flags = arrays.flags;
    this._index();
  }

  _index() {
    /** @type {Map<number, number>} */
    this.at = new Map();
    /** @type {number[][]} */
    this.rows = [];
    this.isEnd = new Uint8Array(this.count).fill(1);
    this.below = new Uint8Array(this.count);
    /** By block, the cluster it is in, or of one that begins above the view the topmost block. */
    this.top = new Int32Array(this.count).fill(-1);
    this.newest = 0;
    for (let i = 0; i < this.count; i += 1) {
      this.at.set(this.node[i], i);
      (this.rows[this.row[i]] ??= []).push(i);
      const above = this.parent[i];
      if (above >= 0) this.isEnd[above] = 0;
      this.top[i] = !(this.flags[i] & WITHIN) ? -1 : above >= 0 && this.top[above] >= 0 ? this.top[above] : i;
      const isInside = this.flags[i] & WITHIN && !(this.flags[i] & TOP);
      this.below[i] = isInside ? Math.min((above >= 0 ? this.below[above] : 0) + 1, 200) : 0;
    }
    for (const row of this.rows) row?.sort((a, b) => this.start[a] - this.start[b]);
  }

  /** The block of a row over a place; -1 if there is none. @param {number} row @param {number} place */
  blockAt(row, place) {
    const blocks = this.rows[row];
    if (!blocks) return -1;
    let low = 0, high = blocks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[blocks[middle]] <= place) low = middle + 1;
      else high = middle;
    }
    const i = blocks[low - 1];
    return i !== undefined && place < this.start[i] + this.size[i] ? i : -1;
  }

  /** The lowest block over all of a range, give or take its edges. @param {number} x0 @param {number} x1 */
  covering(x0, x1) {
    const slack = 0.02 * (x1 - x0);
    let found = 0, next = 0;
    while (next >= 0) {
      found = next;
      const i = this.blockAt(this.row[found] + 1, (x0 + x1) / 2);
      const isOver = i >= 0 && this.start[i] <= x0 + slack && this.start[i] + this.size[i] >= x1 - slack;
      next = isOver ? i : -1;
    }
    return found;
  }

  /** The lowest block over a place. @param {number} place */
  deepest(place) {
    let found = -1;
    for (let row = 0; row < this.rows.length; row += 1) {
      const i = this.blockAt(row, place);
      if (i >= 0) found = i;
    }
    return found;
  }

  /** The last row between two places; with `isAbove`, of those above the cut. @param {number} x0 @param {number} x1 @param {boolean} [isAbove] */
  lastRow(x0, x1, isAbove = false) {
    for (let row = this.rows.length - 1; row > 0; row -= 1) {
      for (const i of this.rows[row] ?? []) {
        const isIt = !isAbove || !(this.flags[i] & WITHIN);
        if (isIt && this.start[i] < x1 && this.start[i] + this.size[i] > x0) return row;
      }
    }
    return 0;
  }

  /** The blocks right under one, from left to right. @param {number} i */
  children(i) {
    return (this.rows[this.row[i] + 1] ?? []).filter((j) => this.parent[j] === i);
  }

  /** @param {number} i @returns {string} */
  title(i) {
    return this.header.names[this.node[i]] ?? "";
  }

  /** A title without the words that are written above it. @param {number} i @returns {string} */
  name(i) {
    this.names ??= new Map();
    if (!this.names.has(i)) this.names.set(i, this._shortened(i));
    return this.names.get(i);
  }

  _shortened(i) {
    const title = this.title(i), words = title.split(", ");
    if (words.length < 2 || this.flags[i] & (NAMED | POINT)) return title;
    const known = new Set();
    for (let above = this.parent[i]; above >= 0; above = this.parent[above]) this.name(above).split(", ").slice(0, 3).forEach((word) => known.add(word));
    const own = words.filter((word) => !known.has(word));
    return (own.length ? own : words).slice(0, 3).join(", ");
  }

  /** @param {number} i @returns {import("grinch/state").Spot} */
  spot(i) {
    return { node: this.node[i], start: this.start[i], size: this.size[i], title: this.title(i) };
  }

  /** Find out the color of every block, and an order in which few blocks change it. @param {import("grinch/palette").Palette} palette @param {number} overall Share of all points that is new. */
  paint(palette, overall) {
    if (this.painted === palette && this.overall === overall) return;
    Object.assign(this, { painted: palette, overall });
    /** @type {Map<string, {fill: string, ink: string, blocks: number[]}>} */
    const groups = new Map();
    this.inks = new Array(this.count);
    this.grounds = new Array(this.count);
    for (let i = 0; i < this.count; i += 1) {
      const fill = this._fill(palette, i), key = css(fill);
      if (this.top[i] === i) this.grounds[i] = css(mix(fill, palette.ground, GROUND));
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { fill: key, ink: inkOn(fill), blocks: [] }));
      group.blocks.push(i);
      this.inks[i] = group.ink;
    }
    this.groups = [...groups.values()];
  }

  _fill(palette, i) {
    const { color: by } = this.asked;
    const isSlot = by === "cluster" || by === "label";
    // A label says little of a block in which hardly any point has it.
    const base = by === "label" && this.color[i] >= 0
      ? mix(palette.label(this.color[i]), palette.none, Math.min(0.85, Math.max(0, 0.9 - 1.2 * this.value[i])))
      : by === "purity" && this.color[i] < 0 ? palette.none : palette.fill(by, this.color[i], this.value[i], this.overall);
    if (by === "cluster" && this.color[i] < 0) return mix(palette.none, palette.ground, this.row[i] % 2 ? 0.25 : 0);
    const fade = isSlot ? Math.min(FADE * this.below[i], MOST_FADED) : this.row[i] % 2 ? 0.1 : 0;
    return mix(base, palette.ground, fade);
  }
}
