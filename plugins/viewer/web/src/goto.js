// Search of a place: coordinates, or a name of the list of places.

import { byId } from "./dom.js";
import { fetchPlaces } from "./site.js";

const NUMBERS = /^\s*(-?\d+(?:\.\d+)?)\s*[,;\s]\s*(-?\d+(?:\.\d+)?)\s*$/;

/** Go to what is entered in the search field. */
export function goTo(view) {
  const form = byId("search-form");
  const field = byId("goto");
  field.addEventListener("focus", fillNames, { once: true });
  field.addEventListener("input", () => field.setCustomValidity(""));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const place = await find(field.value, view);
    field.setCustomValidity(place ? "" : field.dataset.unknown);
    if (place) view.goTo(place);
    else field.reportValidity();
  });
}

async function fillNames() {
  const places = await fetchPlaces();
  byId("places").replaceChildren(...places.map(({ name }) => new Option(name, name)));
}

/** Return a position in the CRS of the map, or null. Degrees are latitude, longitude. */
async function find(text, view) {
  const numbers = text.match(NUMBERS)?.slice(1).map(Number);
  if (numbers) {
    const [one, other] = numbers;
    const isDegrees = Math.abs(one) <= 90 && Math.abs(other) <= 180;
    return isDegrees ? view.fromDegrees([other, one]) : numbers;
  }
  const wanted = text.trim().toLowerCase();
  const places = await fetchPlaces();
  const names = places.map((place) => [place.name.toLowerCase(), place]);
  const found = names.find(([name]) => name === wanted) ?? names.find(([name]) => wanted && name.startsWith(wanted));
  return found ? view.fromDegrees([found[1].longitude, found[1].latitude]) : null;
}
