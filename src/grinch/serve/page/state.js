// What the page shows, and who wants to know when it changes.

/**
 * @typedef {{node: number, start: number, size: number, title?: string}} Spot  A node, or a point, and where it is.
 * @typedef {{x0: number, x1: number}} Range  Places from left to right.
 */

export class State {
  /** @param {Record<string, any>} values */
  constructor(values) {
    this.values = values;
    /** @type {{keys: Set<string>, call: (values: any) => void}[]} */
    this.listeners = [];
  }

  /** @param {string} keys Separated by spaces. @param {(values: any) => void} call */
  on(keys, call) {
    this.listeners.push({ keys: new Set(keys.split(" ")), call });
  }

  /** @param {Record<string, any>} patch */
  set(patch) {
    const changed = Object.keys(patch).filter((key) => !Object.is(this.values[key], patch[key]));
    if (!changed.length) return;
    Object.assign(this.values, patch);
    for (const { keys, call } of this.listeners) {
      if (changed.some((key) => keys.has(key))) call(this.values);
    }
  }
}
