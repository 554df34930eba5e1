// A point as it is shown in lists: its image, its text, and whatever else is known of it.

import { el } from "grinch/dom";
import { moment } from "grinch/format";

const LONGEST_VALUE = 600;

/** @param {any} value */
function shown(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
}

/** What is known of a point, as a table of two columns. @param {any} payload @param {string | null} text What is shown of it already. */
export function payloadTable(payload, text) {
  const isObject = payload && typeof payload === "object" && !Array.isArray(payload);
  const entries = isObject ? Object.entries(payload) : payload === null || payload === undefined ? [] : [["payload", payload]];
  const rest = entries.filter(([, value]) => value !== text);
  if (!rest.length) return null;
  return el("dl", { class: "payload" }, ...rest.flatMap(([name, value]) => [
    el("dt", { text: name }), el("dd", { text: shown(value) }),
  ]));
}

/**
 * @param {import("grinch/app").App} app @param {any} member @param {{isLarge?: boolean, onclick?: () => void}} options
 */
export function pointCard(app, member, { isLarge = false, onclick } = {}) {
  const { source } = app;
  const image = member.image && el("img", {
    src: source.imageUrl(member.image), alt: "", loading: "lazy", referrerpolicy: "no-referrer",
    onerror: (event) => event.target.remove(),
  });
  const meta = [member.id !== null && String(member.id), member.label, isLarge && member.time && moment(member.time)];
  const text = member.text ?? (image ? null : String(member.id ?? `point ${member.leaf}`));
  const body = el("div", { class: "words" },
    text !== null && el("p", { text }),
    el("p", { class: "meta", text: meta.filter((part) => part && part !== text).join(" · ") }),
    isLarge && payloadTable(member.payload, member.text));
  return el(onclick ? "button" : "div", { class: isLarge ? "point large" : "point", type: onclick && "button", onclick }, image, body);
}
