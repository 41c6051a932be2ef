// Fetching of tiles that scripts decode.

/** Fetch a tile; null if it does not exist. */
export async function fetchTile(url, signal) {
  const response = await fetch(url, { signal });
  if (response.status === 204 || response.status === 404) return null;
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}
