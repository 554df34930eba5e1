// Names on the map: of what is in view, the clusters of the cut, and of a cluster that fills the view its parts.

import { fitted, isSize } from "grinch/drawing";
import { css } from "grinch/palette";
import { NAMED, Picture } from "grinch/picture";

const FONT = '600 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const MOST_DRAWN = 24, MOST_CHOSEN = 60, MOST_ASKED = 12, SAMPLED = 151, WIDEST = 150, HIGH = 21;
// What has this share of the points in view is named by its parts, so many steps down, once the map is zoomed by this.
const LARGE = 0.2, DEEPEST = 5, CLOSE = 1.5;
// A part has at most this share of what it is a part of, and a name in an icicle of this width.
const PART = 0.4, PIXELS = 600;

export class MapNames {
  /** @param {any} map A PointMap. */
  constructor(map) {
    this.map = map;
    /** What is known of a node: its name, and its parts. @type {Map<number, {name?: string, parts?: any[]}>} */
    this.known = new Map();
    this.chosen = [];
    /** What was written last, and where. @type {{name: string, x: number, y: number, wide: number}[]} */
    this.drawn = [];
    this.asked = this.answers = 0;
  }

  /** Choose what to name, the most important first: what people named, then what has most points in view. */
  _choose() {
    const { clusters, selection } = this.map.app.values, { x, y, zoom } = this.map.view, { map, width, height } = this.map;
    if (clusters !== this.clusters) this._begin(clusters);
    const view = [map.key, x, y, zoom, width, height, selection?.node, this.answers].join();
    if (view === this.view) return;
    this.view = view;
    const { start, size, node } = clusters.arrays, all = Array.from(node ?? [], (v, i) => ({ node: v, start: start[i], size: size[i] }));
    const isIn = (spot) => spot.start >= selection.start && spot.start + spot.size <= selection.start + selection.size;
    const isChosen = selection?.size > 1, inside = isChosen ? all.filter(isIn) : all;
    let spots = this._seen(inside.length || !isChosen ? inside : [selection]);
    for (let depth = 0; depth < DEEPEST && (zoom > CLOSE || isChosen); depth += 1) {
      const total = spots.reduce((sum, { weight }) => sum + weight, 0);
      const large = new Set(spots.filter((spot) => spot.size > 2 && spot.weight > LARGE * total));
      for (const spot of large) this._ask(spot);
      const isOpen = (spot) => large.has(spot) && this.known.get(spot.node)?.parts?.length;
      if (!spots.some(isOpen)) break;
      spots = spots.flatMap((spot) => (isOpen(spot) ? this._seen(this.known.get(spot.node).parts) : [spot]));
    }
    const named = this._seen(isChosen ? this.named.filter(isIn) : this.named), isNamed = new Set(named.map((spot) => spot.node));
    const rest = spots.filter((spot) => !isNamed.has(spot.node)).sort((a, b) => b.weight - a.weight);
    this.chosen = [...named, ...rest].slice(0, MOST_CHOSEN);
    for (const spot of this.chosen.slice(0, MOST_DRAWN)) if (!this._name(spot)) this._ask(spot);
  }

  _begin(clusters) {
    this.clusters = clusters;
    this.answers += 1;
    this.named = clusters.header.named;
    this.known = new Map([...clusters.header.list, ...this.named].map(({ node, name }) => [node, { name }]));
  }

  _name = (spot) => this.known.get(spot.node)?.name ?? spot.name;

  /** The nodes that have points in view: how many, and the middle of them, which is the median, so that it is among them. */
  _seen(spots) {
    const { map, width, height } = this.map, { a, b, c, d } = this.map.transform(), found = [];
    const middle = (values) => values.sort((p, q) => p - q)[values.length >> 1];
    for (const spot of spots) {
      const step = Math.max(spot.size / SAMPLED, 1), xs = [], ys = [];
      for (let k = 0; k < Math.min(spot.size, SAMPLED); k += 1) {
        const place = spot.start + Math.floor(k * step), x = map.x[place], y = map.y[place], px = a * x + c, py = b * y + d;
        if (px >= 0 && px <= width && py >= 0 && py <= height) xs.push(x), ys.push(y);
      }
      if (xs.length) found.push({ ...spot, weight: xs.length * step, x: middle(xs), y: middle(ys) });
    }
    return found;
  }

  /** Find out the name of a node and its parts. */
  async _ask(spot) {
    const known = this.known.get(spot.node) ?? {}, { app } = this.map, { cut, version } = app.values, { clusters } = this;
    if (known.parts || this.asked >= MOST_ASKED) return;
    this.known.set(spot.node, { ...known, parts: [] });
    this.asked += 1;
    const asked = { x0: spot.start, x1: spot.start + spot.size, width: PIXELS, rows: 16, cut, version };
    const found = await app.ask(() => app.source.view(asked)).catch(() => null);
    this.asked -= 1;
    this.answers += 1;
    if (!found || clusters !== this.clusters) return;
    const picture = new Picture(found, { key: "" }), least = PART * spot.size, parts = [];
    for (let i = 1; i < picture.count; i += 1) {
      const isPart = picture.size[i] <= least && picture.size[picture.parent[i]] > least && picture.title(i);
      if (isPart) parts.push({ ...picture.spot(i), name: picture.name(i), isNamed: picture.flags[i] & NAMED });
    }
    this.known.set(spot.node, { name: known.name ?? picture.title(0), parts });
    this.map.draw();
  }

  /** @param {CanvasRenderingContext2D} ctx @param {{a: number, b: number, c: number, d: number}} at From a point to pixels. */
  draw(ctx, { a, b, c, d }) {
    const { map } = this, palette = map.palette();
    this.drawn = [];
    if (!map.app.values.clusters?.arrays.node || map.app.values.clusters.header.version !== map.map.header.version) return;
    if (map.isResting) this._choose();
    Object.assign(ctx, { font: FONT, textAlign: "center", textBaseline: "middle", lineJoin: "round", strokeStyle: css(palette.ground), fillStyle: palette.ink, lineWidth: 4 });
    for (const spot of this.chosen) {
      if (this.drawn.length >= MOST_DRAWN) break;
      const name = this._name(spot) ?? "", text = isSize(name) ? "" : fitted(ctx, name, WIDEST), wide = ctx.measureText(text).width / 2 + 6;
      const px = a * spot.x + c, x = Math.min(Math.max(px, wide), map.width - wide), y = b * spot.y + d;
      const isOutside = Math.abs(x - px) > 40 || y < 8 || y > map.height - 8;
      const isTaken = this.drawn.some((other) => other.name === text || (Math.abs(other.x - x) < other.wide + wide && Math.abs(other.y - y) < HIGH));
      if (!text || isOutside || isTaken) continue;
      this.drawn.push({ name: text, x, y, wide });
      ctx.globalAlpha = 0.85;
      ctx.strokeText(text, x, y);
      ctx.globalAlpha = 1;
      ctx.fillText(text, x, y);
    }
  }
}
