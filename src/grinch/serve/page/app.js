// What the parts of the page share: the state, the source of answers, and what can be done.

import { track } from "grinch/busy";
import { State } from "grinch/state";

const RETRY = 2000, SAID = 6000, LONG = 400;

export class App {
  /** @param {any} source The face described in remote.js. */
  constructor(source) {
    this.source = source;
    this.state = new State({
      about: null, version: -1, n: 0, cut: null, color: "cluster", since: null, day: null,
      view: { x0: 0, x1: 1 }, selection: null, page: null, hover: null,
      clusters: null, layers: null, tab: "clusters", isOnline: true, method: null, error: null, freshShare: 1, hasWords: true, works: [],
    });
    /** @type {((text: string) => void)} */
    this.say = () => {};
    /** What is to be shown first. @type {(about: any) => Promise<Record<string, any>>} */
    this.returning = async () => ({});
  }

  get values() {
    return this.state.values;
  }

  /**
   * The answer to a question; undefined if it is no longer of use, because the tree has moved on or nobody answers.
   * @template T @param {() => Promise<T>} call
   * @returns {Promise<T | undefined>}
   */
  async ask(call) {
    try {
      const found = await track(call());
      this.state.set({ isOnline: true });
      return found;
    } catch (error) {
      if (error.status === 409) await this.refresh();
      else if (error.status === 0 || error.status >= 500) this._lost();
      else throw error;
      return undefined;
    }
  }

  /** Say what takes long while it does. @template T @param {string} text @param {Promise<T>} promise @returns {Promise<T>} */
  during(text, promise) {
    const timer = setTimeout(() => this.state.set({ works: [...this.values.works, text] }), LONG);
    const done = () => {
      clearTimeout(timer);
      this.state.set({ works: this.values.works.filter((other) => other !== text) });
    };
    promise.then(done, done);
    return promise;
  }

  /** Say quietly what went wrong. @param {Error} error */
  failed(error) {
    this.state.set({ error: error.message });
    setTimeout(() => this.state.set({ error: null }), SAID);
  }

  _lost() {
    this.state.set({ isOnline: false });
    this.retry ??= setTimeout(async () => {
      this.retry = undefined;
      if (await this.refresh()) this.state.set({ again: (this.values.again ?? 0) + 1 });
    }, RETRY);
  }

  /** See whether there is something new; whether somebody answered. */
  async refresh() {
    this.refreshing ??= this._refresh().finally(() => (this.refreshing = null));
    return this.refreshing;
  }

  async _refresh() {
    const about = await this.ask(() => this.source.about());
    if (!about) return false;
    if (about.version !== this.values.version || about.n !== this.values.n) await this._moveTo(about);
    else this.state.set({ about });
    return true;
  }

  /** Show another version, at the same place. */
  async _moveTo(about) {
    const { n, view, selection, page, since, version, cut, color } = this.values;
    const known = page?.exemplars?.[0]?.id, isFirst = version < 0;
    let spot = null;
    if (!isFirst && selection && known !== undefined && known !== null && about.n) {
      spot = await track(this.source.locate(String(known), selection.size)).catch(() => null);
    }
    const patch = { about, version: about.version, n: about.n, hover: null, layers: null };
    patch.view = moved(view, n, about.n, selection, spot);
    patch.selection = spot ? { ...spot, title: selection.title } : null;
    if (!spot) patch.page = null;
    if (!isCut(about, cut) || !n) patch.cut = about.cut;
    if (!about.colors.includes(color)) patch.color = "cluster";
    // What came while the page was open is new, unless the user has said what is.
    if (!isFirst && since === null && about.versions) patch.since = version;
    if (isFirst) Object.assign(patch, await this.returning(about));
    this.state.set(patch);
  }

  /** @param {import("grinch/state").Spot | null} spot */
  select(spot) {
    if (spot && spot.node === this.values.selection?.node) return;
    this.state.set({ selection: spot, ...(spot ? {} : { page: null }), tab: spot || this.values.tab === "node" ? tabOf(spot) : this.values.tab });
  }

  /** Select a node and bring it into view. @param {import("grinch/state").Spot} spot */
  goTo(spot) {
    this.select(spot);
    this.icicle?.reveal(spot);
  }

  /** The point at a place from left to right. @param {number} place @returns {Promise<import("grinch/state").Spot | undefined>} */
  async pointAt(place) {
    const { version, cut } = this.values;
    const found = await this.ask(() => this.source.view({ x0: place, x1: place + 1, width: 200, rows: 1, cut, version }));
    if (!found) return undefined;
    const { header, arrays } = found;
    return { node: arrays.node[0], start: arrays.start[0], size: arrays.size[0], title: header.names[arrays.node[0]] };
  }
}

/** What is looked at, unless somebody chooses otherwise: the node that is selected, or all clusters. */
export const tabOf = (selection) => (selection ? "node" : "clusters");

/** Whether there is a cut of a name. @param {any} about @param {string | null | undefined} cut */
export function isCut(about, cut) {
  if (/^k:[1-9]\d*$/.test(cut ?? "")) return Number(cut.slice(2)) <= about.max_k;
  return /^layer:\d$/.test(cut ?? "") || about.cuts.some((known) => known.cut === cut);
}

/** Where a view is after points came or went: with the selected node if there is one. */
function moved(view, n, next, selection, spot) {
  if (!n || view.x1 - view.x0 >= n * 0.999) return { x0: 0, x1: next };
  if (selection && spot) {
    const scale = spot.size / selection.size;
    return fit(spot.start + (view.x0 - selection.start) * scale, spot.start + (view.x1 - selection.start) * scale, next);
  }
  return fit((view.x0 / n) * next, (view.x1 / n) * next, next);
}

/** A range inside of all. @param {number} x0 @param {number} x1 @param {number} n */
export function fit(x0, x1, n) {
  const width = Math.min(x1 - x0, n);
  const from = Math.min(Math.max(x0, 0), n - width);
  return { x0: from, x1: from + width };
}
