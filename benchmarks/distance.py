"""A TCP forwarder that delays what it forwards, like a network to a distant server."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distance", description=__doc__)
    parser.add_argument("listen", help="HOST:PORT")
    parser.add_argument("target", help="HOST:PORT")
    parser.add_argument("milliseconds", type=float, help="there and back")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.listen, arguments.target, arguments.milliseconds / 2000))


async def _serve(listen: str, target: str, delay: float) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(*_address(target))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, other_writer, delay), _copy(other_reader, writer, delay))

    server = await asyncio.start_server(forward, *_address(listen))
    async with server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Write each piece after the delay, in order, until the sender closes the connection."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        with suppress(OSError):
            while True:
                due, piece = await pieces.get()
                await asyncio.sleep(due - loop.time())
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()

    writing = asyncio.create_task(write())
    with suppress(OSError):
        while piece := await reader.read(1 << 18):
            pieces.put_nowait((loop.time() + delay, piece))
    pieces.put_nowait((loop.time() + delay, b""))
    await writing


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
