// Numbers on their way from the server: a header in JSON, and arrays as they are in memory (grinch.serve.views.icicle).

/** @typedef {{header: any, arrays: Record<string, any>}} Message */

const KINDS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

/**
 * @param {ArrayBuffer} buffer
 * @returns {Message}
 */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  let at = 4 + length;
  for (const [name, kind, count] of header.arrays) {
    arrays[name] = new KINDS[kind](buffer, at, count);
    at += Math.ceil(arrays[name].byteLength / 8) * 8;
  }
  return { header, arrays };
}
