// The bar over the tree: the cut, the colors and what they mean, and the way from the root.

import { byId, el, later } from "grinch/dom";
import { compact, counted, date, percent } from "grinch/format";
import { isSize } from "grinch/drawing";
import { css } from "grinch/palette";

const COLORS = { cluster: "by cluster", label: "by label", purity: "by purity", time: "by arrival", fresh: "by what is new" };
const STEPS = 1000, MOST_CRUMBS = 6;

export class Controls {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette });
    this._slider();
    byId("color").addEventListener("change", () => app.state.set({ color: byId("color").value }));
    app.state.on("about", () => this._about());
    app.state.on("about cut layers clusters", () => this._cuts());
    app.state.on("version", () => this._layers());
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
    const set = later((k) => this.app.state.set({ cut: `k:${k}` }), 50);
    slider.addEventListener("input", () => {
      number.value = this._toCount(Number(slider.value));
      set(number.value);
    });
    number.addEventListener("change", () => {
      const k = Math.min(Math.max(Math.round(Number(number.value)) || 1, 1), this.app.values.about?.max_k ?? 1);
      number.value = k;
      this.app.state.set({ cut: `k:${k}` });
    });
  }

  /** The slider goes by factors, not by steps. */
  _toCount(step) {
    return Math.round(Math.exp((step / STEPS) * Math.log(Math.max(this.app.values.about?.max_k ?? 1, 1))));
  }

  _toStep(k) {
    const most = Math.log(Math.max(this.app.values.about?.max_k ?? 1, 2));
    return Math.round((STEPS * Math.log(Math.max(k, 1))) / most);
  }

  async _layers(asked = false) {
    const { n, version } = this.app.values;
    if (!n) return;
    if (asked) this.app.state.set({ layers: null });
    const found = await this.app.source.layers({ asked }).catch(() => null);
    // Of very many points they take a while, and are found when somebody wants them.
    if (found?.version === version && this.app.values.version === version) this.app.state.set({ layers: found.layers ?? "on request" });
  }

  _cuts() {
    const { about, layers, cut, clusters } = this.app.values;
    if (!about) return;
    const followed = about.cuts.filter((known) => !known.cut.startsWith("layer:"));
    const named = followed.map((known) => this._chip(known, known.title, `${known.title}: ${counted(known.clusters, "cluster")}`));
    const found = (Array.isArray(layers) ? layers : []).map((known) => this._chip(known, "", `A layer of the automatic cut: ${counted(known.clusters, "cluster")}, persistence ${percent(known.persistence)}`));
    const waiting = !layers && about.n > 1;
    const title = el("span", { class: "meta", text: waiting ? "finding layers…" : "Layers" });
    const wanted = el("button", { class: "chip", type: "button", title: "The layers of the automatic cut; takes a while", text: "Find layers", onclick: () => this._layers(true) });
    byId("cuts").replaceChildren(...named, ...(layers === "on request" ? [wanted] : waiting || found.length ? [title] : []), ...found);
    const k = clusters?.header.cut === cut ? clusters.header.clusters : cut?.startsWith("k:") ? Number(cut.slice(2)) : undefined;
    const isActive = document.activeElement === byId("slider");
    byId("count").max = about.max_k;
    if (k === undefined) return;
    if (!isActive) byId("slider").value = this._toStep(k);
    byId("count").value = k;
    byId("slider").setAttribute("aria-valuetext", counted(k, "cluster"));
    byId("count-unit").textContent = k === 1 ? "cluster" : "clusters";
  }

  _chip(known, text, title) {
    const isShown = known.cut === this.app.values.cut;
    return el("button", { class: "chip", type: "button", "aria-pressed": String(isShown), title, onclick: () => this.app.state.set({ cut: known.cut }) },
      text, el("b", { text: compact(known.clusters) }));
  }

  // Legend ---------------------------------------------------------------------------------------------------------

  _legend() {
    const { color, about } = this.app.values;
    if (!about?.n) return byId("legend").replaceChildren();
    const made = {
      cluster: () => [this._key(this.palette().none, "above the cut"), ...this._someSlots("a cluster each")],
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

  _someSlots(text) {
    const strip = el("span", { class: "strip" }, ...this.palette().slots.map((slot) => el("i", { style: { background: css(slot) } })));
    return [el("span", { class: "key" }, strip, text)];
  }

  /** The labels that are widest in view. */
  _labels() {
    const { shown, about } = this.app.values, wide = new Map();
    for (let i = 0; i < (shown?.count ?? 0); i += 1) {
      if (shown.isEnd[i] && shown.color[i] >= 0) wide.set(shown.color[i], (wide.get(shown.color[i]) ?? 0) + shown.size[i]);
    }
    const best = [...wide].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([code]) => code);
    const rest = Math.max(wide.size, about.labels?.length ?? 0) - best.length;
    return [...best.map((code) => this._key(this.palette().slot(code), about.labels?.[code] ?? `label ${code}`)),
      ...(rest > 0 ? [el("span", { class: "key rest", text: `and ${counted(rest, "other")}` })] : [])];
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
