// Requests to the service of elevations.

/** Return the answer of a native route about a geometry in degrees. */
export async function ask({ elevation, id }, route, geometry) {
  const response = await fetch(`${elevation}/${route}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ dataset: id, geometry }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error?.message ?? response.status);
  return answer;
}
