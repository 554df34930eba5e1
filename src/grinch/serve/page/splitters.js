// Lines between the panes that can be dragged, or moved with the arrow keys.

import { byId, remember, remembered } from "grinch/dom";

const LEAST = 220;

/** @param {string} id Of the line. @param {string} property The width that it changes. @param {() => HTMLElement} pane On its right. */
function splitter(id, property, pane) {
  const line = byId(id), root = document.documentElement;
  const set = (width) => {
    const most = Math.max(innerWidth * 0.6, LEAST), next = Math.min(Math.max(width, LEAST), most);
    root.style.setProperty(property, `${Math.round(next)}px`);
    line.setAttribute("aria-valuenow", String(Math.round((100 * next) / innerWidth)));
    remember(property, String(Math.round(next)));
  };
  const known = Number(remembered(property));
  if (known >= LEAST) set(known);
  line.addEventListener("pointerdown", (event) => {
    const from = event.clientX, width = pane().offsetWidth;
    line.setPointerCapture(event.pointerId);
    const move = (next) => set(width + from - next.clientX);
    line.addEventListener("pointermove", move);
    line.addEventListener("pointerup", () => line.removeEventListener("pointermove", move), { once: true });
  });
  line.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
    if (!step) return;
    event.preventDefault();
    set(pane().offsetWidth + step);
  });
}

export function splitters() {
  splitter("split-map", "--map-width", () => byId("map-pane"));
  splitter("split-panel", "--panel-width", () => document.querySelector(".panel"));
}
