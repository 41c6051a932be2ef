/** Format a number with a number of decimals; numbers that round to zero have no sign. */
export function fixed(value, digits) {
  return (Number(value.toFixed(digits)) + 0).toFixed(digits);
}

/** Format a number with three significant digits, without exponent. */
export function threeDigits(value) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(12, digits));
}
