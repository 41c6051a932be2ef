// Requests of scripts.

/** Fetch JSON; the message of an error is that of the service if it has one. */
export async function fetchJson(url, options) {
  const response = await fetch(url, options);
  if (response.ok) return response.json();
  const { error } = await response.json().catch(() => ({}));
  throw new Error(error?.message ?? `${response.status} ${response.statusText}`);
}

/** Fetch a tile; null if it does not exist. */
export async function fetchTile(url, signal) {
  const response = await fetch(url, { signal });
  if (response.status === 204 || response.status === 404) return null;
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/**
 * Return the answer of a native route of the service of elevations about a geometry in degrees.
 *
 * @param more further members of the request
 */
export function askHeights({ elevation, id }, route, geometry, more) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ dataset: id, geometry, ...more });
  return fetchJson(`${elevation}/${route}`, { method: "POST", headers, body });
}
