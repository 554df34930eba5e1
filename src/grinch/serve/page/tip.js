// What the mouse is over, in a few words.

import { byId, el } from "grinch/dom";
import { counted, percent, real } from "grinch/format";
import { css } from "grinch/palette";

const PATIENCE = 110;

export class Tip {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette, box: byId("tip") });
    /** @type {Map<string, string>} */
    this.titles = new Map();
  }

  hide() {
    this.box.hidden = true;
    this.shown = null;
  }

  /** A block of the tree. @param {import("grinch/picture").Picture | null} picture @param {number} i @param {number} x @param {number} y */
  block(picture, i, x, y) {
    if (!picture || i < 0) return this.hide();
    const { n, about, color, since } = this.app.values, size = picture.size[i];
    const notes = [`${counted(size, "point")} · ${percent(size / n)}`];
    if (size > 1) notes.push(`height ${real(picture.height[i])}`);
    if ((color === "label" || color === "purity") && picture.color[i] >= 0) notes.push(`${percent(picture.value[i])} ${about.labels?.[picture.color[i]] ?? ""}`);
    if (since !== null && picture.fresh[i]) notes.push(`${counted(picture.fresh[i], "new point")}`);
    const title = picture.title(i) || this._title(picture.start[i], size, picture.version);
    this._show([title && el("b", { text: title }), ...notes.map((text) => el("span", { text }))], byId("icicle"), x, y);
  }

  /** A cluster that is perhaps too small for a block. @param {any} spot */
  node(spot, x, y) {
    const notes = `${counted(spot.size, "point")} · ${percent(spot.size / this.app.values.n)}`;
    const title = spot.title ?? this._title(spot.start, spot.size, this.app.values.version);
    this._show([title && el("b", { text: title }), el("span", { text: notes })], byId("icicle"), x, y);
  }

  /** A point of the map. @param {number} place */
  point(place, x, y) {
    if (place < 0) return this.hide();
    const cluster = this.app.map.clusterAt(place), title = this._title(place, 1, this.app.values.version);
    const name = cluster && el("span", { class: "key" }, el("i", { style: { background: css(this.palette().color(cluster.color)) } }), cluster.title ?? `cluster of ${counted(cluster.size, "point")}`);
    this._show([el("b", { text: title || "…" }), name], byId("map"), x, y);
  }

  /** The title of a node that the picture does not have; asked for if the mouse rests. */
  _title(start, size, version) {
    const key = `${version}|${start}|${size}`, known = this.titles.get(key);
    if (known !== undefined || this.shown === key) return known ?? "";
    this.shown = key;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      if (this.shown !== key || this.box.hidden) return;
      const { cut } = this.app.values;
      const found = await this.app.ask(() => this.app.source.view({ x0: start, x1: start + size, width: 200, rows: 1, cut, version })).catch(() => null);
      if (!found?.arrays.node) return;
      if (this.titles.size > 2000) this.titles.clear();
      this.titles.set(key, found.header.names[found.arrays.node[0]] ?? "");
      const title = this.titles.get(key), first = this.box.querySelector("b");
      if (this.shown !== key || this.box.hidden || !title) return;
      if (first) first.textContent = title;
      else this.box.prepend(el("b", { text: title }));
    }, PATIENCE);
    return "";
  }

  _show(content, canvas, x, y) {
    const frame = canvas.getBoundingClientRect(), { box } = this;
    box.replaceChildren(...content.filter(Boolean));
    box.hidden = false;
    const left = Math.min(frame.left + x + 14, innerWidth - box.offsetWidth - 8);
    const isLow = frame.top + y + 18 + box.offsetHeight > innerHeight - 8;
    box.style.left = `${Math.max(left, 8)}px`;
    box.style.top = `${isLow ? frame.top + y - box.offsetHeight - 10 : frame.top + y + 18}px`;
  }
}
