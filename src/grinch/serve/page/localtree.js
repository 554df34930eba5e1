// A tree inside the page, for the static export: what grinch.tree.blocks and grinch.serve.views.scene do on a server.

const SHARE = 1 / 8, MOST_BLOCKS = 20_000;
const STEP = 1.25, LONGEST_PATH = 12;

export class LocalTree {
  /** @param {number} n @param {number} root @param {Int32Array} left @param {Int32Array} right children by node, -1 for leaves */
  constructor(n, root, left, right) {
    const count = left.length;
    Object.assign(this, { n, root, left, right, parents: new Int32Array(count).fill(-1), preorder: new Int32Array(Math.max(2 * n - 1, 0)) });
    this.sizes = new Int32Array(count);
    this.starts = new Int32Array(count);
    this.order = new Int32Array(n);
    this.place = new Int32Array(n);
    if (n) this.#arrange();
  }

  #arrange() {
    const { n, root, left, right, parents, preorder, sizes, starts, order, place } = this;
    const waiting = [root];
    for (let i = 0; waiting.length; i++) {
      const v = preorder[i] = waiting.pop();
      if (left[v] < 0) continue;
      parents[left[v]] = parents[right[v]] = v;
      waiting.push(right[v], left[v]);
    }
    for (let i = 2 * n - 2; i >= 0; i--) {
      const v = preorder[i];
      sizes[v] = left[v] < 0 ? 1 : sizes[left[v]] + sizes[right[v]];
    }
    for (const v of preorder) {
      if (left[v] < 0) {
        order[starts[v]] = v;
        place[v] = starts[v];
        continue;
      }
      const [big, small] = this.sides(v);
      starts[big] = starts[v];
      starts[small] = starts[v] + sizes[big];
    }
  }

  isLeaf(v) { return this.left[v] < 0; }

  has(v) { return v === this.root || (v >= 0 && v < this.parents.length && this.parents[v] >= 0); }

  /** The larger child and the smaller one. */
  sides(v) {
    const { left, right, sizes } = this, isTurned = sizes[left[v]] < sizes[right[v]];
    return isTurned ? [right[v], left[v]] : [left[v], right[v]];
  }

  leaves(v) { return this.order.subarray(this.starts[v], this.starts[v] + this.sizes[v]); }

  /** The lowest node over the places from x0 to x1. */
  covering(x0, x1) {
    let v = this.root;
    for (;;) {
      if (this.isLeaf(v)) return v;
      const inside = [this.left[v], this.right[v]].find((c) => this.starts[c] <= x0 && x1 <= this.starts[c] + this.sizes[c]);
      if (inside === undefined) return v;
      v = inside;
    }
  }

  path(v) {
    const { parents, sizes } = this;
    let found = [v], last = v, u = parents[v];
    while (u >= 0) {
      const above = parents[u];
      const isStep = above < 0 || sizes[above] >= STEP * sizes[u];
      if (above < 0 || (isStep && sizes[u] >= STEP * sizes[last])) {
        found.push(u);
        last = u;
      }
      u = above;
    }
    if (found.length > LONGEST_PATH) {
      const step = (found.length - 1) / (LONGEST_PATH - 1), all = found;
      found = Array.from({ length: LONGEST_PATH }, (_, i) => all[Math.round(i * step)]);
    }
    return found.reverse();
  }

  ancestorOfSize(leaf, size) {
    const { parents, sizes } = this;
    let v = leaf;
    while (parents[v] >= 0 && Math.abs(sizes[parents[v]] - size) <= Math.abs(sizes[v] - size)) v = parents[v];
    return v;
  }

  /** The blocks of an icicle, parents first: see grinch.tree.blocks.blocks. */
  blocks(x0, x1, least, isKept, maxRows) {
    const { starts, sizes } = this;
    const isSeen = (v) => starts[v] < x1 && starts[v] + sizes[v] > x0;
    const found = { node: [], parent: [], row: [], end: [] };
    let waiting = [[this.covering(x0, Math.max(x1, x0 + 1)), 0, -1]];
    least = Math.max(least, 1);
    while (waiting.length && found.node.length < MOST_BLOCKS) {
      const [node, row, parent] = waiting.pop(), count = found.node.length, begin = waiting.length;
      let v = node, leftOver = -1, end = -1;
      while (!this.isLeaf(v) && sizes[v] >= 2 * least) {
        const [big, small] = this.sides(v);
        if (sizes[small] >= least) {
          if (isSeen(small) && waiting.length < MOST_BLOCKS) waiting.push([small, row + 1, count]);
          leftOver = big;
          end = v;
          if (sizes[small] >= SHARE * sizes[v]) break;
        }
        if (isKept.has(big)) {
          leftOver = big;
          end = v;
          break;
        }
        v = big;
      }
      if (leftOver >= 0 && isSeen(leftOver) && waiting.length < MOST_BLOCKS) waiting.push([leftOver, row + 1, count]);
      if (row + 1 >= maxRows) [waiting, end] = [waiting.slice(0, begin), -1];
      found.node.push(node);
      found.parent.push(parent);
      found.row.push(row);
      found.end.push(end);
    }
    return found;
  }

  /** By node, the commonest code of its leaves and how many have it; codes are by leaf, -1 for none. */
  commonest(codes, count) {
    const { n, order, starts, sizes, parents } = this;
    const best = new Int32Array(parents.length).fill(-1), counts = new Int32Array(parents.length), tally = new Int32Array(Math.max(count, 1));
    for (let place = 0; place < n; place++) {
      let v = order[place], winner = -1, most = 0, end = place;
      for (;;) {
        for (; end < place + sizes[v]; end++) {
          const code = codes[order[end]];
          if (code >= 0 && ++tally[code] > most) [winner, most] = [code, tally[code]];
        }
        best[v] = winner;
        counts[v] = most;
        const above = parents[v];
        if (above < 0 || starts[above] !== place) break;
        v = above;
      }
      for (let i = place; i < end; i++) if (codes[order[i]] >= 0) tally[codes[order[i]]] = 0;
    }
    return { best, counts };
  }
}
