// Whether anything is on its way: requests, and pictures that move.

let pending = 0;
/** @type {(() => void)[]} */
let waiting = [];

/** @template T @param {Promise<T>} promise @returns {Promise<T>} */
export function track(promise) {
  begin();
  promise.then(end, end);
  return promise;
}

export function begin() {
  pending += 1;
}

export function end() {
  pending -= 1;
  if (!pending) settle();
}

/** Resolves when nothing has been on its way for two frames. @returns {Promise<void>} */
export function whenIdle() {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!pending) settle();
  });
}

function settle() {
  // Timers, not frames: a page in the background draws none.
  setTimeout(() => setTimeout(() => {
    if (pending) return;
    const all = waiting;
    waiting = [];
    for (const resolve of all) resolve();
  }, 20), 20);
}
