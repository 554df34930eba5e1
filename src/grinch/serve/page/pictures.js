// Which pictures there are, and which to ask for: a little more than is in view, one at a time, the latest wins.

import { track } from "grinch/busy";
import { Picture } from "grinch/picture";

const MARGIN = 0.3;
const KEPT = 40;
// Names that the server still looks for are asked for again, in milliseconds.
const NAMES_AGAIN = 500;
// A picture is good enough up to this much coarser than the screen.
const COARSE = 1.25;
const ROWS = 64;

export class Pictures {
  /** @param {any} app @param {(picture: Picture) => void} onArrival */
  constructor(app, onArrival) {
    Object.assign(this, { app, onArrival });
    /** @type {Picture[]} */
    this.known = [];
    this.isAsking = false;
    this.wanted = null;
  }

  /** What must be the same for a picture to fit. */
  key() {
    const { version, cut, color, since } = this.app.state.values;
    return [version, cut, color, since].join("|");
  }

  /** Ask for a view again: its names have changed. Until they come, the old picture stays. */
  renew(x0, x1, width) {
    this.isStale = true;
    this.want(x0, x1, width);
  }

  /** The finest picture that has all of a range; of other settings if there is none yet. */
  best(x0, x1, perPixel) {
    const key = this.key(), { version } = this.app.state.values;
    let found = null, most = -Infinity;
    for (const picture of this.known) {
      if (picture.version !== version || !picture.count) continue;
      const isWhole = picture.x0 <= Math.floor(x0) && picture.x1 >= Math.ceil(x1);
      const isFine = picture.perPixel <= COARSE * perPixel;
      const worth = (picture.key === key ? 8 : 0) + (isWhole ? 4 : 0) + (isFine ? 2 : 0) - Math.abs(Math.log(picture.perPixel / perPixel)) / 20;
      if (worth > most) [found, most] = [picture, worth];
    }
    return found;
  }

  /** Whether a picture is all that a view needs. */
  suffices(picture, x0, x1, perPixel, rows) {
    if (!picture || this.isStale || picture.key !== this.key()) return false;
    const isWhole = picture.x0 <= Math.floor(x0) && picture.x1 >= Math.ceil(x1);
    const isDeep = picture.header.rows < ROWS || picture.asked.isExact || picture.row[picture.covering(x0, x1)] + rows <= ROWS;
    return isWhole && isDeep && picture.perPixel <= COARSE * perPixel;
  }

  /** See to it that there is a picture of a view. */
  want(x0, x1, width, isExact = false) {
    const { n, cut, color, since, version } = this.app.state.values;
    const margin = isExact ? 0 : MARGIN * (x1 - x0);
    const from = Math.max(x0 - margin, 0), to = Math.min(x1 + margin, n), perPixel = (x1 - x0) / width;
    const pixels = Math.min(Math.max((to - from) / perPixel, 1), 8000);
    this.wanted = { x0: from, x1: to, width: pixels, rows: ROWS, cut, color, since, version, key: this.key(), perPixel, isExact };
    if (!this.isAsking) track(this._ask());
  }

  async _ask() {
    this.isAsking = true;
    try {
      while (this.wanted) {
        const asked = this.wanted;
        this.wanted = null;
        const { key, perPixel, isExact, ...request } = asked;
        const begin = performance.now();
        const found = await this.app.ask(() => this.app.source.view(request));
        if (found) this._keep(new Picture(found, { ...asked, begin, arrived: performance.now() }));
      }
    } catch (error) {
      this.app.failed(error);
    } finally {
      this.isAsking = false;
    }
  }

  _keep(picture) {
    const hasWords = picture.header.has_words;
    this.known = [picture, ...this.known.filter((old) => old.version === picture.version && !this.isStale)].slice(0, KEPT);
    this.isStale = false;
    this.onArrival(picture);
    this.app.state.set({ hasWords });
    if (!hasWords) setTimeout(() => this.app.icicle.renew(), NAMES_AGAIN);
  }
}
