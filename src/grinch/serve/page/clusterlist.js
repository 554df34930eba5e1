// The clusters of the cut: all of them, a page at a time, in some order, and those with some text in their name.

import { css } from "grinch/palette";
import { el, later } from "grinch/dom";
import { isSize } from "grinch/drawing";
import { count, counted } from "grinch/format";

const AT_ONCE = 100;
const ORDERS = { size: "largest first", new: "newest first", name: "by name" };

export class ClusterList {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette @param {HTMLElement} box */
  constructor(app, palette, box) {
    Object.assign(this, { app, palette, turn: 0 });
    this.filter = el("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter clusters by name", maxlength: 300, autocomplete: "off", oninput: later(() => this._begin(), 160) });
    this.order = el("select", { "aria-label": "Order of clusters", onchange: () => this._begin() }, ...Object.entries(ORDERS).map(([value, text]) => el("option", { value, text })));
    this.note = el("p", { class: "meta", role: "status", text: "…" });
    this.list = el("div", { class: "clusters" });
    this.end = el("div", { class: "end" });
    box.append(el("div", { class: "filter" }, this.filter, this.order), this.note, this.list, this.end);
    new IntersectionObserver(([entry]) => entry.isIntersecting && this._more(), { rootMargin: "300px" }).observe(this.end);
    app.state.on("clusters theme since tab", () => this._changed());
  }

  /** Begin again, if there is something else to list and somebody looks. */
  _changed() {
    const { clusters, theme, tab, since } = this.app.values;
    if (tab !== "clusters" || (clusters === this.shown?.clusters && theme === this.shown?.theme && since === this.shown?.since)) return;
    this.shown = { clusters, theme, since };
    this._begin();
  }

  async _begin() {
    this.isWhole = false;
    this.offset = 0;
    this.turn += 1;
    await this._more();
  }

  /** List some more. */
  async _more() {
    const { clusters, since } = this.app.values, turn = this.turn;
    if (!clusters || this.isWhole || this.loading === turn) return;
    const { cut, version } = clusters.header, q = this.filter.value.trim();
    if (!cut) return this.note.replaceChildren("There are no clusters yet.");
    this.loading = turn;
    const asked = { cut, version, q, order: this.order.value, offset: this.offset, limit: AT_ONCE, since };
    const found = await this.app.ask(() => this.app.source.clusters(asked)).catch(() => null);
    this.loading = null;
    if (!found || turn !== this.turn) return;
    const entries = found.clusters.map((cluster) => this._entry(cluster, found.largest));
    if (this.offset) this.list.append(...entries);
    else this.list.replaceChildren(...entries);
    this.offset += entries.length;
    this.isWhole = this.offset >= found.total;
    const all = clusters.header.clusters;
    this.note.textContent = found.total < all ? `${count(found.total)} of ${counted(all, "cluster")}` : counted(all, "cluster");
    // There may be room for more than came.
    if (!this.isWhole && this.end.getBoundingClientRect().top < innerHeight + 300) this._more();
  }

  _entry(cluster, largest) {
    const { app } = this, spot = { node: cluster.node, start: cluster.start, size: cluster.size, title: cluster.name };
    const fill = css(this.palette().color(cluster.color));
    return el("button", {
      class: "cluster", type: "button",
      onclick: () => app.goTo(spot),
      onmouseenter: () => app.state.set({ hover: spot }),
      onmouseleave: () => app.state.set({ hover: null }),
    },
    el("span", { class: "swatch", style: { background: fill } }),
    el("span", { class: cluster.is_named ? "name given" : "name", text: cluster.name }),
    el("span", { class: "note" }, cluster.fresh > 0 && el("span", { class: "fresh", text: `+${count(cluster.fresh)} ` }), !isSize(cluster.name) && count(cluster.size)),
    el("span", { class: "track" }, el("i", { style: { width: `${Math.max((100 * cluster.size) / largest, 1)}%`, background: fill } })));
  }
}
