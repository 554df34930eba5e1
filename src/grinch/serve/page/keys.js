// The keyboard: moving in the tree, and the keys that work everywhere.

import { byId, el } from "grinch/dom";

const HELP = [
  ["← →", "the block beside"], ["↑ ↓", "its parent, its largest part"], ["Enter", "zoom to what is selected"],
  ["Esc, Backspace", "zoom out"], ["Home", "all points"], ["+ −", "zoom"], ["Shift ← →", "move the view"],
  ["/", "search"], ["[ ]", "fewer or more clusters"], ["M", "show or hide the map"], ["D", "light or dark"], ["?", "these keys"],
];
const MOUSE = [["Wheel, pinch", "zoom"], ["Drag", "move"], ["Click", "select"], ["Double-click", "zoom to it"]];

export class Keys {
  /** @param {import("grinch/app").App} app @param {{toggleMap: () => void, toggleTheme: () => void}} actions */
  constructor(app, actions) {
    Object.assign(this, { app, actions });
    byId("icicle").addEventListener("keydown", (event) => this._tree(event));
    document.addEventListener("keydown", (event) => this._anywhere(event));
    byId("help").append(this._help());
    byId("help-open").addEventListener("click", () => byId("help").showModal());
  }

  _help() {
    const table = (rows) => el("dl", { class: "keys" }, ...rows.flatMap(([key, text]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text })]));
    return el("form", { method: "dialog" }, el("h2", { text: "Keys" }), table(HELP), el("h2", { text: "Mouse and fingers" }), table(MOUSE),
      el("p", { class: "meta", text: "What is too fine to be seen appears as you zoom in." }),
      el("div", { class: "buttons" }, el("button", { text: "Close" })));
  }

  _anywhere(event) {
    const { target } = event;
    const isTyping = target.closest?.("input:not([type=range]), textarea, select, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const act = {
      "/": () => byId("query").focus(),
      "?": () => byId("help").showModal(),
      m: this.actions.toggleMap,
      d: this.actions.toggleTheme,
      "[": () => this._cut(1 / 1.2),
      "]": () => this._cut(1.2),
      Escape: () => this.app.icicle.zoomOut(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  _cut(factor) {
    const { about, cut, clusters } = this.app.values;
    if (!about?.n) return;
    const k = cut.startsWith("k:") ? Number(cut.slice(2)) : clusters?.header.clusters ?? 1;
    const next = factor > 1 ? Math.max(k + 1, Math.round(k * factor)) : Math.min(k - 1, Math.round(k * factor));
    this.app.state.set({ cut: `k:${Math.min(Math.max(next, 1), about.max_k)}` });
  }

  _tree(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { icicle } = this.app, { selection } = this.app.values;
    const act = {
      ArrowUp: () => this._up(), ArrowDown: () => this._down(),
      ArrowLeft: () => (event.shiftKey ? icicle.panBy(-icicle.width / 5) : this._beside(-1)),
      ArrowRight: () => (event.shiftKey ? icicle.panBy(icicle.width / 5) : this._beside(1)),
      Enter: () => selection && icicle.zoomTo(selection),
      Escape: () => icicle.zoomOut(), Backspace: () => icicle.zoomOut(), Home: () => this._home(),
      "+": () => icicle.zoomBy(0.6), "=": () => icicle.zoomBy(0.6), "-": () => icicle.zoomBy(1 / 0.6),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** All points, and none of them selected. */
  _home() {
    this.app.select(null);
    this.app.icicle.home();
    this.app.map.home();
  }

  /** The block of what is selected; the first in view if nothing is. */
  _block() {
    const { picture } = this.app.icicle, { selection, view } = this.app.values;
    if (!picture?.count) return null;
    const i = selection ? picture.at.get(selection.node) ?? picture.deepest(selection.start) : -1;
    if (i >= 0) return { picture, i };
    this._select(picture, picture.covering(view.x0, view.x1));
    return null;
  }

  _select(picture, i) {
    if (i < 0) return;
    const spot = picture.spot(i);
    this.app.select(spot);
    const { x0, x1 } = this.app.values.view;
    if (spot.start + spot.size <= x0 || spot.start >= x1) this.app.icicle.reveal(spot);
  }

  _up() {
    const at = this._block();
    if (!at) return;
    const above = at.picture.parent[at.i];
    if (above >= 0) this._select(at.picture, above);
    const { path } = this.app.values.page ?? {};
    // Beyond what is drawn, the way to the root is known from the page of the node.
    if (above < 0 && path?.length > 1) this.app.goTo({ ...path[path.length - 2], title: path[path.length - 2].name });
    const { selection, view } = this.app.values;
    if (selection && selection.size > view.x1 - view.x0) this.app.icicle.zoomTo(selection);
  }

  _down() {
    const at = this._block();
    if (!at) return;
    const children = at.picture.children(at.i);
    if (children.length) this._select(at.picture, children.reduce((a, b) => (at.picture.size[b] > at.picture.size[a] ? b : a)));
    else if (at.picture.size[at.i] > 1) this.app.icicle.zoomTo(at.picture.spot(at.i));
  }

  _beside(step) {
    const at = this._block();
    if (!at) return;
    const row = at.picture.rows[at.picture.row[at.i]];
    this._select(at.picture, row[row.indexOf(at.i) + step] ?? -1);
  }
}
