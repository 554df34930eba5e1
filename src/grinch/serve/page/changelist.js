// What happened since a version or a day; what is new glows in the tree and on the map.

import { el } from "grinch/dom";
import { ago, count, counted, moment } from "grinch/format";

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

function list(app, changes) {
  if (app.values.since === null) return null;
  if (!changes.changes.length) return el("p", { class: "meta", text: "No cluster of the followed cut has changed." });
  const entries = el("div", { class: "change-list" }), kinds = Object.entries(changes.counts);
  const total = kinds.reduce((sum, [, number]) => sum + number, 0);
  const show = (kind) => {
    entries.replaceChildren(...changes.changes.filter((change) => !kind || change.kind === kind).map((change) => entry(app, change)));
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.kind === kind));
  };
  const chips = [["", total], ...kinds].map(([kind, number]) => el("button", {
    class: "chip", type: "button", "data-kind": kind, onclick: () => show(kind),
  }, kind || "all", el("b", { text: count(number) })));
  show("");
  return el("div", {},
    changes.truncated && el("p", { class: "meta", text: `The largest ${count(changes.changes.length)} of ${counted(total, "change")}` }),
    el("div", { class: "chips small", role: "group", "aria-label": "Kinds of change" }, ...chips), entries);
}

function entry(app, change) {
  const isThere = change.node !== null;
  const note = [detail(change), change.time ? ago(change.time) : `version ${change.version}`].filter(Boolean).join(" · ");
  return el("button", {
    class: "change", type: "button", disabled: !isThere,
    onclick: () => app.goTo({ node: change.node, start: change.start, size: change.size, title: change.title }),
    onmouseenter: () => isThere && app.state.set({ hover: { node: change.node, start: change.start, size: change.size } }),
    onmouseleave: () => app.state.set({ hover: null }),
  }, el("span", { class: `kind ${change.kind}`, text: change.kind }),
  el("span", { class: "name", text: change.title }), el("span", { class: "note", text: note }));
}

/** What a change is about, in a few words; grinch.cuts.tracking.changes says what the numbers are. */
function detail({ kind, count: number, size, others }) {
  const which = others.length === 1 ? `cluster ${others[0]}` : counted(others.length, "cluster");
  if (kind === "dissolved") return others.length ? `${counted(number, "point")} to ${which}` : counted(number, "point");
  if (kind === "split") return `${counted(number, "point")} to ${which}`;
  if (kind === "merged") return `${counted(number, "point")} from ${which}`;
  if (kind === "grew") return `+${number}, ${counted(size, "point")} now`;
  if (kind === "shrank") return `−${number}, ${counted(size, "point")} now`;
  return counted(size, "point");
}
