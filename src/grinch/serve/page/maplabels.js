// What is written over the map: names of the largest clusters, what is new, and where the mouse is.

import { css } from "grinch/palette";
import { fitted, isSize } from "grinch/drawing";

const FONT = '600 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const MOST_LABELS = 12, SAMPLED = 151, WIDEST = 130, FEW = 400;

/** The middle of each of the largest clusters: medians, so that it is among the points. */
export function middles(map, clusters) {
  return (clusters?.header.list ?? []).slice(0, 40).filter(({ name }) => !isSize(name)).map(({ node, start, size, name }) => {
    const step = Math.max(size / SAMPLED, 1), xs = [], ys = [];
    for (let k = 0; k < Math.min(size, SAMPLED); k += 1) {
      const place = start + Math.floor(k * step);
      xs.push(map.x[place]);
      ys.push(map.y[place]);
    }
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    return { node, name, x: middle(xs), y: middle(ys) };
  });
}

/** @param {CanvasRenderingContext2D} ctx @param {any} map A PointMap. @param {any} spot */
export function drawOver(ctx, map, spot) {
  const { a, b, c, d } = map.transform(), palette = map.palette(), { hover, selection } = map.app.values;
  const at = (place) => [a * map.map.x[place] + c, b * map.map.y[place] + d];
  ctx.clearRect(0, 0, map.width, map.height);
  if (map.app.values.color !== "fresh") drawFresh(ctx, map, at, palette, spot);
  if (!spot) drawNames(ctx, map, palette, { a, b, c, d });
  if (selection?.size === 1 && spot) ring(ctx, at(selection.start), 7, palette);
  if (hover?.size === 1) ring(ctx, at(hover.start), 6, palette);
}

function drawNames(ctx, map, palette, { a, b, c, d }) {
  const taken = [];
  ctx.font = FONT;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.lineJoin = "round";
  for (const { name, x, y } of map.middles ?? []) {
    if (taken.length >= MOST_LABELS) break;
    const text = fitted(ctx, name, WIDEST), wide = ctx.measureText(text).width / 2 + 6;
    const px = Math.min(Math.max(a * x + c, wide), map.width - wide), py = b * y + d;
    const isOutside = Math.abs(px - (a * x + c)) > 40 || py < 8 || py > map.height - 8;
    if (!text || isOutside || taken.some((other) => Math.abs(other.px - px) < other.wide + wide && Math.abs(other.py - py) < 21)) continue;
    taken.push({ px, py, wide });
    ctx.strokeStyle = css(palette.ground);
    ctx.lineWidth = 4;
    ctx.globalAlpha = 0.85;
    ctx.strokeText(text, px, py);
    ctx.globalAlpha = 1;
    ctx.fillStyle = palette.ink;
    ctx.fillText(text, px, py);
  }
}

/** The places of what is new. @param {ArrayLike<number> | null} fresh @returns {number[]} */
export function places(fresh) {
  const found = [];
  for (let place = 0; place < (fresh?.length ?? 0); place += 1) if (fresh[place]) found.push(place);
  return found;
}

/** At most some of many, from all over. @param {number[]} all @param {number} most */
export function evenly(all, most) {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, k) => all[Math.floor((k * all.length) / most)]);
}

/** Halos: all that is new has the color of the glow already. */
function drawFresh(ctx, map, at, palette, spot) {
  const glowing = map.glowing ?? [], color = css(palette.glow);
  ctx.save();
  ctx.fillStyle = color;
  ctx.shadowColor = color;
  ctx.shadowBlur = glowing.length < FEW ? 8 : 0;
  for (const place of glowing) {
    const [x, y] = at(place);
    if (x < 0 || y < 0 || x > map.width || y > map.height) continue;
    // As the points themselves, those beside what is lifted out step back.
    ctx.globalAlpha = spot && (place < spot.start || place >= spot.start + spot.size) ? 0.15 : 1;
    ctx.beginPath();
    ctx.arc(x, y, 2.4, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}

function ring(ctx, [x, y], radius, palette) {
  for (const [color, width] of [[css(palette.ground), 4.5], [palette.ink, 2]]) {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.stroke();
  }
}
