// Where answers come from when there is no server: from what the static export put into the page (grinch.serve.export),
// computed there by the code of the server. The face is that of grinch/remote; a test compares the two.
// Nodes are numbered in the order of the display: the larger child of v is v + 1, and the sizes alone are the tree.

import { unpack } from "grinch/unpack";

const MIN_PIXELS = 3, MIN_PIXELS_FOR_TITLE = 36, MIN_PIXELS_FOR_CLUSTER = 12, MAX_TITLES = 150, MAX_LISTED_CLUSTERS = 200, MAX_BLOCKS = 20_000, SHARE = 1 / 8;
const MORE = 1, TOP = 2, POINT = 4, NAMED = 8, WITHIN = 16;
const N_LABELS = 8, SNIPPET = 160, MAX_TEXT = 2_000, MAX_TITLE = 120, MAX_PATH = 12, MAX_BY_KEYWORD = 5, MAX_COMPARED = 500, MAX_LABELS_IN_TITLE = 3, LABELLED_SHARE = 2 / 3;

export const isStatic = true;

/** What the export put in, gzipped and in base64. */
async function embedded() {
  const text = document.getElementById("grinch-data").textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(await new Response(stream).arrayBuffer());
}

const { header: known, arrays } = await embedded();
const { n, version } = known.about, { size } = arrays, count = size.length;
const given = new Map(known.names), cutsByName = new Map();
if (known.about.map) known.about.map = { methods: known.map.methods, method: known.map.method };

// The tree: by node its first place, its parent, and its number among those that are not single points.
const start = new Int32Array(count), parent = new Int32Array(count).fill(-1), inner = new Int32Array(count), leafAt = new Int32Array(n);
for (let v = 0, place = 0, inside = 0; v < count; v++) {
  start[v] = place;
  if (size[v] === 1) leafAt[place++] = v;
  else [inner[v], parent[v + 1], parent[v + 2 * size[v + 1]]] = [inside++, v, v];
}

/** The larger child and the smaller one. */
const sides = (v) => (size[v] > 1 ? [v + 1, v + 2 * size[v + 1]] : []);
const arrival = sums((place) => arrays["points time"][place] / 65_534), freshBefore = new Map();
const exemplars = ragged("exemplar"), keywordNumbers = ragged("keyword");
const planes = arrays.nearest ?? [], steps = Int32Array.from({ length: planes.length / 4 }, (_, i) => planes[i] | (planes[i + planes.length / 4] << 8) | (planes[i + planes.length / 2] << 16) | (planes[i + 3 * planes.length / 4] << 24));

function sums(value) {
  const found = new Float64Array(n + 1);
  for (let place = 0; place < n; place++) found[place + 1] = found[place] + value(place);
  return found;
}

/** Lists of different lengths, one for each node of more than one point. */
function ragged(name) {
  const counts = arrays[`${name}_count`] ?? [], ends = new Uint32Array(counts.length + 1);
  counts.forEach((length, i) => (ends[i + 1] = ends[i] + length));
  return (v) => (size[v] > 1 && counts.length ? Array.from(arrays[name].subarray(ends[inner[v]], ends[inner[v] + 1])) : []);
}

/** How many points under a node came after a version. */
function fresh(v, since) {
  if (since === null || since === undefined) return 0;
  if (!freshBefore.has(since)) freshBefore.set(since, sums((place) => Number(arrays.arrived?.[place] > since)));
  return freshBefore.get(since)[start[v] + size[v]] - freshBefore.get(since)[start[v]];
}

const real = (value) => (Number.isFinite(value) ? value : null);
const places = (v) => Array.from({ length: size[v] }, (_, i) => start[v] + i);
const keywords = (v, most) => keywordNumbers(v).slice(0, most).map((number) => known.words[number]);
const problem = (message, status) => Object.assign(new Error(message), { status });

function checked(v) {
  if (!(v >= 0 && v < count)) throw problem(`node ${v} is not in the tree`, 404);
  return v;
}

// Cuts ------------------------------------------------------------------------------------------------------------------

function cutOf(asked) {
  const name = !asked || asked === "auto" ? known.about.cut : asked;
  if (!cutsByName.has(name)) cutsByName.set(name, madeCut(name));
  return cutsByName.get(name);
}

function madeCut(name) {
  let node = arrays[`node ${name}`], cluster = arrays[`cluster ${name}`], title = known.cut_titles[name];
  if (name.startsWith("k:")) {
    const k = Number(name.slice(2)), { k_node, k_first, k_last } = arrays;
    const rows = Array.from(k_node.keys()).filter((i) => k_first[i] <= k && k <= k_last[i]).sort((a, b) => k_node[a] - k_node[b]);
    [node, cluster] = [Int32Array.from(rows, (i) => k_node[i]), Int32Array.from(rows.keys())];
    title = `${rows.length.toLocaleString("en")} clusters`;
  }
  if (!node) throw problem(`There is no cut called ${name}`, 422);
  const color = Uint8Array.from(node, (v, i) => known.tones * arrays.hue[v] + (i % known.tones));
  const found = { name, title, node, cluster, color, start: Int32Array.from(node, (v) => start[v]), size: Int32Array.from(node, (v) => size[v]) };
  // By place, which cluster it is in.
  found.at = new Int32Array(n).fill(-1);
  node.forEach((v, i) => found.at.fill(i, start[v], start[v] + size[v]));
  found.indexOf = new Map(Array.from(node, (v, i) => [v, i]));
  return found;
}

/** Which cluster a node is wholly inside, -1 for none. */
function over(cut, v) {
  const i = cut.at[start[v]];
  return i >= 0 && size[v] <= cut.size[i] - (start[v] - cut.start[i]) ? i : -1;
}

// Texts -----------------------------------------------------------------------------------------------------------------

function textOf(place) {
  const payload = known.payloads[place], isObject = payload !== null && typeof payload === "object";
  const found = isObject ? payload[known.text] : typeof payload === "string" ? payload : null;
  return found === null || found === undefined ? null : String(found).slice(0, MAX_TEXT);
}

function title(v, cut) {
  const own = givenName(v, cut);
  if (own !== null) return own;
  if (size[v] === 1) return (textOf(start[v]) || String(known.ids[start[v]])).slice(0, MAX_TITLE);
  const words = v ? keywords(v, 5) : [];
  return words.join(", ") || (v ? labelsOf(v).join(" + ") : "") || `${size[v].toLocaleString("en")} points`;
}

/** The fewest labels that most points of a node have, the commonest first; none if they are many. */
function labelsOf(v) {
  const most = (labelCounts(v).labels ?? []).slice(0, MAX_LABELS_IN_TITLE);
  let labelled = 0;
  const enough = most.findIndex(({ count }) => (labelled += count) >= LABELLED_SHARE * size[v]);
  return most.slice(0, enough + 1).map(({ name }) => name);
}

const spot = (v) => ({ node: v, start: start[v], size: size[v] });
const short = (v, cut) => ({ ...spot(v), title: title(v, cut) });
const crumb = (v, cut) => ({ ...spot(v), name: v || given.has(v) ? title(v, cut) : "all points", height: real(arrays.height[v]) });

function path(v, cut) {
  let found = [v];
  while (found[0] > 0) found.unshift(found[0] - arrays.up[found[0]]);
  if (found.length > MAX_PATH) {
    const all = found.reverse(), step = (all.length - 1) / (MAX_PATH - 1);
    found = Array.from({ length: MAX_PATH }, (_, i) => all[Math.round(i * step)]).reverse();
  }
  return found.map((u) => crumb(u, cut));
}

// The whole -------------------------------------------------------------------------------------------------------------

export const about = async () => known.about;
export const layers = async () => ({ version, layers: known.layers });
export const versions = async () => ({ versions: known.versions });
export const onVersion = () => () => {};
export const imageUrl = (image) => image;
export const name = async () => { throw problem("names cannot be kept in a page without a server", 422); };
export const place = async () => { throw problem("points cannot be placed in a page without a server", 422); };

/** The blocks of an icicle, parents first: the walk of grinch.tree.blocks, since any part can be asked for at any width. */
function blocks(x0, x1, minSize, isTop, maxRows) {
  const isSeen = (v) => start[v] < x1 && start[v] + size[v] > x0, found = { node: [], parent: [], row: [], split: [] };
  let top = leafAt[x0];
  while (start[top] > x0 || start[top] + size[top] < x1) top = parent[top];
  let waiting = [[top, 0, -1]];
  while (waiting.length && found.node.length < MAX_BLOCKS) {
    const [node, row, above] = waiting.pop(), index = found.node.length, begin = waiting.length;
    let v = node, rest = -1, split = -1;
    while (size[v] > 1 && size[v] >= 2 * minSize) {
      const [large, small] = sides(v);
      if (size[small] >= minSize) {
        if (isSeen(small) && waiting.length < MAX_BLOCKS) waiting.push([small, row + 1, index]);
        [rest, split] = [large, v];
        if (size[small] >= SHARE * size[v]) break;
      }
      if (isTop(large)) {
        [rest, split] = [large, v];
        break;
      }
      v = large;
    }
    if (rest >= 0 && isSeen(rest) && waiting.length < MAX_BLOCKS) waiting.push([rest, row + 1, index]);
    if (row + 1 >= maxRows) [waiting, split] = [waiting.slice(0, begin), -1];
    for (const [name, value] of Object.entries({ node, parent: above, row, split })) found[name].push(value);
  }
  return found;
}

export async function view({ x0 = 0, x1 = n, width = 1200, rows = 24, cut, color = "cluster", since = null }) {
  const header = { version, n, x0: 0, x1: 0, path: [], names: {}, has_words: true, rows: 0, since };
  if (!n) return { header, arrays: {} };
  const begin = Math.min(Math.max(Math.floor(x0), 0), n - 1), end = Math.min(Math.max(Math.ceil(x1 ?? n), begin + 1), n);
  const perPixel = Math.max((x1 ?? n) - x0, 0) / Math.min(Math.max(width, 1), 8_000), chosen = cutOf(cut);
  const isTop = (v) => chosen.indexOf.has(v) || given.has(v), minSize = Math.max(Math.ceil(MIN_PIXELS * perPixel), 1);
  const { node, parent, row, split } = blocks(begin, end, minSize, isTop, Math.min(Math.max(rows, 1), 64));
  const least = (v) => (chosen.indexOf.has(v) ? MIN_PIXELS_FOR_CLUSTER : MIN_PIXELS_FOR_TITLE);
  const wide = node.filter((v) => size[v] >= least(v) * perPixel).sort((a, b) => size[b] - size[a]).slice(0, MAX_TITLES);
  const isOfLabels = arrays.label && (color === "label" || color === "purity");
  const colorOf = (v) => (isOfLabels ? arrays.label[v] : over(chosen, v) < 0 ? -1 : chosen.color[over(chosen, v)]);
  const valueOf = (v) => {
    if (isOfLabels) return arrays.label_count[v] / size[v];
    if (color === "time") return (arrival[start[v] + size[v]] - arrival[start[v]]) / size[v];
    return color === "fresh" ? fresh(v, since ?? 0) / size[v] : 1;
  };
  const flagsOf = (v, i) => (size[v] > 1 && split[i] < 0 ? MORE : 0) | (chosen.indexOf.has(v) ? TOP : 0) | (size[v] === 1 ? POINT : 0)
    | (given.has(v) ? NAMED : 0) | (over(chosen, v) >= 0 ? WITHIN : 0);
  return {
    header: { ...header, x0: begin, x1: end, path: path(node[0], chosen), names: Object.fromEntries(wide.map((v) => [v, title(v, chosen)])), rows: Math.max(...row) + 1 },
    arrays: {
      node: Int32Array.from(node), parent: Int32Array.from(parent), row: Uint16Array.from(row), split: Int32Array.from(split),
      start: Int32Array.from(node, (v) => start[v]), size: Int32Array.from(node, (v) => size[v]), color: Int32Array.from(node, colorOf), value: Float32Array.from(node, valueOf),
      height: Float32Array.from(node, (v) => arrays.height[v]), fresh: Int32Array.from(node, (v) => fresh(v, since)), flags: Uint8Array.from(node, flagsOf),
    },
  };
}

/** The name that somebody gave to a node, or to the cluster that it is. */
function givenName(v, cut) {
  return given.get(v) ?? (cut?.indexOf.has(v) ? known.cluster_names[cut.name]?.[cut.cluster[cut.indexOf.get(v)]] : undefined) ?? null;
}

export async function cut({ cut }) {
  if (!n) return { header: { version, cut, title: "", clusters: 0, list: [], named: [], has_words: true }, arrays: {} };
  const chosen = cutOf(cut), { name, title: called, node } = chosen;
  const columns = Object.fromEntries(["start", "size", "node", "cluster", "color"].map((column) => [column, chosen[column]]));
  const largest = Array.from(node.keys()).sort((a, b) => chosen.size[b] - chosen.size[a] || a - b).slice(0, MAX_LISTED_CLUSTERS);
  const list = largest.map((i) => ({ cluster: chosen.cluster[i], ...spot(node[i]), name: title(node[i], chosen) }));
  const named = [...new Set([...Array.from(node).filter((v) => givenName(v, chosen)), ...given.keys()])].map((v) => ({ ...spot(v), name: givenName(v, chosen) }));
  return { header: { version, cut: name, title: called, clusters: node.length, list, named, has_words: true }, arrays: columns };
}

export async function clusters({ cut, q = "", order = "size", offset = 0, limit = 100, since = null }) {
  if (!n) return { version, total: 0, largest: 0, clusters: [] };
  const chosen = cutOf(cut), { node } = chosen, titles = Array.from(node, (v) => title(v, chosen).toLowerCase());
  const arrived = (i) => (arrival[chosen.start[i] + chosen.size[i]] - arrival[chosen.start[i]]) / chosen.size[i];
  const by = { size: (a, b) => chosen.size[b] - chosen.size[a], new: (a, b) => arrived(b) - arrived(a), name: (a, b) => (titles[a] < titles[b] ? -1 : Number(titles[a] > titles[b])) }[order];
  const isNamed = (i) => givenName(node[i], chosen) !== null;
  const shown = Array.from(node.keys()).filter((i) => titles[i].includes(q.toLowerCase())).sort((a, b) => Number(isNamed(b)) - Number(isNamed(a)) || by(a, b) || a - b);
  const listed = shown.slice(offset, offset + limit).map((i) => ({
    cluster: chosen.cluster[i], ...spot(node[i]), color: chosen.color[i], name: title(node[i], chosen), is_named: isNamed(i), fresh: fresh(node[i], since),
  }));
  return { version, total: shown.length, largest: Math.max(...chosen.size), clusters: listed };
}

// Nodes and points ------------------------------------------------------------------------------------------------------

/** A point is known by its node; `leaf` is that of the page, whatever it is on a server. */
const listed = (found) => found.map((place) => ({
  leaf: leafAt[place], x: place, id: known.ids[place], text: textOf(place), image: known.images[place] ?? null, payload: known.payloads[place],
  time: arrays.times ? real(arrays.times[place]) : null, label: known.label_names[arrays["points label"]?.[place]] ?? null,
}));

function central(v) {
  return size[v] > 1 && arrays.exemplar ? exemplars(v).map((offset) => start[v] + offset) : places(v).slice(0, 6);
}

function persistence(v) {
  const [from, to, top] = [v, parent[v], 0].map((u) => arrays.height[u]);
  return v && [from, to, top].every(Number.isFinite) ? { from, to, share: top > 0 ? (to - from) / top : 0 } : null;
}

function labelCounts(v) {
  const counts = new Map(), codes = arrays["points label"];
  if (!codes) return { labels: null, n_labels: 0, n_labelled: 0 };
  for (const place of places(v)) if (codes[place] in known.label_names) counts.set(codes[place], (counts.get(codes[place]) ?? 0) + 1);
  const best = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, N_LABELS);
  const labels = best.map(([code, count]) => ({ name: known.label_names[code], count }));
  return { labels, n_labels: counts.size, n_labelled: [...counts.values()].reduce((sum, count) => sum + count, 0) };
}

function columns(v) {
  if (!known.columns || v === 0) return [];
  const { names, mean, deviation, count: most } = known.columns, found = Array.from({ length: most }, (_, i) => most * v + i);
  const named = found.map((i) => [arrays.column[i], (arrays.column_z[i] - 128) / 10]).filter(([, z]) => Math.abs(z) > 0.05);
  return named.map(([j, z]) => ({ name: names[j], mean: mean[j] + z * deviation[j], all: mean[j], z }));
}

function nearest(v, cut) {
  if (!known.nearest || v === 0) return [];
  const { low, step, count: most } = known.nearest, found = Array.from({ length: most }, (_, i) => most * v + i);
  return found.filter((i) => steps[i]).map((i) => ({ ...short(v + steps[i], cut), similarity: low + step * arrays.likeness[i] }));
}

function timesOf(v) {
  const own = arrays.times ? Array.from(arrays.times.subarray(start[v], start[v] + size[v])).filter(Number.isFinite) : [];
  return own.length ? { first: own.reduce((a, b) => Math.min(a, b)), last: own.reduce((a, b) => Math.max(a, b)) } : null;
}

export async function node(v, { cut, since = null } = {}) {
  const chosen = cutOf(cut), i = over(chosen, checked(v));
  return {
    version, ...spot(v), height: real(arrays.height[v]), score: real(arrays.score_and_height[v] - arrays.height[v]), persistence: persistence(v), name: given.get(v) ?? null,
    title: title(v, chosen), keywords: keywords(v, 8), columns: columns(v), ...labelCounts(v), exemplars: listed(central(v)), path: path(v, chosen),
    children: sides(v + arrays.split[v]).map((u) => short(u, chosen)), nearest: nearest(v, chosen), fresh: fresh(v, since), times: timesOf(v),
    cluster: i < 0 ? null : { cluster: chosen.cluster[i], name: title(chosen.node[i], chosen), node: chosen.node[i], size: chosen.size[i] },
  };
}

export async function members(v, { offset = 0, limit = 50, order = "central" } = {}) {
  let found = places(checked(v));
  const sign = order === "newest" ? -1 : 1, first = central(v);
  if (order === "central") found = [...first, ...found.filter((place) => !first.includes(place))];
  else found.sort((a, b) => sign * (arrays.leaf[a] - arrays.leaf[b]));
  return { version, total: size[v], members: listed(found.slice(offset, offset + limit)) };
}

export async function locate(id, wanted = 1) {
  const at = known.ids.findIndex((own) => String(own) === String(id));
  if (at < 0) throw problem(`id ${id} is not there`, 404);
  let v = leafAt[at];
  while (parent[v] >= 0 && Math.abs(size[parent[v]] - wanted) <= Math.abs(size[v] - wanted)) v = parent[v];
  return { version, ...spot(v) };
}

export async function search(q, { limit = 20 } = {}) {
  const wanted = q.trim().toLowerCase(), hits = [], isIn = (text) => String(text).toLowerCase().includes(wanted);
  if (!wanted || !n) return { version, hits, complete: true };
  const chosen = cutOf(null), hit = (kind, title, snippet, v, leaf = null) => hits.push({ kind, title, snippet, ...spot(v), leaf });
  for (const [v, own] of given) if (isIn(own)) hit("name", own, "", v);
  const number = /^(?:cluster\s*|#)(\d+)$/.exec(wanted)?.[1], names = known.cluster_names[chosen.name] ?? {};
  chosen.node.forEach((v, i) => {
    const own = names[chosen.cluster[i]] ?? "";
    if (String(chosen.cluster[i]) === number || (own && isIn(own))) hit("cluster", own || `cluster ${number}`, title(v, chosen), v);
  });
  const largest = Array.from(chosen.node).sort((a, b) => size[b] - size[a]).slice(0, MAX_COMPARED).filter((v) => keywords(v, 5).includes(wanted));
  for (const v of largest.slice(0, MAX_BY_KEYWORD)) hit("keyword", title(v, chosen), keywords(v, 5).join(", "), v);
  // As they came, so that the first ones are those of a server.
  const byArrival = Array.from(arrays.leaf.keys()).sort((a, b) => arrays.leaf[a] - arrays.leaf[b]);
  for (const place of byArrival) {
    if (hits.length >= limit) break;
    const payload = known.payloads[place], id = String(known.ids[place]);
    const values = payload !== null && typeof payload === "object" ? Object.values(payload) : [payload ?? ""];
    const where = values.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value))).find(isIn);
    if (where === undefined && !isIn(id)) continue;
    hit(id.toLowerCase() === wanted ? "id" : "text", (textOf(place) || id).slice(0, SNIPPET), around(where ?? "", wanted), leafAt[place], leafAt[place]);
  }
  return { version, hits: hits.slice(0, limit), complete: hits.length < limit };
}

/** The part of a text where a word is. */
function around(text, wanted) {
  const begin = Math.max(text.toLowerCase().indexOf(wanted) - Math.floor(SNIPPET / 3), 0);
  return `${begin ? "…" : ""}${text.slice(begin, begin + SNIPPET)}${text.length > begin + SNIPPET ? "…" : ""}`;
}

// Time and place --------------------------------------------------------------------------------------------------------

export async function changes({ since = 0, day = null } = {}) {
  const begin = day ? new Date(`${day.slice(0, 10)}T00:00:00`).getTime() / 1000 : null;
  const last = begin === null ? since ?? 0 : Math.max(0, ...known.versions.filter(({ time }) => time < begin).map(({ version: at }) => at));
  // Changes are known since some versions: the last of them that is not later.
  return known.changes.findLast((found) => found.since <= last) ?? known.changes[0];
}

export async function map() {
  const { method, aspect } = known.map;
  return { header: { version, method, n, aspect }, arrays: { x: arrays.map_x, y: arrays.map_y } };
}

export async function points({ what, since = null }) {
  const isFresh = () => Uint16Array.from({ length: n }, (_, place) => Number(arrays.arrived?.[place] > (since ?? 0)));
  return { header: { version, what, n }, arrays: { value: what === "fresh" ? isFresh() : arrays[`points ${what}`] } };
}
