import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { Times } from "../src/times.js";

const settled = () => new Promise(setImmediate);

test("after quick clicks on play, one series of values is shown", async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const elements = {};
  document.getElementById = (id) => (elements[id] ??= { value: 0, addEventListener() {}, setAttribute() {} });
  const shown = [];
  class Playing extends Times {
    prefetch() {}
    drawn() {}
    show(position) {
      shown.push(position);
      this.slider.value = position;
      return true;
    }
  }
  const times = new Playing({ layer: { times: { texts: ["1950", "1978", "2023"] } } });
  times.play();
  times.stop();
  times.play();
  for (let turn = 0; turn < 4; turn++) {
    await settled();
    mock.timers.tick(1200);
  }
  await settled();
  times.stop();
  assert.deepEqual(shown, [1, 2, 0, 1]);
});
