// The icicle on its canvas: what is in view, how it moves, and what the mouse does.

import { fit } from "grinch/app";
import { begin, end } from "grinch/busy";
import { byId, isStill } from "grinch/dom";
import { drawBlocks, drawColumns, drawCut, drawFrame, drawFresh, drawLabels, LEAST_OPEN } from "grinch/drawing";
import { Gestures } from "grinch/gestures";
import { WITHIN } from "grinch/picture";
import { Pictures } from "grinch/pictures";

const LEAST_ROW = 15, MOST_ROW = 40, LEAST_FOLDED = 5;
// The rows above the cut take at most this share of the height.
const MOST_ABOVE = 0.6;
// Time in which a movement is nearly over, in milliseconds.
const EASE = 75, SWAP = 200, PULSE = 8000;
// At most this many points are as wide as the screen.
const FEWEST_POINTS = 3;

export class Icicle {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette });
    this.canvas = byId("icicle");
    this.ctx = this.canvas.getContext("2d");
    this.pictures = new Pictures(app, () => this.draw());
    this.view = { x0: 0, x1: 1 };
    this.topRow = 0;
    this.rowHeight = MOST_ROW;
    this.picture = null;
    this.swap = { begin: -SWAP, rows: new Map() };
    this.drawn = 0;
    this.times = [];
    this.pulseUntil = 0;
    new Gestures(this.canvas, this._gestures());
    new ResizeObserver(() => this._resize()).observe(this.canvas.parentElement);
    app.state.on("view version cut color since again", () => this._changed());
    // What was under the mouse is no longer there.
    app.state.on("view version", () => this._hover(-1, -1));
    app.state.on("selection hover clusters freshShare", () => this.draw());
    app.state.on("since version", () => this.pulse());
  }

  // View -----------------------------------------------------------------------------------------------------------

  _resize() {
    const { clientWidth, clientHeight } = this.canvas.parentElement, ratio = devicePixelRatio || 1;
    if (!clientWidth || !clientHeight) return;
    Object.assign(this, { width: clientWidth, height: clientHeight });
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this._changed();
    this.redraw();
  }

  _changed() {
    const { n, version, view } = this.app.values;
    if (this.shownVersion !== version) {
      // Places mean something else now.
      this.shownVersion = version;
      this.view = { ...view };
    }
    if (n && this.width) this._want();
    this.draw();
  }

  _want() {
    const { x0, x1 } = this.app.values.view, perPixel = (x1 - x0) / this.width;
    const best = this.pictures.best(x0, x1, perPixel), rows = Math.ceil(this.height / LEAST_ROW);
    if (this.pictures.suffices(best, x0, x1, perPixel, rows)) return;
    const isTooHigh = best && best.key === this.pictures.key() && best.perPixel <= perPixel * 1.01 && best.x0 <= x0 && best.x1 >= x1;
    this.pictures.want(x0, x1, this.width, Boolean(isTooHigh));
  }

  /** Ask for the names again. */
  renew() {
    const { x0, x1 } = this.app.values.view;
    this.pictures.renew(x0, x1, this.width);
  }

  /** @param {number} x0 @param {number} x1 */
  show(x0, x1) {
    const { n } = this.app.values;
    if (!n) return;
    const least = Math.min(FEWEST_POINTS, n), middle = (x0 + x1) / 2;
    if (x1 - x0 < least) [x0, x1] = [middle - least / 2, middle + least / 2];
    this.app.state.set({ view: fit(x0, x1, n) });
  }

  home() {
    this.show(0, this.app.values.n);
  }

  /** @param {import("grinch/state").Spot} spot */
  zoomTo({ start, size }) {
    const margin = size < FEWEST_POINTS ? FEWEST_POINTS : 0;
    this.show(start - margin, start + size + margin);
  }

  /** Bring a node into view if it is not, or too small. @param {import("grinch/state").Spot} spot */
  reveal({ start, size }) {
    const { x0, x1 } = this.app.values.view, pixels = (size / (x1 - x0)) * this.width;
    if (start >= x0 - 1e-9 && start + size <= x1 + 1e-9 && pixels >= 24) return;
    const wide = Math.max(size * 4, FEWEST_POINTS * 3);
    this.show(start + size / 2 - wide / 2, start + size / 2 + wide / 2);
  }

  /** One step towards the root. */
  zoomOut() {
    const { x0, x1 } = this.app.values.view;
    const crumbs = this.crumbs();
    const wider = crumbs.findLast((crumb) => crumb.size > (x1 - x0) * 1.2);
    if (wider) this.zoomTo(wider);
    else this.home();
  }

  /** @param {number} factor @param {number} x Pixels from the left that stay where they are. */
  zoomBy(factor, x = this.width / 2) {
    const { x0, x1 } = this.app.values.view, { n } = this.app.values;
    const wide = Math.min(Math.max((x1 - x0) * factor, Math.min(FEWEST_POINTS, n)), n);
    // What is under the cursor on the screen, which may still be moving.
    const share = x / this.width, place = this.view.x0 + share * (this.view.x1 - this.view.x0);
    this.show(place - share * wide, place - share * wide + wide);
  }

  panBy(pixels) {
    const { x0, x1 } = this.app.values.view, moved = (pixels * (x1 - x0)) / this.width;
    this.show(x0 + moved, x1 + moved);
  }

  /** From the root to what is in view: what the server says of the way there, and the blocks from there on. */
  crumbs() {
    const { x0, x1 } = this.app.values.view, picture = this.picture;
    if (!picture?.count) return [];
    const found = picture.header.path.map((crumb) => ({ ...crumb, title: crumb.name })), chain = [];
    for (let i = picture.covering(x0, x1); i > 0; i = picture.parent[i]) chain.unshift(picture.spot(i));
    const kept = chain.filter((spot, at) => at === chain.length - 1 || spot.size < 0.8 * (chain[at - 1]?.size ?? Infinity));
    return [...found, ...kept];
  }

  // Drawing --------------------------------------------------------------------------------------------------------

  /** Draw soon. */
  draw() {
    if (this.frame) return;
    begin();
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      try {
        this._frame(now);
      } finally {
        end();
      }
    });
  }

  /** Draw at once, as it is. */
  redraw() {
    this._frame(performance.now(), true);
  }

  pulse() {
    this.pulseUntil = performance.now() + PULSE;
    this.draw();
  }

  _frame(now, isAtOnce = false) {
    if (!this.width) return;
    const passed = isAtOnce ? 0 : Math.min(now - (this.last ?? now), 50) || 16;
    this.last = now;
    const isMoving = this._move(passed);
    const { x0, x1 } = this.view, perPixel = (x1 - x0) / this.width;
    const picture = this.pictures.best(x0, x1, perPixel);
    // What was there is better than nothing.
    if (!picture) return;
    this.ctx.clearRect(0, 0, this.width, this.height);
    if (picture !== this.picture) this._swapTo(picture, now);
    const isSettling = this._settle(picture, passed);
    this._paint(picture, now);
    this._time(picture);
    if (!this.app.values.isDrawn) this.app.state.set({ isDrawn: true });
    const isSwapping = now - this.swap.begin < SWAP;
    if (isMoving || isSettling || isSwapping) this.draw();
    else {
      this.last = undefined;
      if (picture.key === this.pictures.key()) this.app.state.set({ shown: picture, isSteady: `${x0},${x1},${picture.key}` });
      if (this._glows(picture) && now < this.pulseUntil && !isStill()) setTimeout(() => this.draw(), 50);
    }
  }

  /** Keep how long it took from a question to its first picture, for those who measure. */
  _time(picture) {
    const { begin, arrived } = picture.asked;
    if (picture.isTimed) return;
    picture.isTimed = true;
    this.times = [...this.times.slice(-499), { begin, arrived, drawn: performance.now(), blocks: this.drawn }];
  }

  /** Come nearer to where the view is to be; whether there is still some way to go. */
  _move(passed) {
    const { x0, x1 } = this.app.values.view, view = this.view;
    const wide = Math.min(x1 - x0, view.x1 - view.x0);
    const isThere = Math.abs(x0 - view.x0) < 0.001 * wide && Math.abs(x1 - view.x1) < 0.001 * wide;
    const share = isThere || isStill() ? 1 : 1 - Math.exp(-passed / EASE);
    view.x0 += (x0 - view.x0) * share;
    view.x1 += (x1 - view.x1) * share;
    if (share === 1) Object.assign(view, { x0, x1 });
    return share < 1;
  }

  /** Let the rows come to where they belong. */
  _settle(picture, passed) {
    const { x0, x1 } = this.app.values.view;
    const top = Math.max(picture.row[picture.covering(x0, x1)] - 1, 0);
    const rows = picture.lastRow(x0, x1) - top + 1, above = Math.max(picture.lastRow(x0, x1, true) - top + 1, 1);
    const fits = Math.max((this.height - 5) / (rows + 1), LEAST_ROW);
    const high = Math.max(Math.min(fits, (MOST_ABOVE * this.height) / above, MOST_ROW), LEAST_FOLDED);
    const isThere = Math.abs(top - this.topRow) < 0.01 && Math.abs(high - this.rowHeight) < 0.1;
    const share = isThere || isStill() || this.isNew ? 1 : 1 - Math.exp(-passed / EASE);
    this.isNew = false;
    this.topRow += (top - this.topRow) * share;
    this.rowHeight += (high - this.rowHeight) * share;
    return share < 1;
  }

  /** Another picture: blocks that both have go from where they are to where they will be. */
  _swapTo(picture, now) {
    const old = this.picture;
    this.isNew = !old?.count;
    const rows = new Map();
    if (old?.count && old.version === picture.version && !isStill()) {
      for (let i = 0; i < old.count; i += 1) rows.set(old.node[i], this._rowOf(old, i, now));
    }
    this.picture = picture;
    if (old?.count) {
      // The rows of the new picture begin where the same block is on the screen now.
      const i = picture.covering(this.view.x0, this.view.x1), before = rows.get(picture.node[i]);
      if (before !== undefined) this.topRow = picture.row[i] - before;
    }
    this.swap = { begin: rows.size ? now : now - SWAP, rows };
  }

  _rowOf(picture, i, now) {
    const goal = picture.row[i] - this.topRow, t = (now - this.swap.begin) / SWAP;
    if (t >= 1) return goal;
    const from = this.swap.rows.get(picture.node[i]);
    return from === undefined ? goal : from + (goal - from) * t * (2 - t);
  }

  _glows(picture) {
    return this.app.values.since !== null && picture.fresh[0] > 0;
  }

  _scene(picture, now) {
    const { width, height, rowHeight, ctx, view } = this;
    return {
      ctx, picture, palette: this.palette(), width, height, rowHeight, x0: view.x0, scale: width / (view.x1 - view.x0),
      rowOf: (i) => this._rowOf(picture, i, now),
    };
  }

  _paint(picture, now) {
    const scene = this._scene(picture, now), { selection, hover, since } = this.app.values;
    picture.paint(scene.palette, this.app.values.freshShare);
    if (this._hasColumns(picture)) this._columns(scene);
    this.drawn = drawBlocks(scene);
    drawCut(scene);
    if (since !== null && picture.asked.color !== "fresh") drawFresh(scene, isStill() || now > this.pulseUntil ? 0.6 : 0.5 + 0.5 * Math.sin(now / 260));
    drawLabels(scene);
    if (hover && hover.node !== selection?.node) drawFrame(scene, this._shownAs(picture, hover), false);
    if (selection) drawFrame(scene, selection, true);
  }

  /** Clusters too small to be blocks, below the lowest blocks of those above the cut. */
  _columns(scene) {
    const { picture, width, rowHeight, x0, scale } = scene;
    for (let i = 0; i < picture.count; i += 1) {
      const left = (picture.start[i] - x0) * scale, isSeen = left < width && left + picture.size[i] * scale > 0;
      if (isSeen && picture.isEnd[i] && !(picture.flags[i] & WITHIN)) drawColumns(scene, this.app.values.clusters, picture.spot(i), (scene.rowOf(i) + 1) * rowHeight);
    }
  }

  _hasColumns(picture) {
    const { clusters, color, cut } = this.app.values;
    return color === "cluster" && clusters?.header.version === picture.version && clusters.header.cut === cut;
  }

  /** A point that the mouse is over on the map: the smallest block it is in. */
  _shownAs(picture, spot) {
    if (spot.node >= 0) return spot;
    const i = picture.deepest(spot.start);
    return i >= 0 && picture.size[i] === 1 ? picture.spot(i) : spot;
  }

  // Mouse ----------------------------------------------------------------------------------------------------------

  /** The block under the mouse; -1 for none. */
  hit(x, y) {
    const picture = this.picture;
    if (!picture?.count) return -1;
    const place = this.placeAt(x), i = picture.blockAt(Math.floor(y / this.rowHeight + this.topRow), place);
    const found = i < 0 && (y / this.rowHeight + this.topRow) > 0 ? this._above(place) : i, top = found < 0 ? -1 : picture.top[found];
    // A narrow cluster is not opened.
    return top >= 0 && (picture.size[top] * this.width) / (this.view.x1 - this.view.x0) < LEAST_OPEN ? top : found;
  }

  /** The cluster that reaches down to the bottom at a place; -1 if none does. */
  _above(place) {
    const i = this.picture.deepest(place);
    return i < 0 ? -1 : this.picture.top[i];
  }

  /** The cluster whose column is at a place. */
  _columnAt(x) {
    return this.picture?.count && this._hasColumns(this.picture) ? this.app.map.clusterAt(Math.floor(this.placeAt(x))) : null;
  }

  placeAt(x) {
    return this.view.x0 + (x / this.width) * (this.view.x1 - this.view.x0);
  }

  _gestures() {
    const spotAt = (x, y) => {
      const i = this.hit(x, y);
      if (i >= 0) return this.picture.spot(i);
      return this._columnAt(x);
    };
    return {
      zoom: (factor, x) => this.zoomBy(factor, x),
      pan: (dx) => this.panBy(-dx),
      move: (x, y) => this._hover(x, y),
      leave: () => this._hover(-1, -1),
      click: (x, y) => this.app.select(spotAt(x, y)),
      double: (x, y) => {
        const spot = spotAt(x, y);
        if (spot) this.zoomTo(spot);
      },
    };
  }

  _hover(x, y) {
    const i = x < 0 ? -1 : this.hit(x, y);
    const isColumn = x >= 0 && i < 0;
    const spot = i >= 0 ? this.picture.spot(i) : isColumn ? this._columnAt(x) : null;
    this.canvas.style.cursor = spot ? "pointer" : "default";
    if (spot?.node !== this.app.values.hover?.node) this.app.state.set({ hover: spot });
    if (isColumn && spot) this.app.tip.node(spot, x, y);
    else this.app.tip?.block(this.picture, i, x, y);
  }
}
