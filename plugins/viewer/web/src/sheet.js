// The panel of a narrow screen: a sheet at the bottom, which a handle opens and closes.

import { byId } from "./dom.js";

/** Pixels of a movement that is not a tap. */
const TAP = 6;

export function bindSheet() {
  const [panel, handle] = [byId("panel"), byId("sheet")];
  let start = null;

  const set = (isOpen) => {
    panel.classList.toggle("open", isOpen);
    panel.style.height = "";
    handle.setAttribute("aria-expanded", isOpen);
    if (!isOpen) panel.scrollTop = 0;
  };
  handle.addEventListener("pointerdown", (event) => {
    start = { y: event.clientY, height: panel.clientHeight, moved: 0 };
    handle.setPointerCapture(event.pointerId);
  });
  handle.addEventListener("pointermove", ({ clientY }) => {
    if (!start) return;
    start.moved = start.y - clientY;
    if (Math.abs(start.moved) > TAP) panel.style.height = `${start.height + start.moved}px`;
  });
  const release = () => {
    if (start && Math.abs(start.moved) > TAP) set(start.moved > 0);
  };
  handle.addEventListener("pointerup", release);
  handle.addEventListener("pointercancel", release);
  handle.addEventListener("click", () => {
    if (!start || Math.abs(start.moved) <= TAP) set(!panel.classList.contains("open"));
    start = null;
  });
  // By keyboard, the focus may move to what is hidden.
  panel.addEventListener("focusin", ({ target }) => {
    if (target !== handle && !target.closest(".search-form")) set(true);
  });
}
