// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const large = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });
const RAISED = Object.fromEntries([..."-0123456789"].map((letter, i) => [letter, [..."⁻⁰¹²³⁴⁵⁶⁷⁸⁹"][i]]));
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const minute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** @param {number} value */
export const count = (value) => whole.format(value);

/** @param {number} value */
export const compact = (value) => (value < 10_000 ? whole.format(value) : short.format(value));

/** @param {number} value @param {string} one @param {string} [many] */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** @param {number} share From 0 to 1. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
}

/** @param {number | null | undefined} value */
export function real(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value), sign = value < 0 ? "−" : "";
  if (size && (size < 1e-3 || size >= 1e15)) return `${sign}${powerOfTen(size)}`;
  return sign + (size < 1e6 ? significant : large).format(size);
}

/** Such as 4.49×10⁻⁶. @param {number} size */
function powerOfTen(size) {
  const [digits, power] = size.toExponential(2).split("e");
  return `${Number(digits)}×10${[...power.replace("+", "")].map((letter) => RAISED[letter]).join("")}`;
}

/** @param {number} seconds Since 1970. */
export const date = (seconds) => day.format(new Date(seconds * 1000));
export const moment = (seconds) => minute.format(new Date(seconds * 1000));

/** The first and the last of some times, in as few words as will do. @param {{first: number, last: number}} times */
export function span({ first, last }) {
  if (first === null || last === null) return "–";
  if (last - first < 60) return moment(first);
  const [from, to] = last - first < 2 * 86400 ? [moment(first), moment(last)] : [date(first), date(last)];
  return `${from} – ${to}`;
}
