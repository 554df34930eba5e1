// What happened since a version or a day; what is new glows in the tree and on the map.

import { el } from "grinch/dom";
import { count, counted, moment } from "grinch/format";

// What is said of a kind of change where that is another word.
const WORDS = { renamed: "got a name", exchanged: "exchanged points" };

/** @param {import("grinch/app").App} app @param {any} known {changes, versions} */
export function changeList(app, { changes, versions }) {
  if (!app.values.about?.versions) return el("p", { class: "meta", text: "Only a store keeps versions; this has none." });
  return el("div", { class: "changes" }, chooser(app, versions), summary(app, changes), changes && list(app, changes));
}

/** Since when: a slider over the versions, or a day. */
function chooser(app, versions) {
  const { since, version } = app.values, known = versions ?? [];
  const at = since === null ? known.length - 1 : Math.max(known.findLastIndex((entry) => entry.version <= since), 0);
  const text = (entry) => (entry ? `${entry.version === version - 1 ? "the previous version" : `version ${entry.version}`} · ${moment(entry.time)}` : "…");
  const label = el("output", { text: since === null ? `now (version ${version})` : since === 0 ? "the beginning" : text(known[at]) });
  const slider = el("input", {
    type: "range", id: "since", min: -1, max: Math.max(known.length - 1, 0), value: since === 0 ? -1 : at, "aria-label": "What is new since this version",
    oninput: () => { label.textContent = Number(slider.value) < 0 ? "the beginning" : text(known[slider.value]); },
    onchange: () => app.state.set({ since: Number(slider.value) < 0 ? 0 : known[slider.value].version, day: null }),
  });
  const day = el("input", { type: "date", id: "since-day", "aria-label": "What is new since this day", value: app.values.day ?? "", onchange: () => day.value && app.setDay(day.value) });
  return el("div", { class: "chooser" },
    el("div", { class: "since" }, el("span", { class: "meta", text: "New since" }), label),
    slider,
    el("div", { class: "choices" }, el("label", { class: "meta" }, "or a day ", day),
      since !== null && el("button", { class: "text", type: "button", text: "Clear", onclick: () => app.state.set({ since: null, day: null }) })));
}

function summary(app, changes) {
  if (app.values.since === null) return el("p", { class: "meta", text: "Nothing is marked as new. Choose a version or a day: what came after it glows." });
  return changes && el("p", { class: "fresh big", text: changes.new_points ? counted(changes.new_points, "new point") : "No new points" });
}

function list(app, { changes, rest }) {
  if (app.values.since === null) return null;
  const counts = Object.entries(rest).map(([kind, number]) => `${count(number)} ${WORDS[kind] ?? kind}`);
  if (!changes.length && !counts.length) return el("p", { class: "meta", text: "The clusters are the same." });
  const more = changes.length ? "Other clusters" : "Clusters";
  return el("div", { class: "change-list" }, ...changes.map((change) => entry(app, change)),
    counts.length > 0 && el("p", { class: "meta", text: `${more}: ${counts.join(", ")}` }));
}

function entry(app, change) {
  const isThere = change.node !== null, { title, text } = change;
  return el("button", {
    class: "change", type: "button", disabled: !isThere,
    onclick: () => app.goTo({ node: change.node, start: change.start, size: change.size, title }),
    onmouseenter: () => isThere && app.state.set({ hover: { node: change.node, start: change.start, size: change.size } }),
    onmouseleave: () => app.state.set({ hover: null }),
  }, el("span", { class: `kind ${change.kind}`, text: change.kind }), el("span", {}, el("b", { text: title }), text.slice(title.length)));
}
