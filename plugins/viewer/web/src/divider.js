// The divider between the two sides of a map, moved by dragging or with the keyboard.

const STEP = 0.02;
const LEAP = 0.1;

export class Divider {
  /**
   * @param handle element with the role "separator"
   * @param stage element that it divides
   * @param onMove called with the fraction of the width to its left
   */
  constructor(handle, stage, onMove) {
    this.handle = handle;
    this.stage = stage;
    this.onMove = onMove;
    this.part = 0.5;
    handle.addEventListener("pointerdown", (event) => this.grab(event));
    handle.addEventListener("pointermove", (event) => this.drag(event));
    handle.addEventListener("keydown", (event) => this.press(event));
  }

  /** Move the divider to a fraction of the width. */
  moveTo(part) {
    this.part = Math.min(1, Math.max(0, part));
    this.handle.style.left = `${100 * this.part}%`;
    this.handle.setAttribute("aria-valuenow", Math.round(100 * this.part));
    this.handle.setAttribute("aria-valuetext", `${Math.round(100 * this.part)} % left`);
    this.onMove(this.part);
  }

  grab(event) {
    this.handle.setPointerCapture(event.pointerId);
    this.handle.focus({ preventScroll: true });
    event.preventDefault();
  }

  drag(event) {
    if (!this.handle.hasPointerCapture(event.pointerId)) return;
    const { left, width } = this.stage.getBoundingClientRect();
    this.moveTo((event.clientX - left) / width);
  }

  press(event) {
    const steps = {
      ArrowLeft: this.part - STEP,
      ArrowRight: this.part + STEP,
      PageDown: this.part - LEAP,
      PageUp: this.part + LEAP,
      Home: 0,
      End: 1,
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.moveTo(steps[event.key]);
  }
}
