// The page of a node: what it is, what stands for it, what is near it, and who is in it.

import { el, icon, ICONS } from "grinch/dom";
import { isSize } from "grinch/drawing";
import { count, counted, percent, real, span } from "grinch/format";
import { memberList } from "grinch/members";
import { pointCard } from "grinch/point";

const MANY_COLUMNS = 64;
const MOST_LABELS = 7;

/** @param {string} title @param {...(Node | null | false | undefined)} content */
export function section(title, ...content) {
  return el("section", {}, el("h3", { text: title }), ...content);
}

/** A row that leads to a node. @param {import("grinch/app").App} app @param {any} spot @param {string} note @param {Node | null} [mark] */
export function link(app, spot, note, mark = null) {
  return el("button", {
    class: "row", type: "button",
    onclick: () => app.goTo(spot),
    onmouseenter: () => app.state.set({ hover: spot }),
    onmouseleave: () => app.state.set({ hover: null }),
  }, mark, el("span", { class: "name", text: spot.title }), el("span", { class: "note", text: note }));
}

/** @param {import("grinch/app").App} app @param {any} page */
export function nodePage(app, page) {
  const isPoint = page.size === 1;
  const columns = page.columns.length > 0 && section("Columns that stand out", columnBars(page.columns));
  // One of hundreds of columns says less than an example does.
  const isBelow = app.values.about.n_features > MANY_COLUMNS || page.exemplars.some((member) => member.text);
  return el("article", {},
    heading(app, page),
    !isPoint && el("p", { class: "meta", text: [!isSize(page.title) && counted(page.size, "point"), `${percent(page.size / app.values.n)} of all`].filter(Boolean).join(" · ") }),
    page.exemplars.length > 0 && section(isPoint ? "The point" : "Most typical", exemplars(app, page)),
    page.keywords.length > 0 && !isPoint && section("Keywords", el("div", { class: "words-list" }, ...page.keywords.map((word) => el("span", { text: word })))),
    !isBelow && columns,
    page.labels?.length > 0 && !isPoint && section("Labels", labelBars(page)),
    facts(app, page),
    isBelow && columns,
    page.children.length > 0 && section("Parts", ...page.children.map((child) => link(app, child, `${count(child.size)} · ${percent(child.size / page.size)}`))),
    page.nearest.length > 0 && section("Nearest", ...page.nearest.map((near) => link(app, near, `${count(near.size)} · ${real(near.similarity)}`))),
    page.size > page.exemplars.length && memberList(app, page));
}

function heading(app, page) {
  const canName = app.values.about.can_name && !app.source.isStatic;
  const title = el("h2", { text: page.title, class: page.name ? "given" : null });
  const box = el("div", { class: "heading" }, title,
    canName && el("button", { class: "quiet square small", type: "button", id: "rename", title: "Give it a name", "aria-label": "Give this node a name", onclick: () => naming(app, page, box) }, icon(ICONS.pencil)),
    el("button", { class: "quiet square small", type: "button", title: "Zoom to it (Enter)", "aria-label": "Zoom to this node", onclick: () => app.icicle.zoomTo(page) }, icon(ICONS.zoom)));
  return box;
}

/** Let the user give a name; it takes the place of the heading meanwhile. */
function naming(app, page, box) {
  const input = el("input", { type: "text", id: "name", value: page.name ?? "", maxlength: 200, placeholder: page.title, "aria-label": "Name of this node", autocomplete: "off" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const save = async (name) => {
    try {
      const found = await app.ask(() => app.source.name(page.node, name, page.version));
      if (found) app.renamed();
      else problem.textContent = "The tree has changed meanwhile; try again.";
    } catch (error) {
      problem.textContent = error.message;
    }
    problem.hidden = !problem.textContent;
  };
  const form = el("form", { class: "naming", onsubmit: (event) => { event.preventDefault(); save(input.value.trim() || null); } },
    input, el("button", { type: "submit", text: "Save" }),
    page.name && el("button", { type: "button", class: "quiet", text: "Remove", onclick: () => save(null) }), problem);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    form.replaceWith(box);
    box.querySelector("#rename")?.focus();
  });
  box.replaceWith(form);
  input.focus();
}

/** Numbers, each with a sentence that says what it is. */
function facts(app, page) {
  const { cluster } = page, rows = [];
  const row = (name, value, meaning, kind) => rows.push(el("dt", { text: name }), el("dd", { class: kind }, value, el("p", { class: "meta", text: meaning })));
  if (page.fresh > 0) row("New", count(page.fresh), "came since the version that you compare with.", "fresh");
  if (cluster?.node === page.node) row("Cluster", String(cluster.cluster), "is its number in the cut that is shown.");
  else if (cluster) row("In cluster", el("button", { class: "text", type: "button", text: cluster.name, onclick: () => clusterOf(app, cluster) }), "is what the cut makes of it.");
  if (page.size > 1) row("Height", real(page.height), "is how far apart its two sides are.");
  if (page.size > 1 && page.score !== null) row("Score", real(page.score), "is how similar its two sides are, by the linkage.");
  if (page.persistence?.share >= 0.005) row("Lasts", percent(page.persistence.share), `of the height of the tree it is one cluster: from ${real(page.persistence.from)} to ${real(page.persistence.to)}.`);
  if (page.times) row("Arrived", span(page.times), "is when its points came.");
  return rows.length > 0 && section("Numbers", el("dl", { class: "facts" }, ...rows));
}

/** Go to a cluster, of which the page of a node knows all but where it starts. */
function clusterOf(app, cluster) {
  const { node, start } = app.values.clusters?.arrays ?? {};
  const i = node ? node.indexOf(cluster.node) : -1;
  if (i >= 0) app.goTo({ node: cluster.node, start: start[i], size: cluster.size, title: cluster.name });
}

function columnBars(columns) {
  const most = Math.max(...columns.map((column) => Math.abs(column.z)));
  return el("div", { class: "bars signed" }, ...columns.map(({ name, mean, all, z }) => {
    const wide = (Math.abs(z) / most) * 50;
    return el("div", { class: "bar-row", title: `${name}: mean ${real(mean)}, of all ${real(all)}` },
      el("span", { class: "name", text: name }),
      el("span", { class: "track" }, el("i", { class: z < 0 ? "low" : "high", style: { left: `${z < 0 ? 50 - wide : 50}%`, width: `${wide}%` } })),
      el("span", { class: "note", text: `${z > 0 ? "+" : "−"}${Math.abs(z).toFixed(1)} σ` }));
  }));
}

/** Labels as shares of the node, and in one row each the other labels and the points without one. */
function labelBars(page) {
  const { size, labels, n_labels: all, n_labelled: labelled } = page, shown = labels.slice(0, all > labels.length ? MOST_LABELS : labels.length);
  const rest = labelled - shown.reduce((sum, { count: number }) => sum + number, 0);
  const row = (text, number, kind) => el("div", { class: "bar-row" }, el("span", { class: kind, text }),
    el("span", { class: "track" }, el("i", { style: { width: `${(100 * number) / size}%` } })),
    el("span", { class: "note", text: percent(number / size) }));
  return el("div", { class: "bars" }, ...shown.map(({ name, count: number }) => row(name, number, "name")),
    rest > 0 && row(counted(all - shown.length, "other"), rest, "name meta"),
    labelled < size && row("no label", size - labelled, "name meta"));
}

function exemplars(app, page) {
  const hasImages = page.exemplars.some((member) => member.image), isPoint = page.size === 1;
  return el("div", { class: hasImages && !isPoint ? "points grid" : "points" }, ...page.exemplars.map((member) =>
    pointCard(app, member, { isLarge: isPoint, onclick: isPoint ? undefined : () => app.goTo({ node: member.leaf, start: member.x, size: 1, title: member.text ?? String(member.id) }) })));
}
