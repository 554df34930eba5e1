// The panel beside the tree: a node, the clusters of the cut, and what changed.

import { track } from "grinch/busy";
import { changeList } from "grinch/changelist";
import { ClusterList } from "grinch/clusterlist";
import { byId, el, later } from "grinch/dom";
import { count, counted } from "grinch/format";
import { nodePage } from "grinch/nodepage";

const TABS = ["node", "clusters", "changes"];

export class Panel {
  /** @param {import("grinch/app").App} app @param {() => import("grinch/palette").Palette} palette */
  constructor(app, palette) {
    Object.assign(this, { app, palette, history: { changes: null, versions: null } });
    app.renamed = () => this._renamed();
    app.setDay = (day) => this._since({ day });
    for (const name of TABS) this._tab(name);
    app.state.on("tab", () => this._show());
    app.state.on("tab color", ({ tab, color }) => {
      this.isSinceWanted = tab === "changes" || color === "fresh";
      this._sinceLast();
    });
    const load = later(() => track(this._loadNode()), 60);
    app.state.on("selection cut since version again", load);
    app.state.on("version cut again isDrawn hasWords", () => track(this._loadClusters()));
    this.clusters = new ClusterList(app, palette, byId("panel-clusters"));
    app.state.on("since version again", () => track(this._since({ since: app.values.since })));
    this._fill("node", this._hint());
    this._show();
  }

  _tab(name) {
    const button = byId(`tab-${name}`);
    button.addEventListener("click", () => this.app.state.set({ tab: name }));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length];
      this.app.state.set({ tab: next });
      byId(`tab-${next}`).focus();
      event.preventDefault();
    });
  }

  _show() {
    const { tab } = this.app.values;
    for (const name of TABS) {
      byId(`panel-${name}`).hidden = name !== tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
      byId(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    }
  }

  _fill(name, content) {
    byId(`panel-${name}`).replaceChildren(content);
  }

  _hint() {
    return el("div", { class: "hint" },
      el("p", { text: "Click a block of the tree, or a point on the map." }),
      el("p", { class: "meta", text: "Double-click or the wheel zooms; drag to move; ? shows all keys." }));
  }

  // Node -----------------------------------------------------------------------------------------------------------

  async _loadNode() {
    const { selection, cut, since, version } = this.app.values;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    if (!selection) return this._fill("node", this._hint());
    // What is there stays until the new page comes, unless that takes long.
    const wait = setTimeout(() => byId("panel-node").classList.add("waiting"), 250);
    try {
      const page = await this.app.ask(() => this.app.source.node(selection.node, { cut, since, version }));
      if (page && turn === this.turn) this._showNode(page);
    } catch (error) {
      if (turn !== this.turn) return;
      // What is there is better than nothing.
      if (this.app.values.page) this.app.failed(error);
      else this._fill("node", el("p", { class: "problem", text: error.message }));
    } finally {
      clearTimeout(wait);
      byId("panel-node").classList.remove("waiting");
    }
  }

  _showNode(page) {
    const isSame = this.app.values.page?.node === page.node && this.app.values.page?.version === page.version;
    this.app.state.set({ page });
    this._fill("node", nodePage(this.app, page));
    if (!isSame) byId("panel-node").scrollTop = 0;
    this.app.say(`${page.title}, ${counted(page.size, "point")}`);
  }

  async _renamed() {
    this.app.icicle.renew();
    await Promise.all([this._loadNode(), this._loadClusters()]);
    byId("rename")?.focus();
  }

  // Clusters and changes -------------------------------------------------------------------------------------------

  async _loadClusters() {
    const { cut, version, n, isDrawn } = this.app.values;
    if (!isDrawn) return;
    if (!cut || !n) return this.app.state.set({ clusters: null });
    const turn = (this.clusterTurn = (this.clusterTurn ?? 0) + 1);
    const found = await this.app.ask(() => this.app.source.cut({ cut, version })).catch(() => undefined);
    if (found && turn === this.clusterTurn) this.app.state.set({ clusters: found });
  }

  /** Find out what is new since a version, or a day; the answer to a day is a version. */
  async _since({ since = null, day = null }) {
    const { app } = this, { about, cut } = app.values;
    if (!about?.versions) return this._fill("changes", changeList(app, this.history));
    const turn = (this.sinceTurn = (this.sinceTurn ?? 0) + 1);
    const [changes, versions] = await Promise.all([
      since === null && day === null ? null : app.ask(() => app.source.changes({ since, day, cut })).catch(() => null),
      app.ask(() => app.source.versions()).catch(() => null),
    ]);
    if (turn !== this.sinceTurn) return;
    this.history = { changes, versions: versions?.versions ?? this.history.versions };
    if (day && changes) app.state.set({ day, since: changes.since });
    this._showChanges();
    this._sinceLast();
  }

  /** Nothing is new since now: somebody who looks for what is new means since the version before. */
  _sinceLast() {
    const { since, version } = this.app.values, { versions } = this.history;
    if (!this.isSinceWanted || since !== null || !versions?.length) return;
    this.isSinceWanted = false;
    this.app.state.set({ since: versions.findLast((entry) => entry.version < version)?.version ?? 0 });
  }

  _showChanges() {
    const { app } = this, { changes } = this.history, focused = document.activeElement?.id;
    this._fill("changes", changeList(app, this.history));
    if (["since", "since-day"].includes(focused)) byId(focused)?.focus();
    const number = app.values.since === null ? 0 : changes?.new_points ?? 0;
    app.state.set({ freshShare: changes && app.values.n ? number / app.values.n : 1 });
    byId("badge").hidden = !number;
    byId("badge").textContent = number > 999 ? "999+" : count(number);
  }
}
