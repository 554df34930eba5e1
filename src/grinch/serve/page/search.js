// The search box: what is typed is looked for at once, and the arrow keys go through what was found.

import { byId, el, later } from "grinch/dom";
import { count } from "grinch/format";

const KINDS = { name: "name", cluster: "cluster", keyword: "cluster", id: "id", text: "point" };

export class Search {
  /** @param {import("grinch/app").App} app */
  constructor(app) {
    Object.assign(this, { app, hits: [], at: -1, turn: 0 });
    this.input = byId("query");
    this.list = byId("hits");
    const look = later(() => this._look(), 140);
    this.input.addEventListener("input", look);
    this.input.addEventListener("focus", () => this.hits.length && this._open(true));
    this.input.addEventListener("keydown", (event) => this._key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!byId("search").contains(event.target)) this._open(false);
    });
  }

  async _look() {
    const q = this.input.value.trim(), turn = ++this.turn;
    if (!q) return this._show([], true, "");
    try {
      const found = await this.app.ask(() => this.app.source.search(q, { limit: 20, version: this.app.values.version }));
      if (found && turn === this.turn) this._show(found.hits, found.complete, q);
    } catch (error) {
      if (turn === this.turn) this._show([], true, q, error.message);
    }
  }

  _show(hits, isComplete, q, problem) {
    Object.assign(this, { hits, at: hits.length ? 0 : -1 });
    const notes = [];
    if (q && !hits.length) notes.push(problem ?? `Nothing found for “${q}”`);
    else if (!isComplete) notes.push("There may be more: type more of it");
    this.list.replaceChildren(...hits.map((hit, i) => this._hit(hit, i, q)), ...notes.map((text) => el("li", { class: "note", text })));
    this._open(Boolean(q));
    this._mark();
  }

  _hit(hit, i, q) {
    const note = hit.leaf === null ? `${KINDS[hit.kind] ?? hit.kind} · ${count(hit.size)}` : KINDS[hit.kind] ?? hit.kind;
    const snippet = hit.snippet && hit.snippet !== hit.title;
    return el("li", { id: `hit-${i}`, role: "option", class: "hit", onpointerdown: (event) => { event.preventDefault(); this._go(i); } },
      el("span", { class: "name" }, ...marked(hit.title, q)), el("span", { class: "note", text: note }),
      snippet && el("span", { class: "snippet" }, ...marked(hit.snippet, q)));
  }

  _mark() {
    [...this.list.querySelectorAll("[role=option]")].forEach((item, i) => {
      item.setAttribute("aria-selected", String(i === this.at));
      if (i === this.at) item.scrollIntoView({ block: "nearest" });
    });
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `hit-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  _open(isOpen) {
    this.list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", String(isOpen));
  }

  _key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.hits.length) {
      this.at = (this.at + step + this.hits.length) % this.hits.length;
      this._mark();
    } else if (event.key === "Enter" && this.at >= 0) this._go(this.at);
    else if (event.key === "Escape" && (this.input.value || !this.list.hidden)) {
      this.input.value = "";
      this._show([], true, "");
    } else if (event.key === "Escape") this.input.blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  _go(i) {
    const hit = this.hits[i];
    this._open(false);
    this.app.goTo({ node: hit.node, start: hit.start, size: hit.size, title: hit.title });
    // From here the arrow keys go on in the tree.
    byId("icicle").focus({ preventScroll: true });
  }
}

/** A text with what was looked for marked. @param {string} text @param {string} q */
function marked(text, q) {
  const at = q ? text.toLowerCase().indexOf(q.toLowerCase()) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), el("mark", { text: text.slice(at, at + q.length) }), text.slice(at + q.length)];
}
