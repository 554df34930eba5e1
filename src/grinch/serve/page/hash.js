// The address keeps what is shown, so that it can be returned to. Nodes change their numbers from one version to the
// next; a node is kept as one of its points and its size.

import { isCut, tabOf } from "grinch/app";
import { later, remember, remembered } from "grinch/dom";

/** @returns {Record<string, string>} */
export function fromHash() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** @param {import("grinch/app").App} app */
function written(app) {
  const { cut, color, since, view, n, page, selection, method, about, tab } = app.values;
  const found = new URLSearchParams();
  if (cut && cut !== about?.cut) found.set("cut", cut);
  if (color !== "cluster") found.set("color", color);
  if (since !== null) found.set("since", since);
  if (method) found.set("map", method);
  if (tab !== tabOf(selection)) found.set("tab", tab);
  if (n && view.x1 - view.x0 < n * 0.999) found.set("x", `${(view.x0 / n).toPrecision(7)},${(view.x1 / n).toPrecision(7)}`);
  const id = page?.exemplars?.[0]?.id;
  if (selection && page?.node === selection.node && id !== null && id !== undefined) {
    found.set("id", id);
    found.set("size", selection.size);
  }
  return found.toString();
}

/** @param {import("grinch/app").App} app */
export function keepHash(app) {
  app.state.on("cut", ({ cut, about }) => remember(`cut.${about.title}`, cut === about.cut ? "" : cut));
  const write = later(() => {
    const text = written(app);
    if (text === location.hash.slice(1)) return;
    try {
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    } catch {
      // A page from a file, or in a frame, may have no history.
    }
  }, 250, true);
  app.state.on("cut color since view page selection method tab", write);
}

/** What an address says is to be shown. @param {any} source @param {any} about @param {Record<string, string>} known */
export async function returning(source, about, known) {
  const { n } = about, patch = {}, cut = Object.keys(known).length ? known.cut : remembered(`cut.${about.title}`);
  // Layers take a while: the tree does not wait for them.
  if (cut?.startsWith("layer:") && !about.cuts.some((other) => other.cut === cut)) patch.wantedCut = cut;
  else if (isCut(about, cut)) patch.cut = cut;
  if (about.colors.includes(known.color)) patch.color = known.color;
  if (about.versions && /^\d+$/.test(known.since ?? "")) patch.since = Math.min(Number(known.since), about.version);
  if (about.map?.methods.includes(known.map)) patch.method = known.map;
  const [from, to] = (known.x ?? "").split(",").map(Number);
  if (from >= 0 && to > from && to <= 1) patch.view = { x0: from * n, x1: to * n };
  if (known.id && n) {
    const spot = await source.locate(known.id, Number(known.size) || 1).catch(() => null);
    if (spot?.version === about.version) patch.selection = spot;
  }
  patch.tab = ["node", "clusters", "changes"].includes(known.tab) ? known.tab : tabOf(patch.selection);
  return patch;
}
