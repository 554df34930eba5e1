// The page: its parts are made here, and linked by the state they share.

import { App } from "grinch/app";
import { track, whenIdle } from "grinch/busy";
import { Controls } from "grinch/controls";
import { byId, remember, remembered } from "grinch/dom";
import { fromHash, keepHash, returning } from "grinch/hash";
import { Icicle } from "grinch/icicle";
import { Keys } from "grinch/keys";
import { PointMap } from "grinch/map";
import { Panel } from "grinch/panel";
import { peek } from "grinch/peek";
import { Placing } from "grinch/placing";
import { Search } from "grinch/search";
import { splitters } from "grinch/splitters";
import { Theme } from "grinch/theme";
import { Tip } from "grinch/tip";

const source = await (globalThis.grinchExport ? import("grinch/local") : import("grinch/remote"));
const app = new App(source), theme = new Theme(app), palette = () => theme.palette;

app.say = (text) => { byId("said").textContent = text; };
app.icicle = new Icicle(app, palette);
app.map = new PointMap(app, palette);
app.tip = new Tip(app, palette);
new Panel(app, palette);
new Controls(app, palette);
new Search(app);
new Placing(app);
new Keys(app, { toggleMap, toggleTheme: () => theme.toggle() });
splitters();
peek(app);

// The map can be put away.
function toggleMap() {
  app.state.set({ isMapShown: !app.values.isMapShown });
}
byId("map-toggle").addEventListener("click", toggleMap);
app.state.on("isMapShown", ({ isMapShown }) => {
  document.body.classList.toggle("map-hidden", !isMapShown);
  byId("map-toggle").setAttribute("aria-pressed", String(isMapShown));
  remember("map", isMapShown ? "shown" : "hidden");
});

// Nothing there yet, or nobody there any more.
app.state.on("n about", ({ n, about }) => {
  byId("empty").hidden = !about || n > 0;
  document.body.classList.toggle("is-empty", Boolean(about) && !n);
});
app.state.on("works hasWords", ({ works, hasWords }) => {
  const said = hasWords ? works : ["finding names…", ...works];
  byId("progress").hidden = !said.length;
  byId("progress").textContent = said.join(" ");
});
app.state.on("isDrawn", () => document.body.classList.add("drawn"));
app.state.on("isOnline error", ({ isOnline, error }) => {
  byId("banner").hidden = isOnline && !error;
  byId("banner").textContent = isOnline ? error ?? "" : "The server does not answer. Trying again…";
});

app.state.set({ isMapShown: remembered("map") !== "hidden" });
globalThis.grinchPage = {
  get state() {
    const { view, selection, cut, color, version, n, since, page, hover, tab, isOnline, hasWords, works } = app.values;
    const { drawn, picture } = app.icicle;
    return {
      view, selection, cut, color, version, n, since, hover, tab, isOnline, hasWords, works, page: page && { node: page.node, title: page.title, name: page.name },
      blocks: drawn, steady: app.values.isSteady ?? null, rowHeight: app.icicle.rowHeight, topRow: app.icicle.topRow,
      first: picture?.count ? picture.spot(0) : null, renderer: app.map.points.kind, map: app.map.shown ?? null,
      mapView: { ...app.map.view }, labels: app.map.labels.drawn,
    };
  },
  /** Where the middle of a node is on its canvas, or of a point on the map. */
  blockAt: (node) => {
    const { picture, view, width, rowHeight, topRow } = app.icicle, i = picture?.at.get(node);
    if (i === undefined) return null;
    const scale = width / (view.x1 - view.x0);
    return { x: (picture.start[i] + picture.size[i] / 2 - view.x0) * scale, y: (picture.row[i] - topRow + 0.5) * rowHeight };
  },
  pointAt: (place) => {
    const { a, b, c, d } = app.map.transform();
    return { x: a * app.map.map.x[place] + c, y: b * app.map.map.y[place] + d };
  },
  blocks: () => {
    const { picture } = app.icicle;
    return picture ? Array.from(picture.node, (_, i) => ({ ...picture.spot(i), row: picture.row[i], flags: picture.flags[i], fresh: picture.fresh[i] })) : [];
  },
  times: () => app.icicle.times,
  drawTimes: (what, count) => Array.from({ length: count }, () => {
    const begin = performance.now();
    if (what === "tree") app.icicle.redraw();
    else app.map.redraw();
    return performance.now() - begin;
  }),
  idle: whenIdle,
};

const known = fromHash();
app.returning = (about) => track(returning(source, about, known));
// Until there is a first answer there is nothing to show; the banner says so.
while (!(await app.refresh())) await new Promise((resolve) => setTimeout(resolve, 1500));
keepHash(app);
document.documentElement.dataset.ready = "true";
if (!source.isStatic) source.onVersion(({ version, n }) => {
  if (version !== app.values.version || n !== app.values.n) app.refresh();
}, () => app.refresh());
