// The points inside the page: their words, and numbers by which they are compared (grinch.serve.views.sample on a server).

const FEWEST_FOR_REPEATS = 8;
// Of larger nodes, an even sample is compared.
const MOST_COMPARED = 5_000, MOST_CANDIDATES = 4_000;

/** Up to `most` numbers below n, evenly spread. */
function sampled(n, most) {
  return n <= most ? Array.from({ length: n }, (_, i) => i) : Array.from({ length: most }, (_, i) => Math.floor(((i + 0.5) * n) / most));
}

export class LocalWords {
  /** @param {string[]} words @param {Int32Array} numbers of the words of all texts, from left to right @param {Int32Array} ends by place, where its text begins */
  constructor(words, numbers, ends) {
    Object.assign(this, { words, numbers, ends, everywhere: new Float64Array(words.length) });
    for (const number of numbers) this.everywhere[number]++;
  }

  /** The words that are frequent in the texts from a place to another and rare elsewhere. */
  keywords(start, stop, most) {
    const counts = new Map(), total = Math.max(this.ends.length - 1, 1), own = Math.max(stop - start, 1);
    for (let i = this.ends[start]; i < this.ends[stop]; i++) counts.set(this.numbers[i], (counts.get(this.numbers[i]) ?? 0) + 1);
    const least = stop - start >= FEWEST_FOR_REPEATS ? 2 : 1, found = [];
    for (const [number, count] of counts) {
      const share = count / own, weight = share * Math.log((share + 1e-9) / (this.everywhere[number] / total + 1e-9) + 1);
      if (count >= least && weight > 0) found.push([weight, number]);
    }
    found.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    return found.slice(0, most).map(([, number]) => this.words[number]);
  }
}

export class LocalRows {
  /**
   * @param {import("grinch/localtree").LocalTree} tree
   * @param {{width: number, metric: string, low: number[], step: number[], columns: string[] | null}} about
   * @param {Uint8Array} bytes by leaf, `width` numbers each in 8 bits
   */
  constructor(tree, about, bytes) {
    Object.assign(this, { tree, ...about });
    const { width, low, step } = about, n = tree.n;
    this.rows = new Float32Array(n * width);
    for (let place = 0; place < n; place++) {
      const from = tree.order[place] * width;
      for (let j = 0; j < width; j++) this.rows[place * width + j] = low[j] + step[j] * bytes[from + j];
    }
    // Of the rows to the left of a place: the mean of a node is the difference of two.
    this.sums = new Float64Array((n + 1) * width);
    for (let i = 0; i < n * width; i++) this.sums[i + width] = this.sums[i] + this.rows[i];
  }

  mean(v) {
    const { width, sums } = this, { starts, sizes } = this.tree, from = starts[v] * width, to = (starts[v] + sizes[v]) * width;
    return Float64Array.from({ length: width }, (_, j) => (sums[to + j] - sums[from + j]) / sizes[v]);
  }

  /** How much a row or a mean is like another: a cosine, or minus a distance. */
  #likeness(rows, at, other, isNormed) {
    let dot = 0, own = 0, norm = 0, apart = 0;
    for (let j = 0; j < this.width; j++) {
      const a = rows[at + j], b = other[j];
      dot += a * b;
      own += a * a;
      norm += b * b;
      apart += (a - b) ** 2;
    }
    if (this.metric !== "cosine") return -Math.sqrt(apart);
    return isNormed ? dot / (Math.sqrt(own * norm) || 1) : dot;
  }

  /** Leaves under a node, the most central first; of many, of some. */
  central(v) {
    const { starts, sizes, order } = this.tree, mean = this.mean(v);
    const places = sampled(sizes[v], MOST_COMPARED).map((i) => starts[v] + i);
    if (places.length < 3) return places.map((place) => order[place]);
    const likeness = new Map(places.map((place) => [place, this.#likeness(this.rows, place * this.width, mean, false)]));
    return places.sort((a, b) => likeness.get(b) - likeness.get(a) || a - b).map((place) => order[place]);
  }

  /** The nodes of about the same size that are most like one: see NodePages._nearest. */
  nearest(v, most) {
    const { starts, sizes, parents, preorder, root } = this.tree, size = sizes[v], own = this.mean(v);
    if (v === root) return [];
    let nodes = [];
    for (const u of preorder) {
      if (u === root || sizes[u] > 2 * size || sizes[parents[u]] <= 2 * size) continue;
      const isInside = starts[u] < starts[v] + size && starts[u] + sizes[u] > starts[v];
      if (!isInside && sizes[u] >= size / 8) nodes.push(u);
    }
    nodes = nodes.map((u, i) => [u, i]).sort((a, b) => sizes[b[0]] - sizes[a[0]] || a[1] - b[1]).slice(0, MOST_CANDIDATES);
    const found = nodes.map(([node]) => ({ node, similarity: this.#likeness(this.mean(node), 0, own, true) }));
    return found.sort((a, b) => b.similarity - a.similarity).slice(0, most);
  }

  /** The columns in which a node is furthest from all, in standard deviations. */
  standOut(v, most) {
    const { columns, width, rows } = this, { n, root } = this.tree;
    if (!columns || v === root) return [];
    const own = this.mean(v), all = this.mean(root), spread = new Float64Array(width);
    for (let i = 0; i < n * width; i++) spread[i % width] += (rows[i] - all[i % width]) ** 2 / n;
    const found = columns.map((name, j) => ({ name, mean: own[j], all: all[j], z: spread[j] > 0 ? (own[j] - all[j]) / Math.sqrt(spread[j]) : 0 }));
    return found.filter(({ z }) => Math.abs(z) > 0.1).sort((a, b) => Math.abs(b.z) - Math.abs(a.z)).slice(0, most);
  }
}
