// What is drawn over the map: names, what is new, and where the mouse is.

import { css } from "grinch/palette";

const FEW = 400;

/** @param {CanvasRenderingContext2D} ctx @param {any} map A PointMap. @param {any} spot */
export function drawOver(ctx, map, spot) {
  const { a, b, c, d } = map.transform(), palette = map.palette(), { hover, selection } = map.app.values;
  const at = (place) => [a * map.map.x[place] + c, b * map.map.y[place] + d];
  ctx.clearRect(0, 0, map.width, map.height);
  if (map.app.values.color !== "fresh") drawFresh(ctx, map, at, palette, spot);
  if (!hover || hover.isPoint || hover.node === selection?.node) map.labels.draw(ctx, { a, b, c, d });
  if (selection?.size === 1 && spot) ring(ctx, at(selection.start), 7, palette);
  if (hover?.size === 1) ring(ctx, at(hover.start), 6, palette);
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
