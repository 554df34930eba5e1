// Light or dark: as the system says, unless the user says otherwise.

import { byId, remember } from "grinch/dom";
import { Palette } from "grinch/palette";

const system = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

export class Theme {
  /** @param {import("grinch/app").App} app */
  constructor(app) {
    this.app = app;
    this.palette = new Palette(isDark());
    app.state.on("about", () => this._apply());
    system.addEventListener("change", () => this._apply());
    byId("theme").addEventListener("click", () => this.toggle());
  }

  toggle() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    remember("theme", document.documentElement.dataset.theme);
    this._apply();
  }

  _apply() {
    this.palette = new Palette(isDark(), this.app.values.about);
    this.app.state.set({ theme: isDark() ? "dark" : "light" });
    this.app.icicle?.draw();
  }
}
