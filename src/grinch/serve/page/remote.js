// Where answers come from: here, the server. The page of a static export has grinch/local instead, with the same face:
//
//   isStatic                                    whether nothing can change (no naming, no placing, no versions to come)
//   about()                                     what is looked at, and what can be asked of it
//   layers({asked})                             {version, layers: [{cut, title, clusters, persistence}]}; null if they have to be asked for
//   view({x0, x1, width, rows, cut, color, since, version})     → Message: the blocks of the icicle
//   cut({cut, version})                         → Message: the clusters of a cut, from left to right
//   clusters({cut, q, order, offset, limit, since, version})    some of the clusters, by size, new or name; those with a given name first
//   node(node, {cut, since, version})           the page of a node
//   members(node, {offset, limit, order, version})
//   search(q, {limit, version})
//   place({vector | like, cut, version})        where a point would go
//   locate(id, size)                            the node over a point, of a size
//   changes({since, day, cut}), versions()
//   map({method, version})                      → Message: x and y of all points, in the order of the leaves
//   points({what, since, version})              → Message: value of all points, in the order of the leaves
//   name(node, name, version)                   give a node a name; null takes it away
//   imageUrl(image)                             (at once) what to load for the image of a point
//   onVersion(callback, onLost)                 (at once) calls back with {version, n} when the tree has changed
//
// All but the last two give promises; they reject with an Error that has a `status`, 0 if nobody answered.

import { unpack } from "grinch/unpack";

const AGAIN = 1200;
const POLL = 5000;

export const isStatic = false;

/** @param {string} message @param {number} status */
function problem(message, status) {
  return Object.assign(new Error(message), { status });
}

/** @param {string} path @param {Record<string, any>} [params] */
function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `api/${path}?${text}` : `api/${path}`;
}

/** @param {string} url @param {RequestInit} [options] @returns {Promise<any>} */
async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw problem("The server does not answer", 0);
  }
  const isArrays = response.headers.get("content-type")?.startsWith("application/x-grinch-arrays");
  if (response.ok && response.status !== 202) return isArrays ? unpack(await response.arrayBuffer()) : response.json();
  const body = await response.json().catch(() => ({}));
  throw problem(typeof body.error === "string" ? body.error : `The server says ${response.status}`, response.status);
}

/** Ask again while it is computing. @param {() => Promise<any>} call @param {() => void} [onWait] */
async function patiently(call, onWait) {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (error.status !== 202) throw error;
      onWait?.();
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}

export const about = () => ask(address("about"));
export const layers = (asked) => patiently(() => ask(address("layers", asked)));
export const view = (asked) => ask(address("view", asked));
export const cut = (asked) => ask(address("cut", asked));
export const clusters = (asked) => ask(address("clusters", asked));
export const node = (node, asked) => ask(address(`node/${node}`, asked));
export const members = (node, asked) => ask(address(`node/${node}/members`, asked));
export const search = (q, asked) => ask(address("search", { q, ...asked }));
export const locate = (id, size) => ask(address("locate", { id, size }));
export const changes = (asked) => ask(address("changes", asked));
export const versions = () => ask(address("versions"));
export const map = ({ method, version }, onWait) => patiently(() => ask(address("map", { method, version })), onWait);
export const points = (asked) => ask(address("points", asked));

/** @param {any} body */
function post(body) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

export function place({ vector, like, cut, version }) {
  if (vector) return ask(address("place"), post({ vector, cut, version }));
  return ask(address("place", { like, cut, version }));
}

export const name = (node, name, version) => ask(address("names"), post({ node, name, version }));

/** Addresses of the server are relative to the page already. @param {string} image */
export const imageUrl = (image) => image;

/**
 * Hear of new versions: by events where the server has them, otherwise by asking now and then.
 * @param {(found: {version: number, n: number}) => void} callback
 * @param {() => void} onLost The connection broke: perhaps nobody is there any more.
 */
export function onVersion(callback, onLost) {
  let timer = 0;
  const poll = async () => {
    const found = await about().catch(() => null);
    if (found) callback(found);
    timer = setTimeout(poll, POLL);
  };
  const events = new EventSource("api/events");
  events.addEventListener("version", (event) => callback(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    onLost();
    // A connection that broke comes back by itself; one that was refused does not.
    if (events.readyState === EventSource.CLOSED && !timer) timer = setTimeout(poll, POLL);
  });
  return () => {
    events.close();
    clearTimeout(timer);
  };
}
