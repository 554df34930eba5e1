// The color of every point on the map, as a number in a palette of 256.

export const GLOW = 254;
const NONE = 255, STEPS = 253;

/** @param {number} n @param {any} clusters The answer of cut(). @param {(i: number) => number} colorOf */
function byCluster(n, clusters, colorOf) {
  const found = new Uint8Array(n).fill(NONE), { start, size } = clusters?.arrays ?? {};
  for (let i = 0; i < (start?.length ?? 0); i += 1) found.fill(colorOf(i), start[i], start[i] + size[i]);
  return found;
}

/** How much of each cluster has its commonest label. @param {any} clusters @param {Uint16Array} labels */
function purities(clusters, labels) {
  const { start, size } = clusters.arrays;
  return Array.from(start, (from, i) => {
    const counts = new Map();
    let most = 0;
    for (let place = from; place < from + size[i]; place += 1) {
      const next = (counts.get(labels[place]) ?? 0) + 1;
      counts.set(labels[place], next);
      if (next > most && labels[place] !== 65535) most = next;
    }
    return most / size[i];
  });
}

/**
 * @param {string} by @param {number} n @param {any} clusters @param {Uint16Array | null} values What points() says.
 * @param {Uint16Array | null} [fresh] Which points are new: those glow, whatever their color would be.
 * @param {number[]} [labelColors] The color of each label.
 * @returns {Uint8Array}
 */
export function pointColors(by, n, clusters, values, fresh = null, labelColors = []) {
  const found = withoutGlow(by, n, clusters, values, labelColors);
  for (let place = 0; place < (fresh?.length ?? 0); place += 1) if (fresh[place]) found[place] = GLOW;
  return found;
}

function withoutGlow(by, n, clusters, values, labelColors) {
  if (by === "label" && values) return Uint8Array.from(values, (value) => (value === 65535 ? NONE : labelColors[value] ?? NONE));
  if (by === "time" && values) return Uint8Array.from(values, (value) => (value / 65534) * STEPS);
  if (by === "fresh" && values) return Uint8Array.from(values, (value) => (value ? GLOW : NONE));
  if (by === "purity" && values && clusters) {
    const shares = purities(clusters, values);
    return byCluster(n, clusters, (i) => Math.round(shares[i] * STEPS));
  }
  const colors = clusters?.arrays.color;
  return byCluster(n, clusters, (i) => colors[i]);
}

/** @param {string} by @param {import("grinch/palette").Palette} palette @returns {Uint8Array} */
export function pointPalette(by, palette) {
  const found = new Uint8Array(1024), isRamp = by === "time" || by === "purity";
  const none = palette.isDark ? [86, 92, 100] : [190, 192, 190];
  for (let i = 0; i < 256; i += 1) {
    const color = i === NONE ? none : i === GLOW ? palette.glow : isRamp ? palette.scale(i / STEPS) : palette.color(i);
    found.set([...color, 255], 4 * i);
  }
  return found;
}
