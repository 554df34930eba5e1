// Colors. Those of clusters and labels are a table that the server makes (grinch.plots.colors): a color is a number in it.

/** @typedef {[number, number, number]} Rgb */

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

/** @param {string} text @returns {Rgb} */
export function rgb(text) {
  const number = parseInt(text.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** @param {Rgb} a @param {Rgb} b @param {number} share Of b. @returns {Rgb} */
export const mix = (a, b, share) => /** @type {Rgb} */ (a.map((value, i) => Math.round(value + (b[i] - value) * share)));

/** @param {Rgb} color */
export const css = (color) => `rgb(${color[0]},${color[1]},${color[2]})`;

/** @param {Rgb} color From 0, black, to 1. */
function luminance(color) {
  const [r, g, b] = color.map((value) => {
    const c = value / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever is easier to read. @param {Rgb} fill */
export const inkOn = (fill) => (luminance(fill) > 0.179 ? "#14161a" : "#ffffff");

/** @param {Rgb[]} stops @param {number} t From 0 to 1. @returns {Rgb} */
function along(stops, t) {
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[i], stops[i + 1], at - i);
}

/** A share compared with that of all, which is at 0.5; above it, by factors. @param {number} share @param {number} overall */
export function relative(share, overall) {
  if (share <= 0 || overall <= 0) return 0;
  if (share <= overall) return overall < 1 ? (0.5 * share) / overall : share;
  return 0.5 + (0.5 * Math.log(share / overall)) / Math.log(1 / overall);
}

export class Palette {
  /** @param {boolean} isDark @param {any} [about] What the server says of the tree. */
  constructor(isDark, about) {
    this.isDark = isDark;
    /** @type {Rgb[]} */
    this.table = (about?.palette ?? []).map(rgb);
    /** @type {number[]} */
    this.ofLabels = about?.label_colors ?? [];
    this.ground = rgb(isDark ? "#15181b" : "#ffffff");
    this.none = rgb(isDark ? "#2b3036" : "#e8e8e3");
    this.ink = isDark ? "#eceded" : "#1b1d21";
    this.faint = isDark ? "#a3a9b2" : "#5d626b";
    this.glow = rgb(isDark ? "#ffd166" : "#ff9d00");
    this.accent = isDark ? "#5fd39b" : "#0b6e4f";
    this._scale = CIVIDIS.map(rgb);
    this._fresh = [this.none, ...(isDark ? ["#6b4f1c", "#ffd166", "#fff6d6"] : ["#ffdca3", "#ff9d00", "#a83a00"]).map(rgb)];
    if (isDark) this._scale[0] = rgb("#1d3a78");
  }

  /** @param {number} number In the table; -1 for none. */
  color(number) {
    return this.table[number] ?? this.none;
  }

  /** @param {number} code Of a label; -1 for none. */
  label(code) {
    return this.color(this.ofLabels[code] ?? -1);
  }

  /** @param {number} t From 0 to 1. */
  scale(t) {
    return along(this._scale, t);
  }

  /** How much is new, from 0, nothing, over 0.5, as much as of all, to 1, everything. @param {number} t */
  fresh(t) {
    return along(this._fresh, t);
  }

  /** What a block is filled with. @param {string} by @param {number} color @param {number} value @param {number} overall Share of all points that is new. */
  fill(by, color, value, overall) {
    if (by === "purity" || by === "time") return this.scale(value);
    if (by === "fresh") return this.fresh(relative(value, overall));
    return by === "label" ? this.label(color) : this.color(color);
  }
}
