// Search of a place: coordinates, or a name of the list of places.

import { transform } from "ol/proj.js";
import { byId } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { base } from "./site.js";

/**
 * Go to what is entered in the search field, and mark it.
 *
 * @param cellAt function of a place in the CRS of the map; the cell size in which to show it
 */
export function goTo(view, cellAt) {
  const field = byId("goto");
  field.addEventListener("input", () => field.setCustomValidity(""));
  byId("search-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { degrees, coordinates, name } = await fetchJson(`${base}/data/place?q=${encodeURIComponent(field.value)}`);
    const place = degrees ? transform(degrees, "CRS:84", view.crs) : coordinates;
    field.setCustomValidity(place ? "" : field.dataset.unknown);
    if (place) view.goTo(place, cellAt(place), name);
    else field.reportValidity();
  });
}
