// Where would this point go? A form for a row of numbers, or for the id of a point that is there.

import { byId, el } from "grinch/dom";
import { count } from "grinch/format";
import { link } from "grinch/nodepage";
import { pointCard } from "grinch/point";

/** @param {string} text @returns {number[]} */
export function numbers(text) {
  const inner = text.trim().replace(/^\[+|\]+$/g, "");
  const found = inner.split(/[\s,;]+/).filter(Boolean).map(Number);
  if (!found.length || found.some((value) => !Number.isFinite(value))) throw new Error("Give numbers, such as 0.1, -2, 3");
  return found;
}

export class Placing {
  /** @param {import("grinch/app").App} app */
  constructor(app) {
    this.app = app;
    this.dialog = byId("placing");
    this.vector = el("textarea", { id: "vector", rows: 4, "aria-label": "Numbers of the point", spellcheck: "false" });
    this.like = el("input", { id: "like", type: "text", "aria-label": "Id of a point", placeholder: "id of a point that is there", autocomplete: "off" });
    this.answer = el("div", { class: "answer", "aria-live": "polite" });
    byId("placing-open").addEventListener("click", () => this._open());
    app.state.on("about", ({ about }) => { byId("placing-open").hidden = !about.can_place || app.source.isStatic; });
    this.dialog.append(this._form());
  }

  _form() {
    return el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); this._ask(); } },
      el("h2", { text: "Where would this point go?" }),
      el("label", { for: "vector", text: "Its numbers, in JSON or with commas" }), this.vector,
      el("label", { for: "like", text: "or the id of a point" }), this.like,
      el("div", { class: "buttons" }, el("button", { type: "submit", text: "Find its place" }), el("button", { type: "button", class: "quiet", text: "Close", onclick: () => this.dialog.close() })),
      this.answer);
  }

  _open() {
    const { about } = this.app.values;
    this.vector.placeholder = about.n_features ? `${count(about.n_features)} numbers` : "0.1, -2, 3";
    this.answer.replaceChildren();
    this.dialog.showModal();
    this.vector.focus();
  }

  async _ask() {
    const { cut, version } = this.app.values;
    try {
      const isVector = this.vector.value.trim() !== "";
      if (!isVector && !this.like.value.trim()) throw new Error("Give the numbers of the point, or the id of one that is there");
      const asked = isVector ? { vector: numbers(this.vector.value) } : { like: this.like.value.trim() };
      const found = await this.app.ask(() => this.app.source.place({ ...asked, cut, version }));
      if (found) this._show(found, asked.like);
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "problem", text: error.message }));
    }
  }

  /** @param {any} found @param {string} [like] The id that was asked for. */
  _show(found, like) {
    const isItself = ({ id }) => String(id) === like;
    const beside = found.neighbours.find((point) => !isItself(point)) ?? found.neighbours[0];
    this.app.goTo(found);
    this.answer.replaceChildren(
      el("p", {}, "Into ", el("b", { text: found.cluster ? found.cluster.name : "no cluster of this cut" })),
      el("div", { class: "path" }, ...found.path.map((crumb) => link(this.app, { ...crumb, title: crumb.name }, count(crumb.size)))),
      ...(beside ? [el("p", { class: "meta", text: isItself(beside) ? "The nearest is the point itself" : "Beside" }), pointCard(this.app, beside, { isLarge: true })] : []));
  }
}
