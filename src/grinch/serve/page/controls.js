// The bar over the tree: the cut, the colors and what they mean, and the way from the root.

import { byId, el, later } from "grinch/dom";
import { compact, count, counted, date, percent } from "grinch/format";
import { isSize } from "grinch/drawing";
import { css } from "grinch/palette";

const COLORS = { cluster: "by cluster", label: "by label", purity: "by purity", time: "by arrival", fresh: "by what is new" };
const BY_SIZE = "The most sizeable splits of the tree: high, with many points on both sides";
const STEPS = 1000, MOST_CRUMBS = 6;

export class Controls {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette });
    this._slider();
    byId("color").addEventListener("change", () => app.state.set({ color: byId("color").value }));
    app.state.on("about", () => this._about());
    app.state.on("about cut layers clusters", () => this._cuts());
    app.state.on("version isDrawn", () => this._layers());
    app.state.on("color theme shown about freshShare", () => this._legend());
    app.state.on("shown version view", () => this._crumbs());
    app.state.on("view n", () => this._overview());
  }

  _about() {
    const { about, color } = this.app.values;
    document.title = `${about.title} · grinch`;
    byId("title").textContent = about.title;
    const version = about.versions ? `version ${about.version}` : "";
    byId("subtitle").textContent = [counted(about.n, "point"), version, this.app.source.isStatic ? "exported" : ""].filter(Boolean).join(" · ");
    byId("color").replaceChildren(...about.colors.map((value) => el("option", { value, text: COLORS[value] ?? value, selected: value === color })));
  }

  // Cut ------------------------------------------------------------------------------------------------------------

  _slider() {
    const slider = byId("slider"), number = byId("count");
    const set = later((cut) => this.app.state.set({ cut }), 50);
    slider.addEventListener("input", () => {
      const { cut, clusters } = this._toCut(Number(slider.value));
      number.value = clusters;
      set(cut);
    });
    number.addEventListener("change", () => this._enter(Math.max(Math.round(Number(number.value)) || 1, 1)));
  }

  /** A number of clusters that somebody wants, or the nearest that there is. */
  _enter(k) {
    const { about } = this.app.values, known = this._known().find(({ clusters }) => clusters === k);
    const cut = k <= about.max_k ? `k:${k}` : known?.cut ?? `k:${about.max_k}`;
    this.app.state.set({ cut });
    byId("count").value = k <= about.max_k || known ? k : about.max_k;
    this.noted = cut;
    if (k <= about.max_k || known) return;
    const finer = this._known().map(({ clusters }) => clusters).filter((clusters) => clusters > about.max_k);
    byId("count-note").textContent = `${count(about.max_k)} is the most this tree can be cut into by size${finer.length ? `; other cuts have ${finer.map(count).join(" and ")}` : ""}.`;
  }

  /** The cuts that are known beside those by size, the coarsest first. */
  _known() {
    const { about, layers } = this.app.values, tracked = (about?.cuts ?? []).filter(({ cut }) => !cut.startsWith("layer:"));
    return [...tracked, ...(Array.isArray(layers) ? layers : [])].sort((a, b) => a.clusters - b.clusters);
  }

  /** The end of the slider: as many clusters as any cut has. */
  _most() {
    return Math.max(this.app.values.about?.max_k ?? 1, ...this._known().map(({ clusters }) => clusters), 2);
  }

  /** The slider goes by factors, not by steps; beyond the cuts by size it stops at those that are known. */
  _toCut(step) {
    const k = Math.round(Math.exp((step / STEPS) * Math.log(this._most()))), { max_k: most } = this.app.values.about ?? { max_k: 1 };
    if (k <= most) return { cut: `k:${k}`, clusters: k };
    const all = [{ cut: `k:${most}`, clusters: most }, ...this._known().filter(({ clusters }) => clusters > most)];
    return all.reduce((a, b) => (Math.abs(Math.log(b.clusters / k)) < Math.abs(Math.log(a.clusters / k)) ? b : a));
  }

  _toStep(k) {
    return Math.round((STEPS * Math.log(Math.max(k, 1))) / Math.log(this._most()));
  }

  async _layers(asked = false) {
    const { n, version, isDrawn, wantedCut } = this.app.values;
    if (!n || !isDrawn) return;
    if (asked) this.app.state.set({ layers: null });
    const found = await this.app.during("finding layers…", this.app.source.layers({ asked: asked || Boolean(wantedCut) })).catch(() => null);
    if (found?.version !== version || this.app.values.version !== version) return;
    // Of very many points they take a while, and are found when somebody wants them.
    this.app.state.set({ layers: found.layers ?? "on request" });
    // The automatic cut itself is known with them.
    if (asked) await this.app.refresh();
    const isThere = found.layers?.some(({ cut }) => cut === wantedCut);
    if (isThere && this.app.values.cut === this.app.values.about.cut) this.app.state.set({ cut: wantedCut });
    this.app.state.set({ wantedCut: null });
  }

  _cuts() {
    const { about, layers, cut, clusters } = this.app.values;
    if (!about) return;
    const k = clusters?.header.cut === cut ? clusters.header.clusters : cut?.startsWith("k:") ? Number(cut.slice(2)) : undefined;
    const isBySize = cut?.startsWith("k:"), first = about.cut?.startsWith("k:") ? about.cut : `k:${Math.min(about.max_k, 25)}`;
    const bySize = { cut: isBySize ? cut : first, clusters: Number((isBySize ? cut : first).slice(2)) };
    const tracked = about.cuts.filter((known) => !known.cut.startsWith("layer:"));
    const found = Array.isArray(layers) ? [...layers].sort((a, b) => a.clusters - b.clusters) : [];
    byId("cuts").replaceChildren(...[
      this._chip(bySize, "by size", BY_SIZE, first),
      ...tracked.map((known) => this._chip(known, known.title, `${known.title}: ${counted(known.clusters, "cluster")}`)),
      found.length > 0 && el("span", { class: "meta", text: "Layers" }),
      ...found.map((known) => this._chip(known, "", `A layer of the automatic cut: ${counted(known.clusters, "cluster")}, persistence ${percent(known.persistence)}`)),
      layers === "on request" && el("button", { class: "chip", type: "button", title: "The automatic cut and its layers; takes a while", text: "Find the automatic cut", onclick: () => this._layers(true) }),
    ].filter(Boolean));
    if (this.noted !== cut) byId("count-note").textContent = "";
    if (k === undefined) return;
    if (document.activeElement !== byId("slider")) byId("slider").value = this._toStep(k);
    byId("count").value = k;
    byId("count").max = this._most();
    const kind = isBySize ? " by size" : cut.startsWith("layer:") ? " of a layer" : "";
    byId("slider").setAttribute("aria-valuetext", `${counted(k, "cluster")}${kind}`);
    byId("count-unit").textContent = `${k === 1 ? "cluster" : "clusters"}${kind}`;
    byId("count-unit").title = isBySize ? BY_SIZE : "";
  }

  _chip(known, text, title, leadsTo = known.cut) {
    const isShown = known.cut === this.app.values.cut;
    return el("button", { class: "chip", type: "button", "aria-pressed": String(isShown), title, onclick: () => this.app.state.set({ cut: leadsTo }) },
      text, el("b", { text: compact(known.clusters) }));
  }

  // Legend ---------------------------------------------------------------------------------------------------------

  _legend() {
    const { color, about } = this.app.values;
    if (!about?.n) return byId("legend").replaceChildren();
    const made = {
      cluster: () => [this._key(this.palette().none, "above the cut, or in no cluster"), ...this._someColors("clusters, alike if near in the tree")],
      label: () => this._labels(),
      purity: () => [this._ramp("0 %", "100 % of one label")],
      time: () => [this._ramp(...this._ends())],
      fresh: () => this._shares(),
    }[color];
    byId("legend").replaceChildren(...(made ? made() : []));
  }

  _key(color, text) {
    return el("span", { class: "key" }, el("i", { style: { background: css(color) } }), el("span", { text }));
  }

  _someColors(text) {
    const strip = el("span", { class: "strip" }, ...Array.from({ length: 12 }, (_, i) => el("i", { style: { background: css(this.palette().color(21 * i + (i % 3))) } })));
    return [el("span", { class: "key" }, strip, text)];
  }

  /** The labels that are widest in view. */
  _labels() {
    const { shown, about } = this.app.values, wide = new Map();
    for (let i = 0; i < (shown?.count ?? 0); i += 1) {
      if (shown.isEnd[i] && shown.color[i] >= 0) wide.set(shown.color[i], (wide.get(shown.color[i]) ?? 0) + shown.size[i]);
    }
    const best = [...wide].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([code]) => code);
    const all = Math.max(wide.size, about.labels?.length ?? 0);
    return [el("span", { class: "some" }, ...best.map((code) => this._key(this.palette().label(code), about.labels?.[code] ?? `label ${code}`))),
      ...(all > best.length ? [el("span", { class: "key rest", text: `of ${count(all)} labels` })] : [])];
  }

  _ends() {
    const { times } = this.app.values.about;
    return times?.first ? [date(times.first), date(times.last)] : ["first", "last"];
  }

  /** How much of a block is new, beside how much of all is. */
  _shares() {
    const { freshShare } = this.app.values, fresh = (t) => this.palette().fresh(t);
    return [this._ramp("new: none", `average (${percent(freshShare)})`, (t) => fresh(t / 2)), this._ramp("", "all", (t) => fresh(0.5 + t / 2))];
  }

  _ramp(from, to, scale = (t) => this.palette().scale(t)) {
    const stops = Array.from({ length: 10 }, (_, i) => css(scale(i / 9)));
    return el("span", { class: "key" }, from, el("i", { class: "ramp", style: { background: `linear-gradient(90deg, ${stops.join(",")})` } }), to);
  }

  // Where we are ---------------------------------------------------------------------------------------------------

  /** The way from the root: of a long way, its beginning, and as much of its end as there is room for. */
  _crumbs() {
    const all = this.app.icicle?.crumbs() ?? [], box = byId("crumbs");
    box.classList.remove("tight");
    for (let kept = Math.min(all.length, MOST_CRUMBS); kept >= 0; kept -= 1) {
      const isAll = kept === all.length;
      box.replaceChildren(...(isAll ? all : [all[0], null, ...all.slice(1 - kept)]).map((crumb, i, { length }) => this._crumb(crumb, i === length - 1)));
      const isFitting = box.scrollWidth <= box.clientWidth;
      box.classList.toggle("tight", !isFitting && kept <= 2);
      if (isFitting || kept <= 2) return;
    }
  }

  _crumb(crumb, isLast) {
    if (crumb === null) return el("span", { class: "crumb between", text: "…" });
    const title = crumb.title || counted(crumb.size, "point");
    return el("button", {
      class: "crumb", type: "button", "aria-current": isLast ? "location" : null, title: `${title}: ${counted(crumb.size, "point")}`,
      onclick: () => { this.app.icicle.zoomTo(crumb); this.app.select(crumb); },
    }, el("span", { text: title }), !isSize(title) && el("small", { text: compact(crumb.size) }));
  }

  _overview() {
    const { view, n } = this.app.values, bar = byId("minimap").firstElementChild;
    byId("minimap").hidden = !n || view.x1 - view.x0 >= n * 0.999;
    bar.style.left = `${(100 * view.x0) / (n || 1)}%`;
    bar.style.width = `max(3px, ${(100 * (view.x1 - view.x0)) / (n || 1)}%)`;
  }
}
