// Where answers come from when there is no server: from what the static export put into the page. The face is that of
// grinch/remote; what the answers are is defined by grinch.serve.views.viewer, and a test compares the two.

import { LocalCuts } from "grinch/localcuts";
import { LocalRows, LocalWords } from "grinch/localpoints";
import { LocalTree } from "grinch/localtree";
import { unpack } from "grinch/unpack";

const LEAST_PIXELS = 3, NAMED_PIXELS = 36, MOST_NAMES = 150, LISTED_CLUSTERS = 200;
const MORE = 1, TOP = 2, POINT = 4, NAMED = 8, WITHIN = 16;
const N_EXEMPLARS = 6, N_NEAREST = 6, N_LABELS = 12, SNIPPET = 160, LONGEST_TEXT = 2_000, NO_LABEL = 65_535;

export const isStatic = true;

/** What the export put in, gzipped and in base64. */
async function embedded() {
  const text = document.getElementById("grinch-data").textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(await new Response(stream).arrayBuffer());
}

const { header: known, arrays } = await embedded();
const { n } = known.about;
const tree = new LocalTree(n, known.about.root, arrays.left, arrays.right);
const labelsOfCuts = Object.fromEntries(known.cuts.map((name) => [name, arrays[`labels ${name}`]]));
const cuts = new LocalCuts(tree, labelsOfCuts, arrays.splits);
const rows = known.rows ? new LocalRows(tree, known.rows, arrays.rows) : null;
const words = known.words ? new LocalWords(known.words, arrays.word_numbers, arrays.word_ends) : null;
const codes = arrays.codes ?? null;
const commonest = codes ? tree.commonest(codes, known.label_names.length) : null;
const given = new Map(known.names);
const arrival = runningSums((leaf) => arrays.arrival[leaf]);
const freshBefore = new Map();

function runningSums(value) {
  const sums = new Float64Array(n + 1);
  for (let place = 0; place < n; place++) sums[place + 1] = sums[place] + value(tree.order[place]);
  return sums;
}

/** How many points under a node came after a version. */
function fresh(v, since) {
  if (since === null || since === undefined) return 0;
  if (!freshBefore.has(since)) freshBefore.set(since, runningSums((leaf) => Number(arrays.arrived[leaf] > since)));
  const before = freshBefore.get(since);
  return before[tree.starts[v] + tree.sizes[v]] - before[tree.starts[v]];
}

const cutOf = (name) => cuts.get(!name || name === "auto" ? known.about.cut : name);
const real = (value) => (Number.isFinite(value) ? value : null);
const keywords = (v, most) => (words ? words.keywords(tree.starts[v], tree.starts[v] + tree.sizes[v], most) : []);

function problem(message, status) {
  return Object.assign(new Error(message), { status });
}

function checked(v) {
  if (!tree.has(v)) throw problem(`node ${v} is not in the tree`, 404);
  return v;
}

// Texts -----------------------------------------------------------------------------------------------------------------

function textOf(leaf) {
  const payload = known.payloads[leaf], found = typeof payload === "string" ? payload : field("text", payload);
  return found === null || found === undefined ? null : String(found).slice(0, LONGEST_TEXT);
}

function field(what, payload) {
  const name = known.fields[what];
  return name !== null && payload !== null && typeof payload === "object" ? payload[name] : null;
}

function title(v, cut) {
  if (given.has(v)) return given.get(v);
  const i = cut?.isTop.has(v) ? cut.nodes.indexOf(v) : -1;
  const ofCluster = i < 0 ? null : known.cluster_names[cut.name]?.[cut.clusters[i]];
  if (ofCluster) return ofCluster;
  if (tree.isLeaf(v)) return (textOf(v) || String(known.ids[v])).slice(0, 120);
  const found = v === known.about.root ? [] : keywords(v, 4);
  if (found.length) return found.join(", ");
  const isMost = commonest && commonest.best[v] >= 0 && commonest.counts[v] >= tree.sizes[v] / 2;
  return isMost ? known.label_names[commonest.best[v]] : `${tree.sizes[v].toLocaleString("en")} points`;
}

const spot = (v) => ({ node: v, start: tree.starts[v], size: tree.sizes[v] });
const crumb = (v, cut) => ({
  ...spot(v), name: v === known.about.root && !given.has(v) ? "all points" : title(v, cut), height: real(arrays.height[v]),
});

// The whole -------------------------------------------------------------------------------------------------------------

export const about = async () => known.about;
export const layers = async () => ({ version: known.about.version, layers: known.layers });
export const versions = async () => ({ versions: known.versions });
export const onVersion = () => () => {};
export const imageUrl = (image) => image;
export const name = async () => { throw problem("names cannot be kept in a page without a server", 422); };
export const place = async () => { throw problem("points cannot be placed in a page without a server", 422); };

export async function view({ x0 = 0, x1 = n, width = 1200, rows: maxRows = 24, cut, color = "cluster", since = null }) {
  const header = { version: known.about.version, n, x0: 0, x1: 0, path: [], names: {}, rows: 0, since };
  if (!n) return { header, arrays: {} };
  const begin = Math.min(Math.max(Math.floor(x0), 0), n - 1), end = Math.min(Math.max(Math.ceil(x1 ?? n), begin + 1), n);
  const perPixel = ((x1 ?? n) - x0) / Math.min(Math.max(width, 1), 8_000), chosen = cutOf(cut);
  const isKept = new Set([...chosen.isTop, ...given.keys()]);
  const found = tree.blocks(begin, end, Math.ceil(LEAST_PIXELS * Math.max(perPixel, 0)), isKept, Math.min(Math.max(maxRows, 1), 64));
  const clusters = found.node.map((v) => cuts.over(chosen, v));
  const wide = found.node.filter((v) => tree.sizes[v] >= NAMED_PIXELS * perPixel);
  wide.sort((a, b) => tree.sizes[b] - tree.sizes[a]);
  return {
    header: {
      ...header, x0: begin, x1: end, path: tree.path(found.node[0]).map((v) => crumb(v, chosen)),
      names: Object.fromEntries(wide.slice(0, MOST_NAMES).map((v) => [v, title(v, chosen)])), rows: Math.max(...found.row) + 1,
    },
    arrays: {
      node: Int32Array.from(found.node), parent: Int32Array.from(found.parent), row: Uint16Array.from(found.row), split: Int32Array.from(found.end),
      start: Int32Array.from(found.node, (v) => tree.starts[v]), size: Int32Array.from(found.node, (v) => tree.sizes[v]),
      color: Int32Array.from(found.node, (v, i) => colorOf(v, clusters[i], chosen, color)), value: Float32Array.from(found.node, (v) => valueOf(v, color, since)),
      height: Float32Array.from(found.node, (v) => arrays.height[v]), fresh: Int32Array.from(found.node, (v) => fresh(v, since)),
      flags: Uint8Array.from(found.node, (v, i) => flagsOf(v, found.end[i], clusters[i], chosen)),
    },
  };
}

function colorOf(v, cluster, cut, color) {
  if (commonest && (color === "label" || color === "purity")) return commonest.best[v];
  return cluster < 0 ? -1 : cut.slots[cluster];
}

function valueOf(v, color, since) {
  const start = tree.starts[v], size = tree.sizes[v];
  if (commonest && (color === "label" || color === "purity")) return commonest.counts[v] / size;
  if (color === "time") return (arrival[start + size] - arrival[start]) / size;
  return color === "fresh" ? fresh(v, since ?? 0) / size : 1;
}

function flagsOf(v, end, cluster, cut) {
  const isPoint = tree.isLeaf(v);
  return (!isPoint && end < 0 ? MORE : 0) | (cut.isTop.has(v) ? TOP : 0) | (isPoint ? POINT : 0) | (given.has(v) ? NAMED : 0) | (cluster >= 0 ? WITHIN : 0);
}

export async function cut({ cut }) {
  const header = { version: known.about.version, cut, title: "", clusters: 0, list: [] };
  if (!n) return { header, arrays: {} };
  const found = cutOf(cut), { starts, sizes, nodes, clusters, slots } = found;
  const largest = Array.from(nodes.keys()).sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, LISTED_CLUSTERS);
  const list = largest.map((i) => ({
    cluster: clusters[i], ...spot(nodes[i]), slot: slots[i], name: title(nodes[i], found), keywords: keywords(nodes[i], 5),
  }));
  const ofCut = found.name.startsWith("k:") ? `${nodes.length.toLocaleString("en")} clusters` : found.name.slice(4);
  const called = found.name.startsWith("layer:") ? `layer ${Number(found.name.slice(6)) + 1}` : ofCut;
  return {
    header: { ...header, cut: found.name, title: called, clusters: nodes.length, list },
    arrays: { start: starts, size: sizes, node: nodes, cluster: clusters, slot: slots },
  };
}

// Nodes and points ------------------------------------------------------------------------------------------------------

function listed(leaves) {
  return leaves.map((leaf) => ({
    leaf, x: tree.place[leaf], id: known.ids[leaf], text: textOf(leaf), image: known.images[leaf] ?? null,
    payload: known.payloads[leaf], time: arrays.times ? real(arrays.times[leaf]) : null,
    label: codes && codes[leaf] >= 0 ? known.label_names[codes[leaf]] : null,
  }));
}

const central = (v) => (rows ? rows.central(v) : Array.from(tree.leaves(v)).slice(0, 200));

/** The two sides of the first split that leaves more than a few points on both, or of the node itself. */
function parts(v) {
  if (tree.isLeaf(v)) return [];
  for (let u = v; !tree.isLeaf(u);) {
    const [big, small] = tree.sides(u);
    if (tree.sizes[small] >= 0.05 * tree.sizes[v] || tree.sizes[u] < 0.8 * tree.sizes[v]) return [big, small];
    u = big;
  }
  return tree.sides(v);
}

function persistence(v) {
  const above = tree.parents[v];
  if (above < 0) return null;
  const from = arrays.height[v], to = arrays.height[above], top = arrays.height[known.about.root];
  return [from, to, top].every(Number.isFinite) ? { from, to, share: top > 0 ? (to - from) / top : 0 } : null;
}

function labelCounts(v) {
  if (!codes) return null;
  const counts = new Map();
  for (const leaf of tree.leaves(v)) if (codes[leaf] >= 0) counts.set(codes[leaf], (counts.get(codes[leaf]) ?? 0) + 1);
  const best = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, N_LABELS);
  return best.map(([code, count]) => ({ name: known.label_names[code], count }));
}

function timesOf(v) {
  const own = arrays.times ? Array.from(tree.leaves(v), (leaf) => arrays.times[leaf]).filter(Number.isFinite) : [];
  return own.length ? { first: own.reduce((a, b) => Math.min(a, b)), last: own.reduce((a, b) => Math.max(a, b)) } : null;
}

export async function node(v, { cut, since = null } = {}) {
  const chosen = cutOf(cut), i = cuts.over(chosen, checked(v)), ends = central(v);
  const short = (u) => ({ ...spot(u), title: title(u, chosen) });
  return {
    version: known.about.version, ...spot(v), height: real(arrays.height[v]), score: real(arrays.score[v]), persistence: persistence(v),
    name: given.get(v) ?? null, title: title(v, chosen), keywords: keywords(v, 8), columns: rows ? rows.standOut(v, 6) : [],
    labels: labelCounts(v), exemplars: listed(ends.slice(0, N_EXEMPLARS)), path: tree.path(v).map((u) => crumb(u, chosen)),
    children: parts(v).map(short), nearest: rows ? rows.nearest(v, N_NEAREST).map((found) => ({ ...short(found.node), similarity: found.similarity })) : [],
    cluster: i < 0 ? null : { cluster: chosen.clusters[i], name: title(chosen.nodes[i], chosen), node: chosen.nodes[i], size: chosen.sizes[i] },
    fresh: fresh(v, since), times: timesOf(v),
  };
}

export async function members(v, { offset = 0, limit = 50, order = "central" } = {}) {
  let leaves = Array.from(tree.leaves(checked(v)));
  if (order === "central") {
    const first = central(v), isFirst = new Set(first);
    leaves = [...first, ...leaves.filter((leaf) => !isFirst.has(leaf))];
  } else {
    leaves.sort((a, b) => (order === "newest" ? b - a : a - b));
  }
  return { version: known.about.version, total: tree.sizes[v], members: listed(leaves.slice(offset, offset + limit)) };
}

export async function locate(id, size = 1) {
  const leaf = known.ids.findIndex((own) => String(own) === String(id));
  if (leaf < 0) throw problem(`id ${id} is not there`, 404);
  return { version: known.about.version, ...spot(tree.ancestorOfSize(leaf, size)) };
}

export async function search(q, { limit = 20 } = {}) {
  const wanted = q.trim().toLowerCase(), hits = [];
  if (!wanted || !n) return { version: known.about.version, hits, complete: true };
  const chosen = cutOf(null), hit = (kind, title, snippet, v, leaf = null) => hits.push({ kind, title, snippet, ...spot(v), leaf });
  for (const [v, own] of given) if (own.toLowerCase().includes(wanted)) hit("name", own, "", v);
  const number = /^(?:cluster\s*|#)(\d+)$/.exec(wanted)?.[1], names = known.cluster_names[chosen.name] ?? {};
  chosen.nodes.forEach((v, i) => {
    const own = names[chosen.clusters[i]] ?? "";
    if (String(chosen.clusters[i]) === number || (own && own.toLowerCase().includes(wanted))) hit("cluster", own || `cluster ${number}`, title(v, chosen), v);
  });
  const tops = Array.from(chosen.nodes).sort((a, b) => tree.sizes[b] - tree.sizes[a]).slice(0, 500);
  if (words?.words.includes(wanted)) for (const v of tops.filter((v) => keywords(v, 5).includes(wanted)).slice(0, 5)) hit("keyword", title(v, chosen), keywords(v, 5).join(", "), v);
  for (let leaf = 0; leaf < n && hits.length < limit; leaf++) {
    const payload = known.payloads[leaf], values = payload !== null && typeof payload === "object" ? Object.values(payload) : [payload ?? ""];
    const where = values.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value))).find((value) => value.toLowerCase().includes(wanted));
    const isId = String(known.ids[leaf]).toLowerCase() === wanted;
    if (where === undefined && !String(known.ids[leaf]).toLowerCase().includes(wanted)) continue;
    hit(isId ? "id" : "text", (textOf(leaf) || String(known.ids[leaf])).slice(0, SNIPPET), around(where ?? "", wanted), leaf, leaf);
  }
  return { version: known.about.version, hits: hits.slice(0, limit), complete: hits.length < limit };
}

/** The part of a text where a word is. */
function around(text, wanted) {
  const begin = Math.max(text.toLowerCase().indexOf(wanted) - Math.floor(SNIPPET / 3), 0);
  return `${begin ? "…" : ""}${text.slice(begin, begin + SNIPPET)}${text.length > begin + SNIPPET ? "…" : ""}`;
}

// Time and place --------------------------------------------------------------------------------------------------------

export async function changes({ since = 0, day = null } = {}) {
  const begin = day ? new Date(`${day.slice(0, 10)}T00:00:00`).getTime() / 1000 : null;
  const last = begin === null ? since ?? 0 : Math.max(0, ...known.versions.filter(({ time }) => time < begin).map(({ version }) => version));
  // What became of clusters since is known for some versions: the last of them that is not later.
  return known.changes.findLast((found) => found.since <= last) ?? known.changes[0];
}

export async function map() {
  const header = { version: known.about.version, method: known.about.map.method, n, aspect: known.aspect };
  return { header, arrays: { x: arrays.map_x, y: arrays.map_y } };
}

export async function points({ what, since = null }) {
  const value = new Uint16Array(n), of = {
    label: (leaf) => (codes && codes[leaf] >= 0 && codes[leaf] < NO_LABEL ? codes[leaf] : NO_LABEL),
    time: (leaf) => Math.round(arrays.arrival[leaf] * 65_534), fresh: (leaf) => Number(arrays.arrived[leaf] > (since ?? 0)),
  }[what];
  for (let place = 0; place < n; place++) value[place] = of(tree.order[place]);
  return { header: { version: known.about.version, what, n }, arrays: { value } };
}
