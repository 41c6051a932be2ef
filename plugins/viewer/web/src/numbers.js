/** Format a number with three significant digits, without exponent. */
export function threeDigits(value) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(12, digits));
}
