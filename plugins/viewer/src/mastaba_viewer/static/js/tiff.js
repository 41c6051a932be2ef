// Decoder of TIFF tiles: little-endian, one strip, no predictor.

const WIDTH = 256;
const HEIGHT = 257;
const COMPRESSION = 259;
const STRIP_OFFSETS = 273;
const CHANNELS = 277;
const STRIP_BYTE_COUNTS = 279;
const SAMPLE_FORMAT = 339;
const SHORT = 3;
const FLOAT = 3;

/** Return {width, height, channels, samples}; samples are a Uint8Array or a Float32Array. */
export async function decodeTiff(buffer) {
  const tags = readTags(new DataView(buffer));
  const width = tags.get(WIDTH);
  const height = tags.get(HEIGHT);
  const channels = tags.get(CHANNELS) ?? 1;
  const isFloat = tags.get(SAMPLE_FORMAT) === FLOAT;
  const size = width * height * channels * (isFloat ? 4 : 1);
  const strip = new Uint8Array(buffer, tags.get(STRIP_OFFSETS), tags.get(STRIP_BYTE_COUNTS));
  const bytes = await unpack(strip, tags.get(COMPRESSION), size);
  const samples = isFloat ? new Float32Array(bytes.buffer, 0, size / 4) : bytes;
  return { width, height, channels, samples };
}

function readTags(view) {
  if (view.getUint32(0, true) !== 0x002a4949) throw new Error("not a TIFF file");
  const tags = new Map();
  const directory = view.getUint32(4, true);
  const count = view.getUint16(directory, true);
  for (let entry = 0; entry < count; entry += 1) {
    const at = directory + 2 + 12 * entry;
    const isShort = view.getUint16(at + 2, true) === SHORT;
    const length = view.getUint32(at + 4, true);
    // More than two short values are stored elsewhere; in these files they are all equal.
    const place = isShort && length > 2 ? view.getUint32(at + 8, true) : at + 8;
    const value = isShort ? view.getUint16(place, true) : view.getUint32(place, true);
    tags.set(view.getUint16(at, true), value);
  }
  return tags;
}

async function unpack(strip, compression, size) {
  switch (compression) {
    case 1:
      return strip.slice(0, size);
    case 5:
      return unpackLzw(strip, size);
    case 8:
      return inflate(strip);
    case 32773:
      return unpackBits(strip, size);
    default:
      throw new Error(`unknown TIFF compression ${compression}`);
  }
}

async function inflate(strip) {
  const stream = new Blob([strip]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpackBits(strip, size) {
  const out = new Uint8Array(size);
  let to = 0;
  let at = 0;
  while (at < strip.length && to < size) {
    const control = strip[at];
    if (control < 128) {
      out.set(strip.subarray(at + 1, at + 2 + control), to);
      to += control + 1;
      at += control + 2;
    } else if (control > 128) {
      out.fill(strip[at + 1], to, to + 257 - control);
      to += 257 - control;
      at += 2;
    } else {
      at += 1;
    }
  }
  return out;
}

const LZW_CLEAR = 256;
const LZW_END = 257;

function unpackLzw(strip, size) {
  const out = new Uint8Array(size);
  // Each code represents a run of the output, given by its start and length.
  const starts = new Uint32Array(4097);
  const lengths = new Uint32Array(4097);
  let next = LZW_END + 1;
  let width = 9;
  let previous = -1;
  let bits = 0;
  let held = 0;
  let to = 0;
  for (const byte of strip) {
    bits = ((bits << 8) | byte) & 0xffffff;
    held += 8;
    if (held < width) continue;
    held -= width;
    const code = (bits >> held) & ((1 << width) - 1);
    if (code === LZW_END) break;
    if (code === LZW_CLEAR) {
      next = LZW_END + 1;
      width = 9;
      previous = -1;
      continue;
    }
    const begin = to;
    if (code < LZW_CLEAR) {
      out[to] = code;
      to += 1;
    } else {
      // A code not yet in the table means the previous run followed by its own first byte.
      const known = code < next;
      const from = known ? starts[code] : previous;
      const length = known ? lengths[code] : begin - previous + 1;
      for (let i = 0; i < length && to < size; i += 1, to += 1) out[to] = out[from + i];
    }
    if (previous >= 0 && next < 4096) {
      starts[next] = previous;
      lengths[next] = begin - previous + 1;
      next += 1;
    }
    previous = begin;
    // In TIFF, the code width increases one code early.
    if (next >= 2047) width = 12;
    else if (next >= 1023) width = 11;
    else if (next >= 511) width = 10;
  }
  return out;
}
