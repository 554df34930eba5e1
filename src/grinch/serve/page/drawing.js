// How the icicle is drawn. Everything is in CSS pixels; the caller has scaled the canvas.

import { MORE, NAMED, TOP } from "grinch/picture";
import { css } from "grinch/palette";
import { compact } from "grinch/format";

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
const LEAST_FOR_TEXT = 34, LEAST_ROW_WITH_TEXT = 14;
const PADDING = 6, MOST_ROW_HEIGHT = 40;
// A cluster that is narrower than this shows nothing of its inside, but its name, written downwards.
export const LEAST_OPEN = 90;
const LEAST_FOR_NAME = 12;

/**
 * @typedef {object} Scene What is drawn, and where.
 * @property {CanvasRenderingContext2D} ctx
 * @property {import("grinch/picture").Picture} picture
 * @property {import("grinch/palette").Palette} palette
 * @property {number} width @property {number} height @property {number} rowHeight
 * @property {number} x0 Place at the left edge. @property {number} scale Pixels for each point.
 * @property {(i: number) => number} rowOf Where the row of a block is on the screen, in rows.
 */

/** Left and right of a block on the screen, or null if it is outside. @param {Scene} scene @param {number} start @param {number} size */
function sides({ x0, scale, width }, start, size) {
  const left = (start - x0) * scale, right = left + size * scale;
  if (right < 0 || left > width) return null;
  return [Math.max(left, -3), Math.min(right, width + 3), right - left];
}

/** @param {Scene} scene */
export function drawBlocks(scene) {
  const { ctx, picture, rowHeight, height, rowOf } = scene;
  let drawn = 0;
  drawGrounds(scene);
  for (const { fill, blocks } of picture.groups) {
    ctx.fillStyle = fill;
    for (const i of blocks) {
      const y = rowOf(i) * rowHeight, isDown = isColumn(scene, i);
      if (y > height || (!isDown && y + rowHeight < 0)) continue;
      const at = sides(scene, picture.start[i], picture.size[i]);
      if (!at || isFolded(scene, i)) continue;
      const gap = at[2] > 5 ? 1 : at[2] > 2.5 ? 0.5 : 0;
      ctx.fillRect(at[0], y, Math.max(at[1] - at[0] - gap, 0.7), isDown ? height - y : rowHeight - 1);
      drawn += 1;
      if (picture.flags[i] & MORE && !isDown && rowHeight > 12) fringe(ctx, at, gap, y + rowHeight);
    }
  }
  return drawn;
}

/** Whether a block is inside of a cluster that is too narrow to be opened. @param {Scene} scene @param {number} i */
function isFolded({ picture, scale }, i) {
  const top = picture.top[i];
  return top >= 0 && top !== i && picture.size[top] * scale < LEAST_OPEN;
}

/** Whether a block is a cluster of which nothing inside is shown: it reaches down to the bottom. @param {Scene} scene @param {number} i */
function isColumn({ picture, scale }, i) {
  return picture.top[i] === i && (picture.isEnd[i] === 1 || picture.size[i] * scale < LEAST_OPEN);
}

/** Under the inside of a cluster its color, faintly. @param {Scene} scene */
function drawGrounds(scene) {
  const { ctx, picture, rowHeight, rowOf, height } = scene;
  for (let i = 0; i < picture.count; i += 1) {
    const at = picture.top[i] === i && !isColumn(scene, i) ? sides(scene, picture.start[i], picture.size[i]) : null;
    if (!at) continue;
    ctx.fillStyle = picture.grounds[i];
    ctx.fillRect(at[0], rowOf(i) * rowHeight, at[1] - at[0] - 1, height - rowOf(i) * rowHeight);
  }
}

/** A block whose inside is too fine to be seen goes on below. */
function fringe(ctx, [left, right], gap, y) {
  ctx.globalAlpha = 0.35;
  ctx.fillRect(left, y, Math.max(right - left - gap, 0.7), 2);
  ctx.globalAlpha = 0.15;
  ctx.fillRect(left, y + 3, Math.max(right - left - gap, 0.7), 2);
  ctx.globalAlpha = 1;
}

/** The cut: a line over the top of every cluster. @param {Scene} scene */
export function drawCut(scene) {
  const { ctx, picture, palette, rowHeight, rowOf } = scene;
  ctx.fillStyle = palette.ink;
  for (let i = 0; i < picture.count; i += 1) {
    if (!(picture.flags[i] & TOP)) continue;
    const at = sides(scene, picture.start[i], picture.size[i]);
    if (at) ctx.fillRect(at[0], rowOf(i) * rowHeight - 1.5, Math.max(at[1] - at[0] - (at[2] > 5 ? 1 : 0), 0.7), 2);
  }
}

/** What is new: all of a block where nothing inside of it is seen, otherwise a bar as long as its share. @param {Scene} scene @param {number} strength */
export function drawFresh(scene, strength) {
  const { ctx, picture, palette, rowHeight, rowOf } = scene;
  const color = css(palette.glow);
  ctx.save();
  ctx.fillStyle = color;
  for (let i = 0; i < picture.count; i += 1) {
    if (!picture.fresh[i] || isFolded(scene, i)) continue;
    const at = sides(scene, picture.start[i], picture.size[i]);
    if (!at) continue;
    // Of a column at the bottom, where no name is.
    const y = isColumn(scene, i) ? scene.height - rowHeight - 1 : rowOf(i) * rowHeight;
    const share = picture.fresh[i] / picture.size[i], room = at[1] - at[0] - 1;
    if (share > 0.6 || (picture.isEnd[i] && !isColumn(scene, i))) {
      ctx.shadowColor = color;
      ctx.shadowBlur = 10 * strength;
      ctx.globalAlpha = Math.min(1, 0.25 + 0.55 * share) * (0.55 + 0.45 * strength);
      ctx.fillRect(at[0], y + rowHeight - 6, Math.max(room, 2), 5);
      ctx.shadowBlur = 0;
    } else {
      ctx.globalAlpha = 0.8;
      ctx.fillRect(at[0], y + rowHeight - 3, Math.max(room * share, 2), 2);
    }
  }
  ctx.restore();
}

/** Names and sizes, where they fit. @param {Scene} scene */
export function drawLabels(scene) {
  const { ctx, picture, palette, rowHeight, rowOf, height, width } = scene;
  const size = Math.min(Math.max(Math.round(rowHeight * 0.46), 11), 13);
  ctx.textBaseline = "middle";
  for (let i = 0; i < picture.count; i += 1) {
    const isNamed = picture.flags[i] & NAMED, isTop = picture.flags[i] & TOP;
    const at = sides(scene, picture.start[i], picture.size[i]);
    const y = rowOf(i) * rowHeight;
    if (!at || y > height || y < -rowHeight || (rowHeight < LEAST_ROW_WITH_TEXT && !isTop) || isFolded(scene, i)) continue;
    const left = Math.max(at[0], 0), room = Math.min(at[1], width) - left - 2 * PADDING;
    const isPlain = isSize(picture.title(i));
    ctx.font = `${(isNamed || isTop) && !isPlain ? 600 : 400} ${size}px ${FONT}`;
    ctx.fillStyle = picture.inks[i];
    const isNarrow = isTop && at[2] < LEAST_OPEN && widthOf(ctx, picture.name(i)) > room;
    if (isNarrow || (!isTop && room < LEAST_FOR_TEXT - 2 * PADDING)) {
      if (isNarrow && at[1] - at[0] >= LEAST_FOR_NAME && height - y > MOST_ROW_HEIGHT) downwards(ctx, picture.name(i), (at[0] + at[1] - 1) / 2, y + PADDING, height - y - 2 * PADDING);
      continue;
    }
    const middle = y + (Math.max(rowHeight, LEAST_ROW_WITH_TEXT) - 1) / 2 + 0.5;
    if (isPlain) {
      faint(ctx, picture.title(i), left + PADDING, left + PADDING + room, middle, size);
      continue;
    }
    const text = fitted(ctx, picture.name(i), room);
    if (!text) continue;
    ctx.fillText(text, left + PADDING, middle);
    number(ctx, picture, i, left + PADDING + widthOf(ctx, text) + 8, left + PADDING + room, middle, size);
    if (isNamed) flag(ctx, left, y, palette);
  }
}

/** A name in a narrow column. */
function downwards(ctx, name, x, y, room) {
  const text = fitted(ctx, name, room);
  if (!text) return;
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(Math.PI / 2);
  ctx.fillText(text, 0, 0);
  ctx.restore();
}

/** Whether a title says no more than how many points there are. @param {string} title */
export const isSize = (title) => /^[\d,]+ points?$/.test(title);

/** The size after a name, where there is room. */
function number(ctx, picture, i, left, right, middle, size) {
  if (picture.size[i] > 1) faint(ctx, compact(picture.size[i]), left, right, middle, size);
}

/** A size: lighter than a name, so that it is not taken for one, and whole or not at all. */
function faint(ctx, text, left, right, middle, size) {
  ctx.font = `400 ${size - 1}px ${FONT}`;
  if (left + widthOf(ctx, text) > right) return;
  ctx.globalAlpha = 0.72;
  ctx.fillText(text, left, middle);
  ctx.globalAlpha = 1;
}

/** A name that a person gave has a corner of its own. */
function flag(ctx, x, y, palette) {
  ctx.fillStyle = palette.accent;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + 9, y);
  ctx.lineTo(x, y + 9);
  ctx.fill();
}

/** A frame around a node, or a line where it would be. @param {Scene} scene @param {import("grinch/state").Spot} spot @param {boolean} isStrong */
export function drawFrame(scene, spot, isStrong) {
  const { ctx, picture, palette, rowHeight, rowOf, height } = scene;
  const i = picture.at.get(spot.node);
  const at = sides(scene, spot.start, spot.size);
  if (!at) return;
  if (i === undefined) return drawLine(scene, spot, isStrong);
  const y = rowOf(i) * rowHeight, wide = Math.max(at[1] - at[0] - 1, 2);
  const isWhole = picture.top[i] === i;
  const high = isWhole ? height - y - 1 : rowHeight - 1;
  if (isStrong) {
    ctx.fillStyle = palette.ink;
    ctx.globalAlpha = 0.06;
    if (!isWhole) ctx.fillRect(at[0], y + rowHeight, wide, height - y - rowHeight);
    ctx.globalAlpha = 1;
    outline(ctx, at[0], y, wide, high, palette.isDark ? "#000" : "#fff", 4.5);
  }
  outline(ctx, at[0], y, wide, high, palette.ink, isStrong ? 2.5 : 1.5);
}

function outline(ctx, x, y, width, height, color, thickness) {
  ctx.strokeStyle = color;
  ctx.lineWidth = thickness;
  ctx.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 1), height - 1);
}

/** Where something is that is too small to be a block. @param {Scene} scene */
function drawLine({ ctx, palette, x0, scale, height }, spot, isStrong) {
  const x = (spot.start + spot.size / 2 - x0) * scale;
  ctx.fillStyle = palette.ink;
  ctx.globalAlpha = isStrong ? 0.85 : 0.5;
  ctx.fillRect(x - 0.75, 0, 1.5, height);
  ctx.beginPath();
  ctx.moveTo(x - 5, 0);
  ctx.lineTo(x + 5, 0);
  ctx.lineTo(x, 7);
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** @type {Map<string, number>} */
const widths = new Map();

function widthOf(ctx, text) {
  const key = `${ctx.font}|${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    if (widths.size > 20_000) widths.clear();
    widths.set(key, (found = ctx.measureText(text).width));
  }
  return found;
}

/** As much of a text as fits, or nothing. @param {CanvasRenderingContext2D} ctx @param {string} text @param {number} room */
export function fitted(ctx, text, room) {
  const shown = text.length > 160 ? `${text.slice(0, 160)}…` : text;
  const wide = widthOf(ctx, shown);
  if (wide <= room) return shown;
  const words = wholeWords(ctx, shown, room);
  if (words) return words;
  const letters = [...shown];
  let keep = Math.floor((letters.length * room) / wide);
  while (keep > 1 && widthOf(ctx, `${letters.slice(0, keep).join("").trimEnd()}…`) > room) keep -= 1;
  return keep > 1 ? `${letters.slice(0, keep).join("").trimEnd()}…` : "";
}

/** Of a list of words, those that fit. */
function wholeWords(ctx, text, room) {
  const words = text.split(", ");
  if (words.length > 6) return "";
  while (words.length > 1) {
    words.pop();
    if (widthOf(ctx, words.join(", ")) <= room) return words.join(", ");
  }
  return "";
}

/** The clusters under a block, however small, as columns. @param {Scene} scene @param {any} clusters The answer of cut(). @param {import("grinch/state").Spot} spot @param {number} y */
export function drawColumns({ ctx, palette, width, height, x0, scale }, clusters, spot, y) {
  const { start, size, color } = clusters.arrays, end = spot.start + spot.size;
  let last = -1;
  for (let i = firstFrom(start, spot.start); i < start.length && start[i] < end; i += 1) {
    const left = (start[i] - x0) * scale, wide = size[i] * scale;
    if (left + wide < 0 || left > width) continue;
    // Of the clusters within a pixel one is enough.
    if (Math.floor(left + wide) === last && wide < 1) continue;
    last = Math.floor(left + wide);
    const from = Math.max(left, 0), gap = wide > 5 ? 1 : wide > 2.5 ? 0.5 : 0;
    ctx.fillStyle = css(palette.color(color[i]));
    ctx.fillRect(from, y, Math.max(Math.min(left + wide, width) - from - gap, 0.6), Math.max(height - y, 0));
  }
}

/** The first of some ascending numbers that is not below a value. @param {ArrayLike<number>} values @param {number} value */
export function firstFrom(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
