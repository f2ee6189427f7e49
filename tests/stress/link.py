"""A TCP proxy between the workers and their scheduler, which can be slowed down and interrupted."""

import asyncio
import contextlib
import threading


class Link:
    """Forwards connections to a port of this machine. It runs in a thread of its own."""

    def __init__(self):
        self.target = 0
        self.delay = 0.0
        self.is_down = False
        self._writers = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port = server.sockets[0].getsockname()[1]

    async def _listen(self):
        return await asyncio.start_server(self._connect, "127.0.0.1", 0)

    async def _connect(self, reader, writer):
        self._writers.add(writer)
        try:
            if self.is_down:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(far_writer)
            await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))
            self._writers.discard(far_writer)
        except OSError:
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _forward(self, reader, writer):
        with contextlib.suppress(OSError):
            while content := await reader.read(1 << 16):
                await asyncio.sleep(self.delay)
                writer.write(content)
                await writer.drain()
        writer.close()

    def interrupt(self):
        """Break all connections, and refuse new ones until `restore` is called."""
        self.is_down = True
        self._loop.call_soon_threadsafe(self._break)

    def _break(self):
        for writer in self._writers:
            writer.transport.abort()

    def restore(self):
        """Forward again, without a delay."""
        self.is_down = False
        self.delay = 0.0
