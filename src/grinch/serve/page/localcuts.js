// The cuts of a tree inside the page: what grinch.serve.views.scene does on a server.

const SLOTS = 10;

export class LocalCuts {
  /**
   * @param {import("grinch/localtree").LocalTree} tree
   * @param {Record<string, Int32Array>} labels by name of the cut, the cluster of each leaf, -1 for none
   * @param {Int32Array} splits of cuts into k clusters, in their order
   */
  constructor(tree, labels, splits) {
    Object.assign(this, { tree, labels, splits, known: new Map() });
  }

  get(name) {
    if (!this.known.has(name)) this.known.set(name, name.startsWith("k:") ? this.#into(name) : this.#of(name));
    return this.known.get(name);
  }

  #into(name) {
    const { tree, splits } = this, count = Math.max(Number(name.slice(2)) - 1, 0);
    const taken = splits.subarray(0, count), sides = new Set([tree.root]);
    for (const v of taken) sides.add(tree.left[v]).add(tree.right[v]);
    const tops = new Set(sides);
    // A side that is split further down is no cluster.
    for (let v of taken) {
      while (!sides.has(v)) v = tree.parents[v];
      tops.delete(v);
    }
    const sorted = [...tops].sort((a, b) => tree.starts[a] - tree.starts[b]);
    const oldest = sorted.map((v) => tree.leaves(v).reduce((a, b) => Math.min(a, b)));
    return this.#made(name, sorted, sorted.map((_, i) => i), oldest);
  }

  /** The clusters of labels are ranges of places: each is a node, the lowest over its points. */
  #of(name) {
    const { tree } = this, labels = this.labels[name], ends = new Map();
    if (!labels) throw Object.assign(new Error(`There is no cut called ${name}`), { status: 422 });
    tree.order.forEach((leaf, place) => {
      if (labels[leaf] < 0) return;
      const range = ends.get(labels[leaf]);
      if (range) range[1] = place + 1;
      else ends.set(labels[leaf], [place, place + 1]);
    });
    const found = [...ends].map(([cluster, [x0, x1]]) => [tree.covering(x0, x1), cluster]);
    found.sort((a, b) => tree.starts[a[0]] - tree.starts[b[0]]);
    return this.#made(name, found.map(([v]) => v), found.map(([, cluster]) => cluster), null);
  }

  #made(name, nodes, clusters, oldest) {
    const { starts, sizes } = this.tree;
    return {
      name, nodes: Int32Array.from(nodes), clusters: Int32Array.from(clusters),
      starts: Int32Array.from(nodes, (v) => starts[v]), sizes: Int32Array.from(nodes, (v) => sizes[v]),
      slots: toldApart(oldest ?? clusters), isTop: new Set(nodes),
    };
  }

  /** Which cluster a place is in, -1 for none. */
  at(cut, place) {
    let low = 0, high = cut.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (cut.starts[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return low && place < cut.starts[low - 1] + cut.sizes[low - 1] ? low - 1 : -1;
  }

  /** Which cluster a node is wholly inside, -1 for none. */
  over(cut, v) {
    const { starts, sizes } = this.tree, i = this.at(cut, starts[v]);
    return i >= 0 && starts[v] + sizes[v] <= cut.starts[i] + cut.sizes[i] ? i : -1;
  }
}

/** A color for each id that stays with it, where two neighbours would not have the same. */
function toldApart(ids) {
  const slots = Uint8Array.from(ids, (id) => (id * 7 + Math.floor(id / SLOTS)) % SLOTS);
  const same = [];
  for (let i = 1; i < slots.length; i++) if (slots[i] === slots[i - 1]) same.push(i);
  for (const i of same) {
    const beside = [slots[i - 1], i + 1 < slots.length ? slots[i + 1] : -1];
    if (beside.includes(slots[i])) slots[i] = [3, 6, 9].map((step) => (slots[i] + step) % SLOTS).find((other) => !beside.includes(other));
  }
  return slots;
}
