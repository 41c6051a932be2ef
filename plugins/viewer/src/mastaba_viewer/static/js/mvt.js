// Decoder of vector tiles (Mapbox Vector Tile Specification 2.1), with the protocol buffers it needs.

const decoder = new TextDecoder();

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  /** Call `read(field, this)` for each field; fields that `read` does not consume are skipped. */
  fields(read) {
    while (this.at < this.bytes.length) {
      const key = this.varint();
      const wire = key & 7;
      const before = this.at;
      read(key >>> 3, this);
      if (this.at === before) this.skip(wire);
    }
  }

  varint() {
    let value = 0;
    let factor = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error("truncated vector tile");
      const byte = this.bytes[this.at];
      this.at += 1;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  }

  /** Read a varint as a signed 64-bit integer. */
  signed() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (this.at >= this.bytes.length) throw new Error("truncated vector tile");
      const byte = this.bytes[this.at];
      this.at += 1;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  }

  zigzag() {
    const value = this.varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  float() {
    this.at += 4;
    return this.view.getFloat32(this.at - 4, true);
  }

  double() {
    this.at += 8;
    return this.view.getFloat64(this.at - 8, true);
  }

  block() {
    const length = this.varint();
    this.at += length;
    if (this.at > this.bytes.length) throw new Error("truncated vector tile");
    return this.bytes.subarray(this.at - length, this.at);
  }

  text() {
    return decoder.decode(this.block());
  }

  skip(wire) {
    if (wire === 0) this.varint();
    else if (wire === 1) this.at += 8;
    else if (wire === 2) this.block();
    else if (wire === 5) this.at += 4;
    else throw new Error(`unknown wire type ${wire}`);
  }
}

function packed(bytes) {
  const reader = new Reader(bytes);
  const values = [];
  while (reader.at < bytes.length) values.push(reader.varint());
  return values;
}

function readValue(bytes) {
  let value = null;
  new Reader(bytes).fields((field, reader) => {
    if (field === 1) value = reader.text();
    else if (field === 2) value = reader.float();
    else if (field === 3) value = reader.double();
    else if (field === 4) value = reader.signed();
    else if (field === 5) value = reader.varint();
    else if (field === 6) value = reader.zigzag();
    else if (field === 7) value = reader.varint() !== 0;
  });
  return value;
}

/** Return the parts of a geometry: arrays of [x, y], rings without their closing point. */
function readGeometry(commands) {
  const parts = [];
  let part = null;
  let x = 0;
  let y = 0;
  const delta = (value) => (value >>> 1) ^ -(value & 1);
  for (let at = 0; at < commands.length; ) {
    const command = commands[at] & 7;
    const count = commands[at] >>> 3;
    at += 1;
    for (let i = 0; command !== 7 && i < count; i += 1, at += 2) {
      x += delta(commands[at]);
      y += delta(commands[at + 1]);
      if (command === 1) {
        part = [];
        parts.push(part);
      }
      part?.push([x, y]);
    }
  }
  return parts;
}

function readFeature(bytes) {
  const feature = { tags: [], type: 0, parts: [] };
  new Reader(bytes).fields((field, reader) => {
    if (field === 2) feature.tags = packed(reader.block());
    else if (field === 3) feature.type = reader.varint();
    else if (field === 4) feature.parts = readGeometry(packed(reader.block()));
  });
  return feature;
}

function readTable(bytes) {
  const table = { name: "", extent: 4096, features: [] };
  const keys = [];
  const values = [];
  new Reader(bytes).fields((field, reader) => {
    if (field === 1) table.name = reader.text();
    else if (field === 2) table.features.push(readFeature(reader.block()));
    else if (field === 3) keys.push(reader.text());
    else if (field === 4) values.push(readValue(reader.block()));
    else if (field === 5) table.extent = reader.varint();
  });
  for (const feature of table.features) {
    feature.attributes = [];
    for (let i = 0; i + 1 < feature.tags.length; i += 2) {
      feature.attributes.push([keys[feature.tags[i]], values[feature.tags[i + 1]]]);
    }
  }
  return table;
}

export const POINT = 1;
export const LINE = 2;
export const POLYGON = 3;

/**
 * Return the tables of a tile: [{name, extent, features: [{type, parts, attributes}]}], where
 * coordinates are integers from 0 to extent, and attributes are [name, value] pairs.
 */
export function decodeTile(buffer) {
  const tables = [];
  new Reader(new Uint8Array(buffer)).fields((field, reader) => {
    if (field === 3) tables.push(readTable(reader.block()));
  });
  return tables;
}
