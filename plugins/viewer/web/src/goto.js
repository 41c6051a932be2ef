// Search of a place: coordinates, or a name of the list of places.

import { transform } from "ol/proj.js";
import { byId } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { base } from "./site.js";

/** Go to what is entered in the search field. */
export function goTo(view) {
  const field = byId("goto");
  field.addEventListener("input", () => field.setCustomValidity(""));
  byId("search-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { degrees, coordinates } = await fetchJson(`${base}/data/place?q=${encodeURIComponent(field.value)}`);
    const place = degrees ? transform(degrees, "CRS:84", view.crs) : coordinates;
    field.setCustomValidity(place ? "" : field.dataset.unknown);
    if (place) view.map.getView().animate({ center: place, duration: 250 });
    else field.reportValidity();
  });
}
