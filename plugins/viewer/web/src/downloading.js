// Downloads of an area: addresses, estimates and jobs, as the services describe them.

import { number, t } from "./texts.js";

const REL = "http://www.opengis.net/def/rel/ogc/1.0";
/** Milliseconds between two questions about a job: each next time longer, up to the last one. */
const PAUSES = [300, 500, 1000, 2000, 5000];
const DIGITS = 12;

/** Why a service refuses a request: the status, what it says, and seconds after which to try again. */
export class Refusal extends Error {
  constructor(status, problem = {}, wait = NaN) {
    super(problem.detail ?? problem.title ?? String(status));
    Object.assign(this, { status, problem, wait });
  }
}

/**
 * Fetch from a service.
 *
 * @throws Refusal for an answer with an error, and with the status 0 if there is no answer
 */
async function ask(url, { signal, ...options } = {}) {
  const response = await fetch(url, { signal, ...options }).catch((error) => {
    throw signal?.aborted ? error : new Refusal(0);
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({ detail: `${response.status} ${response.statusText}` }));
  throw new Refusal(response.status, problem, Number(response.headers.get("Retry-After") ?? NaN));
}

const askJson = async (url, options) => (await ask(url, options)).json();

const post = (inputs, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ inputs }),
  signal,
});

const linkOf = ({ links }, rel) => links.find((link) => link.rel === rel)?.href;

const processes = new Map();

/** Return the address of an operation of a process, which its description links to. */
async function operation({ process }, rel) {
  const accept = { headers: { Accept: "application/json" } };
  if (!processes.has(process)) processes.set(process, await askJson(process, accept));
  return linkOf(processes.get(process), rel);
}

const rounded = (value) => Number(value.toPrecision(DIGITS));

/**
 * Return the inputs of a job.
 *
 * @param box in the CRS; an area (GeoJSON in the CRS) replaces it if the process takes one
 * @param levels identifiers; none for all
 * @param mask whether the file also says which cells have data
 */
export function inputsOf({ inputs, takes = [] }, { box, area, crs, levels, mask }) {
  const place = area && takes.includes("area") ? { area } : { bbox: box.map(rounded) };
  return { ...inputs, ...place, crs, ...(levels.length && { levels }), ...(mask && { mask }) };
}

/** Return the address of a file that needs no job. */
export function addressOf({ template }, { box: [xmin, ymin, xmax, ymax], levels: [level], mask }) {
  const values = { xmin, ymin, xmax, ymax };
  return `${template}${mask ? "&mask=true" : ""}`.replace(/\{(\w+)\}/g, (_, name) =>
    name === "level" ? encodeURIComponent(level) : rounded(values[name]),
  );
}

/** Return the bytes of a file that needs no job; null if they are not known before it is sent. */
export async function sizeOf(address, signal) {
  const enough = new AbortController();
  signal.addEventListener("abort", () => enough.abort());
  const { status, headers } = await ask(address, { headers: { Range: "bytes=0-0" }, signal: enough.signal });
  enough.abort();
  const size = status === 206 ? headers.get("Content-Range")?.split("/")[1] : headers.get("Content-Length");
  return size ? Number(size) : null;
}

/** Return what a job would write: see the service. */
export async function estimateOf(download, inputs, signal) {
  return askJson(await operation(download, "estimate"), post(inputs, signal));
}

/** Order a job; return its status. */
export async function order(download, inputs) {
  return askJson(await operation(download, `${REL}/execute`), post(inputs));
}

/** Cancel a job; return its status. */
export const cancel = (job) => askJson(linkOf(job, "self"), { method: "DELETE" });

/** Return the address of the page of a job. */
export const pageOf = (job) => linkOf(job, "alternate");

export const isOver = ({ status }) => status !== "accepted" && status !== "running";

/**
 * Ask for the status of a job until it is over. Without an answer, the question is repeated.
 *
 * @param show function of each status
 * @returns the result {href, title, length} of a job that was successful, or else null
 */
export async function follow(job, show, pauses = PAUSES) {
  let status = job;
  for (let turn = 0; !isOver(status); turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, pauses[Math.min(turn, pauses.length - 1)]));
    try {
      status = await askJson(linkOf(job, "self"));
    } catch (error) {
      if (error.status && error.status < 500) throw error;
    }
    show(status);
  }
  if (status.status !== "successful") return null;
  const results = await askJson(linkOf(status, `${REL}/results`));
  return Object.values(results).find(({ href }) => href);
}

/** Return bytes as text, in decimal units. */
export function sizeText(bytes) {
  const units = t("byte-units").split(" ");
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(bytes, 1)) / 3)));
  const value = bytes / 1000 ** power;
  return `${number(value, power && value < 100 ? 1 : 0)} ${units[power]}`;
}

/** Return a duration as text. */
export function timeText(seconds) {
  if (seconds < 90) return t("seconds", { count: number(Math.max(1, seconds)) });
  return seconds < 5400 ? t("minutes", { count: number(seconds / 60) }) : t("hours", { count: number(seconds / 3600, 1) });
}

export function estimateText({ tiles, bytes, seconds }) {
  const count = t(tiles === 1 ? "one-tile" : "count-tiles", { count: number(tiles) });
  return t("estimate", { tiles: count, size: sizeText(bytes), time: timeText(seconds) });
}

/** Return which limit an estimate exceeds, as text. */
export function excessText({ estimate, limits }) {
  const name = Object.keys(limits).find((key) => estimate[key] > limits[key]);
  return tooLarge(name, estimate[name], limits[name]);
}

function tooLarge(name, size, limit) {
  const shown = (count) => (name === "bytes" ? sizeText(count) : t(`count-${name}`, { count: number(count) }));
  return t("too-large", { size: shown(size), limit: shown(limit) });
}

/** Seconds after which to try again, if the service does not say so. */
const USUAL_WAIT = 60;
const WAITING = { 429: "too-many", 503: "server-busy", 507: "no-room" };

/** Return in plain words why a service refuses a request. */
export function refusalText({ status, problem = {}, wait, message }) {
  if (status === 0) return t("no-answer");
  if (status === 413) {
    const name = ["bytes", "tiles", "pixels"].find((key) => Number.isFinite(problem[key]));
    return name ? tooLarge(name, problem[name], problem.limit) : t("too-large-plain");
  }
  const key = WAITING[status];
  if (key) return t(key, { time: timeText(Number.isFinite(wait) ? wait : USUAL_WAIT) });
  return t("download-failed", { message });
}

/** Return a text as one word of a shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Return the command that downloads a file, and goes on where an earlier attempt has ended. */
export const curl = (address, name) => `curl -g -C - -o ${quoted(name)} ${quoted(address)}`;
