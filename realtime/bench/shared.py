"""A picture in memory that two processes share: a virtual camera for machines that have none."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.errors import DeviceError
from engines.faces import Image
from realtime.frame import Frame
from realtime.sinks.i420 import I420, require_showable

_HEAD: Final = 4096
_MAGIC: Final = 0x31_4C_50_50_4F_44
_WIDTH, _HEIGHT, _SEQ, _STOP, _READY = range(1, 6)
_LARGEST: Final = 7680 * 4320 * 3 // 2


class SharedPicture:
    """The memory: a head of numbers and one I420 picture. One process writes the picture, another reads it.

    The number of the picture is odd while it is being written, so a reader knows what it must not use.

    Args:
        path: The file behind it.
        writer: Make it, and remove it when closed.

    Raises:
        DeviceError: It cannot be made, or is not one.
    """

    def __init__(self, path: Path, writer: bool = False) -> None:
        self._path, self._writer = path, writer
        try:
            flags = os.O_RDWR | ((os.O_CREAT | os.O_EXCL) if writer else 0) | getattr(os, "O_BINARY", 0)
            handle = os.open(path, flags, 0o600)
            try:
                if writer:
                    os.truncate(handle, _HEAD + _LARGEST)
                self._map = mmap.mmap(handle, _HEAD + _LARGEST)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"The shared memory {path} cannot be used: {error}.", "Free some memory."
            ) from error
        self._head: NDArray[np.int64] = np.frombuffer(self._map, np.int64, 8)
        self._data: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8, _LARGEST, _HEAD)
        if writer:
            self._head[0] = _MAGIC
        elif self._head[0] != _MAGIC:
            raise DeviceError(f"{path} is no shared picture.", "Start it again.")

    @classmethod
    def make(cls) -> SharedPicture:
        """A new one, in memory where the system has a place for that."""
        memory = Path("/dev/shm")  # noqa: S108
        folder = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        return cls(folder / f"doppelcam-{os.getpid()}-{os.urandom(6).hex()}", writer=True)

    @property
    def path(self) -> Path:
        """The file behind it."""
        return self._path

    def write(self, picture: Image) -> None:
        """Puts an I420 picture, (height·3/2, width) uint8, in place of the last one."""
        rows, width = picture.shape
        self._head[_SEQ] += 1
        self._head[_WIDTH], self._head[_HEIGHT] = width, rows * 2 // 3
        np.copyto(self._data[: picture.size].reshape(picture.shape), picture)
        self._head[_SEQ] += 1

    def seq(self) -> int:
        """Twice the number of pictures written; odd while one is being written."""
        return int(self._head[_SEQ])

    def rows(self, least: int) -> Image | None:
        """Brightness of the upper rows.

        Args:
            least: How many rows, at least; a tenth of the width if that is more.

        Returns:
            (rows, width) uint8, a copy; None if a picture was written meanwhile, or there is none.
        """
        before = self.seq()
        width, height = int(self._head[_WIDTH]), int(self._head[_HEIGHT])
        if before % 2 or not 0 < width <= 7680 or not 0 < height <= 4320:
            return None
        count = min(height, max(least, width // 10))
        copied = self._data[: count * width].reshape(count, width).copy()
        return copied if self.seq() == before else None

    @property
    def stopped(self) -> bool:
        """Whether the reader shall end."""
        return bool(self._head[_STOP])

    def stop(self) -> None:
        """Tells the reader to end."""
        self._head[_STOP] = 1

    @property
    def ready(self) -> bool:
        """Whether somebody reads."""
        return bool(self._head[_READY])

    def be_ready(self) -> None:
        """Says that somebody reads."""
        self._head[_READY] = 1

    def close(self) -> None:
        """Lets it go; the writer also removes it. May be called twice."""
        if not hasattr(self, "_head"):
            return
        del self._head, self._data
        self._map.close()
        if self._writer:
            self._path.unlink(missing_ok=True)


class SharedSink:
    """Does a virtual camera's work into shared memory. See :class:`~realtime.sinks.base.Sink`.

    Args:
        picture: Where to; belongs to the caller.
    """

    name = "shared memory"

    def __init__(self, picture: SharedPicture) -> None:
        self._picture = picture
        self._i420: I420 | None = None

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        require_showable(self.name, size, fps)
        self._i420 = I420(size)

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        if self._i420 is None:
            raise ValueError("send() before open()")
        self._picture.write(self._i420.of(frame))

    def close(self) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self._i420 = None
