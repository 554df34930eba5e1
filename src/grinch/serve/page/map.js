// The map of the points, linked with the tree: a node's points are a range, since they come in the order of its leaves.

import { begin, end, track } from "grinch/busy";
import { byId, el, isStill, later, remembered } from "grinch/dom";
import { firstFrom } from "grinch/drawing";
import { Gestures } from "grinch/gestures";
import { GlPoints } from "grinch/glpoints";
import { pointColors, pointPalette } from "grinch/mapcolors";
import { drawOver, evenly, places } from "grinch/maplabels";
import { MapNames } from "grinch/mapnames";
import { Near } from "grinch/near";
import { SoftPoints } from "grinch/softpoints";

const METHODS = { neighbors: "neighbours", pca: "PCA", columns: "columns" };
const REACH = 9, REST = 120;
// Time in which a movement is nearly over, and of a frame, in milliseconds.
const EASE = 90, FRAME = 16;
// What is selected fills this share of the pane, unless it has this share already; of its points some are looked at.
const FILLED = 0.6, LARGE = 0.35, MOST_REVEALED = 400, MOST_REVEALING = 60;
const MOST_ZOOM = 4000, MOST_HALOS = 8000;
// How much more of the pane a plane has to fill on its side; and how much one whose axes mean nothing is stretched.
const WORTH_TURNING = 1.3, MOST_STRETCHED = 1.6;

/** Where nearly all of some values are. @param {number[]} values */
function span(values) {
  const sorted = values.sort((a, b) => a - b), out = Math.floor(sorted.length / 10);
  return [sorted[out], sorted[sorted.length - 1 - out]];
}

export class PointMap {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette, values: new Map(), map: null });
    this.canvas = byId("map");
    const forced = remembered("renderer");
    this.points = (forced !== "density" && GlPoints.on(this.canvas, forced === "webgl")) || new SoftPoints(this.canvas);
    this.points.onRestored = () => this._restored();
    this.over = byId("map-over").getContext("2d");
    this.view = { x: 0.5, y: 0.5, zoom: 1 };
    this.labels = new MapNames(this);
    new Gestures(this.canvas, this._gestures());
    new ResizeObserver(() => this._resize()).observe(byId("map-stage"));
    byId("map-home").addEventListener("click", () => this.home());
    app.state.on("version method again isMapShown isDrawn", () => this._load());
    app.state.on("about method", () => this._methods());
    app.state.on("clusters color theme since", () => this._color());
    app.state.on("selection hover page theme", () => this.draw());
    app.state.on("selection version", ({ version }) => {
      // Points that come do not move the map.
      if (version === this.lastVersion) this._reveal();
      this.lastVersion = version;
    });
  }

  // Points ---------------------------------------------------------------------------------------------------------

  _methods() {
    const { about, method } = this.app.values, methods = about?.map?.methods ?? [];
    const current = method ?? about?.map?.method;
    byId("methods").hidden = methods.length < 2;
    byId("methods").replaceChildren(...methods.map((name) => el("button", {
      class: "chip", type: "button", text: METHODS[name] ?? name, "aria-pressed": String(name === current),
      onclick: () => this.app.state.set({ method: name }),
    })));
    document.body.classList.toggle("mapless", Boolean(about) && !methods.length);
  }

  async _load() {
    const { version, about, n, isMapShown, isDrawn } = this.app.values;
    // The tree comes first.
    if (!n || !about?.map || !isMapShown || !isDrawn) return;
    const { method: first, methods } = about.map;
    const method = methods.includes(this.app.values.method) ? this.app.values.method : first;
    const key = `${version}|${method}`;
    if (key === this.loading || this.map?.key === key) return;
    this.loading = key;
    // While one map is computed, another one is better than none.
    if (method !== first && this.map?.header.version !== version) await this._ask(first, version, key);
    await this._ask(method, version, key);
    if (this.loading === key) this.loading = null;
  }

  async _ask(method, version, wanted) {
    const status = byId("map-status");
    try {
      const found = await this.app.during("laying out the map…", this.app.ask(() => this.app.source.map({ method, version })));
      if (found && this.loading === wanted) this._show(found, `${version}|${method}`);
      status.textContent = "";
    } catch (error) {
      status.textContent = error.message;
    }
  }

  _show({ header, arrays }, key) {
    const isOther = this.map?.header.method !== header.method;
    this.map = { header, key, n: arrays.x.length, ...this._laid(header, arrays) };
    this.near = null;
    this.values.clear();
    this.points.setPlaces(this.map.x, this.map.y);
    document.body.classList.add("mapped");
    if (isOther) this.home();
    this._reveal();
    this._color();
  }

  /** The plane as it fits the pane best. Which way is up means nothing, except where the axes are columns. */
  _laid({ aspect, method }, { x, y }) {
    const room = this.width && this.height ? this.width / this.height : 1;
    const size = (ratio) => Math.min(room / ratio, 1) * Math.min(ratio / room, 1);
    const isTurned = method !== "columns" && size(1 / aspect) > WORTH_TURNING * size(aspect);
    return isTurned ? { x: y, y: x, aspect: 1 / aspect } : { x, y, aspect };
  }

  _restored() {
    if (!this.map) return;
    this.points.setPlaces(this.map.x, this.map.y);
    this._color();
  }

  async _color() {
    if (!this.map) return;
    const { color, clusters, since, version } = this.app.values, turn = (this.turn = (this.turn ?? 0) + 1);
    const what = { label: "label", purity: "label", time: "time", fresh: "fresh" }[color];
    const values = what ? await this._values(what) : null;
    this.fresh = since === null ? null : await this._values("fresh");
    const isCurrent = this.map.header.version === version && (!clusters || clusters.header.version === version);
    if (turn !== this.turn || !isCurrent) return;
    this.colors = pointColors(color, this.map.n, clusters, values, this.fresh, this.app.values.about?.label_colors ?? []);
    this.glowing = evenly(places(this.fresh), MOST_HALOS);
    this.points.setColors(this.colors, pointPalette(color, this.palette()));
    this.draw();
  }

  /** Something of every point, asked for once. */
  async _values(what) {
    const { since, version } = this.app.values, key = what === "fresh" ? `${what}|${since}` : what;
    if (!this.values.has(key)) {
      const found = await this.app.ask(() => this.app.source.points({ what, since: what === "fresh" ? since ?? 0 : null, version })).catch(() => null);
      if (!found || found.header.version !== this.map.header.version) return null;
      this.values.set(key, found.arrays.value);
    }
    return this.values.get(key);
  }

  // View -----------------------------------------------------------------------------------------------------------

  _resize() {
    const { clientWidth, clientHeight } = byId("map-stage"), ratio = devicePixelRatio || 1;
    if (!clientWidth || !clientHeight) return;
    Object.assign(this, { width: clientWidth, height: clientHeight, ratio });
    for (const canvas of [this.canvas, byId("map-over")]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    this._draw();
  }

  home() {
    this._goTo({ x: 0.5, y: 0.5, zoom: 1 });
  }

  _goTo(goal) {
    this.goal = goal;
    this.draw();
  }

  /** Bring what is selected into view, unless it is, and large enough. */
  _reveal() {
    const { selection, n, version } = this.app.values;
    if (!selection || !this.map || this.map.header.version !== version || !this.width) return;
    if (selection.size >= n) return this.home();
    const places = Array.from({ length: Math.min(selection.size, MOST_REVEALED) }, (_, k) => selection.start + Math.floor((k * selection.size) / Math.min(selection.size, MOST_REVEALED)));
    const [x0, x1] = span(places.map((place) => this.map.x[place])), [y0, y1] = span(places.map((place) => this.map.y[place]));
    const { a, b, c, d } = this.transform(), [wide, high] = [(x1 - x0) * a, (y0 - y1) * b];
    const isIn = a * x0 + c > 0 && a * x1 + c < this.width && b * y1 + d > 0 && b * y0 + d < this.height;
    const isLarge = selection.size === 1 || wide > LARGE * this.width || high > LARGE * this.height;
    if (isIn && isLarge) return;
    const fits = Math.min((FILLED * this.width) / Math.max(wide, 1), (FILLED * this.height) / Math.max(high, 1)) * this.view.zoom;
    const zoom = selection.size === 1 ? this.view.zoom : Math.min(Math.max(fits, 1), MOST_REVEALING);
    this._goTo({ x: (x0 + x1) / 2 / 65535, y: (y0 + y1) / 2 / 65535, zoom });
  }

  /** Come nearer to where the view is to be; whether there is still some way to go. */
  _move() {
    const { goal, view } = this, now = performance.now(), passed = now - (this.last ?? now - FRAME);
    this.last = goal ? now : undefined;
    if (!goal) return false;
    const share = isStill() ? 1 : 1 - Math.exp(-passed / EASE);
    const isThere = Math.abs(Math.log(goal.zoom / view.zoom)) < 0.01 && Math.hypot(goal.x - view.x, goal.y - view.y) * view.zoom < 0.002;
    if (share === 1 || isThere) [this.view, this.goal] = [{ ...goal }, null];
    else this.view = { x: view.x + (goal.x - view.x) * share, y: view.y + (goal.y - view.y) * share, zoom: view.zoom * (goal.zoom / view.zoom) ** share };
    return Boolean(this.goal);
  }

  /** Pixels (of CSS) for the whole width and height of the map. */
  _extent() {
    const { header, aspect: own } = this.map, room = (this.width - 28) / (this.height - 28);
    const aspect = header.method === "neighbors" ? Math.min(Math.max(room, own / MOST_STRETCHED), own * MOST_STRETCHED) : own;
    const fits = Math.min((this.width - 28) / aspect, this.height - 28) * this.view.zoom;
    return [fits * aspect, fits];
  }

  /** From the 16 bits of a point to CSS pixels: x → a·x + c, y → b·y + d. */
  transform() {
    const [wide, high] = this._extent(), { x, y } = this.view;
    return { a: wide / 65535, b: -high / 65535, c: this.width / 2 - x * wide, d: this.height / 2 + y * high };
  }

  _gestures() {
    return {
      zoom: (factor, x, y) => this._zoom(factor, x, y),
      pan: (dx, dy) => this._pan(dx, dy),
      move: (x, y) => this._hover(x, y),
      leave: () => this._hover(-1e6, -1e6),
      click: (x, y) => this._click(x, y, false),
      double: (x, y) => this._click(x, y, true),
    };
  }

  _zoom(factor, x, y) {
    if (!this.map) return;
    const before = this.transform(), px = (x - before.c) / before.a / 65535, py = (y - before.d) / before.b / 65535;
    this.view.zoom = Math.min(Math.max(this.view.zoom / factor, 0.5), MOST_ZOOM);
    const [wide, high] = this._extent();
    this.view.x = px - (x - this.width / 2) / wide;
    this.view.y = py + (y - this.height / 2) / high;
    this._moved();
  }

  _pan(dx, dy) {
    if (!this.map) return;
    const [wide, high] = this._extent();
    this.view.x -= dx / wide;
    this.view.y += dy / high;
    this._moved();
  }

  /** Draw now, and everything when it rests. */
  _moved() {
    this.goal = null;
    this.isMoving = true;
    this.draw();
    this.rest ??= later(() => {
      this.isMoving = false;
      this.draw();
    }, REST);
    this.rest();
  }

  /** The place in the tree of the point under the mouse; -1 if there is none. */
  pointAt(x, y) {
    if (!this.map || this.map.header.version !== this.app.values.version) return -1;
    this.near ??= new Near(this.map.x, this.map.y);
    const { a, b, c, d } = this.transform();
    return this.near.find((x - c) / a, (y - d) / b, REACH / a, REACH / -b);
  }

  _hover(x, y) {
    const place = this.pointAt(x, y);
    this.canvas.style.cursor = place < 0 ? "default" : "pointer";
    const before = this.app.values.hover;
    if (place < 0 ? before?.isPoint : before?.start !== place || !before?.isPoint) {
      this.app.state.set({ hover: place < 0 ? null : { node: -1, start: place, size: 1, isPoint: true } });
    }
    this.app.tip?.point(place, x, y);
  }

  async _click(x, y, isDouble) {
    const place = this.pointAt(x, y);
    if (place < 0) return this.app.select(null);
    const cluster = this.clusterAt(place);
    if (isDouble && cluster) return this.app.icicle.zoomTo(cluster);
    const spot = await track(this.app.pointAt(place));
    if (spot) this.app.select(spot);
  }

  /** The cluster of the cut that a place is in. @param {number} place */
  clusterAt(place) {
    const { header, arrays } = this.app.values.clusters ?? {};
    if (!arrays?.start || header.version !== this.app.values.version) return null;
    const i = firstFrom(arrays.start, place + 1) - 1;
    if (i < 0 || place >= arrays.start[i] + arrays.size[i]) return null;
    const listed = header.list.find((cluster) => cluster.node === arrays.node[i]);
    return { node: arrays.node[i], start: arrays.start[i], size: arrays.size[i], title: listed?.name, color: arrays.color[i] };
  }

  // Drawing --------------------------------------------------------------------------------------------------------

  /** Draw at once, and everything. */
  redraw() {
    this.points.drawn = "";
    this._draw();
  }

  draw() {
    if (this.frame) return;
    begin();
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      try {
        this._draw();
      } finally {
        end();
      }
    });
  }

  _draw() {
    const { map, colors, width, height, ratio } = this;
    if (!map || !width || colors?.length !== map.n) return;
    const isGoing = this._move(), isMoving = this.isMoving || isGoing;
    const { a, b, c, d } = this.transform(), spot = this._spot();
    this.isResting = !isMoving;
    if (isGoing) this.draw();
    // Dots are as large and as strong as there is room for each.
    const room = Math.sqrt((width * height) / map.n) * this.view.zoom;
    const diameter = Math.min(Math.max(room ** 0.65, 1.2), 9) * ratio;
    this.points.draw({
      a: a * ratio, b: b * ratio, c: c * ratio, d: d * ratio, width: this.canvas.width, height: this.canvas.height,
      diameter, alpha: Math.min(Math.max(0.25 + 0.25 * Math.sqrt(room), 0.4), 0.85), dim: spot ? 0.18 : 1,
      range: spot && spot.size < map.n ? spot : null, isMoving,
    });
    this.over.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawOver(this.over, this, spot);
    this.shown = map.key;
  }

  /** What is lifted out of the rest: what the mouse is over in the tree, otherwise what is selected. */
  _spot() {
    const { hover, selection, n } = this.app.values;
    const spot = hover && !hover.isPoint ? hover : selection ?? null;
    return spot && this.map.header.version === this.app.values.version && spot.size < n ? spot : null;
  }
}
