// On a small screen the panel is below the tree: a bar says what is selected, and leads there.

import { byId } from "grinch/dom";
import { counted } from "grinch/format";

/** @param {import("grinch/app").App} app */
export function peek(app) {
  const bar = byId("peek"), panel = byId("panel-node").parentElement;
  let isSeen = true;
  const show = ({ selection, page }) => {
    const title = page?.node === selection?.node ? page?.title : selection?.title;
    bar.hidden = !selection || isSeen;
    if (selection) byId("peek-title").textContent = title || counted(selection.size, "point");
  };
  new IntersectionObserver(([entry]) => {
    isSeen = entry.intersectionRect.height > 80;
    show(app.values);
  }, { threshold: [0, 0.1, 0.2, 0.5, 1] }).observe(panel);
  app.state.on("selection page", show);
  byId("peek-open").addEventListener("click", () => {
    app.state.set({ tab: "node" });
    panel.scrollIntoView({ block: "start" });
  });
}
