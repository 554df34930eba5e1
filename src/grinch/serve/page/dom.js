// Elements, made without ever reading text as HTML.

import { begin, end } from "grinch/busy";

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] `on*` are listeners, `text` is text, `style` an object, the rest attributes.
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {any}
 */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else if (name === "style") for (const [key, entry] of Object.entries(value)) made.style.setProperty(key, entry);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** A small line drawing. @param {string} path */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export const ICONS = {
  pencil: "M2.5 13.5l.7-3L10.7 3l2.3 2.3-7.5 7.5zM9.5 4.2l2.3 2.3",
  zoom: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.4 10.4l3.6 3.6M7 5v4M5 7h4",
};

/**
 * Call when nothing has come for a while, with the latest arguments.
 * @param {Function} call @param {number} wait @param {boolean} [isQuiet] The page counts as idle meanwhile.
 */
export function later(call, wait, isQuiet = false) {
  let timer = 0;
  return (...args) => {
    if (timer) clearTimeout(timer);
    else if (!isQuiet) begin();
    timer = setTimeout(() => {
      timer = 0;
      try {
        call(...args);
      } finally {
        if (!isQuiet) end();
      }
    }, wait);
  };
}

export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {string} key @returns {string | null} */
export function remembered(key) {
  try {
    return localStorage.getItem(`grinch.${key}`);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function remember(key, value) {
  try {
    localStorage.setItem(`grinch.${key}`, value);
  } catch {
    // Nowhere to keep it.
  }
}
