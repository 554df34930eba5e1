// The clusters of the cut, largest first.

import { css } from "grinch/palette";
import { el } from "grinch/dom";
import { count, counted } from "grinch/format";

/** @param {import("grinch/app").App} app @param {import("grinch/palette").Palette} palette */
export function clusterList(app, palette) {
  const { clusters } = app.values;
  if (!clusters) return el("p", { class: "meta", text: "…" });
  const { list, clusters: total } = clusters.header;
  if (!list.length) return el("p", { class: "meta", text: "There are no clusters yet." });
  const most = list[0].size;
  return el("div", { class: "clusters" }, recutHint(app.values),
    el("p", { class: "meta", text: total > list.length ? `The largest ${list.length} of ${counted(total, "cluster")}` : counted(total, "cluster") }),
    ...list.map((cluster) => entry(app, palette, cluster, most)));
}

/** Of a cut whose resolution was chosen for far fewer points. */
function recutHint({ about, cut }) {
  if (!about?.cuts.find((known) => known.cut === cut)?.is_recut_advised) return null;
  return el("p", { class: "meta advice" }, "Many points came since this cut chose its resolution. ",
    el("code", { text: `grinch recut ${about.title}` }), " lets it choose again.");
}

function entry(app, palette, cluster, most) {
  const spot = { node: cluster.node, start: cluster.start, size: cluster.size, title: cluster.name };
  return el("button", {
    class: "cluster", type: "button",
    onclick: () => app.goTo(spot),
    onmouseenter: () => app.state.set({ hover: spot }),
    onmouseleave: () => app.state.set({ hover: null }),
  },
  el("span", { class: "swatch", style: { background: css(palette.slot(cluster.slot)) } }),
  el("span", { class: "name", text: cluster.name }),
  el("span", { class: "note", text: count(cluster.size) }),
  el("span", { class: "track" }, el("i", { style: { width: `${Math.max((100 * cluster.size) / most, 1)}%`, background: css(palette.slot(cluster.slot)) } })));
}
