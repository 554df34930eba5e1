// The points under a node, some at a time.

import { el } from "grinch/dom";
import { count } from "grinch/format";
import { payloadTable, pointCard } from "grinch/point";

const AT_ONCE = 20;
const ORDERS = { central: "most typical first", newest: "newest first", arrival: "oldest first" };

/** @param {import("grinch/app").App} app @param {any} page */
export function memberList(app, page) {
  const list = el("div", { class: "points" }), note = el("p", { class: "meta" });
  const more = el("button", { class: "quiet wide", type: "button", hidden: true });
  const order = el("select", { "aria-label": "Order of members" }, ...Object.entries(ORDERS).map(([value, text]) => el("option", { value, text })));
  const heading = el("h3"), isCentral = () => order.value === "central";
  let shown = 0, turn = 0;
  // The most typical are on the page already.
  const begin = () => {
    shown = isCentral() ? page.exemplars.length : 0;
    heading.textContent = isCentral() ? "More members" : "Members";
    return load();
  };
  const load = async () => {
    const mine = ++turn;
    let found;
    try {
      found = await app.ask(() => app.source.members(page.node, { offset: shown, limit: AT_ONCE, order: order.value, version: page.version }));
    } catch (error) {
      note.textContent = error.message;
    }
    if (!found || mine !== turn) return;
    list.append(...found.members.map((member) => card(app, member)));
    shown += found.members.length;
    more.hidden = shown >= found.total;
    more.textContent = `Show ${count(Math.min(AT_ONCE, found.total - shown))} more of ${count(found.total - shown)}`;
  };
  more.addEventListener("click", load);
  order.addEventListener("change", () => {
    list.replaceChildren();
    begin();
  });
  begin();
  return el("section", { class: "members" }, el("div", { class: "section-head" }, heading, order), list, more, note);
}

/** A point that opens to show all that is known of it. */
function card(app, member) {
  const table = payloadTable(member.payload, member.text);
  const details = el("details", {}, el("summary", {}, pointCard(app, member)), table,
    el("button", { class: "text", type: "button", text: "Show in the tree", onclick: () => app.goTo({ node: member.leaf, start: member.x, size: 1, title: member.text ?? String(member.id) }) }));
  details.addEventListener("mouseenter", () => app.state.set({ hover: { node: member.leaf, start: member.x, size: 1 } }));
  details.addEventListener("mouseleave", () => app.state.set({ hover: null }));
  return details;
}
