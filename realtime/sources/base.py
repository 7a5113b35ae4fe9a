"""What a source of frames is."""

from __future__ import annotations

from typing import Protocol

from realtime.frame import Frame


class Source(Protocol):
    """Something that gives frames: a camera, a clip, a pattern.

    One thread opens, reads and closes it. A source owns no thread and never paces itself: a device blocks in
    :meth:`read` until it has a picture, and everything else gives the next picture at once; the session keeps
    the time of those by ``fps``.

    Attributes:
        name: What to call it in a message.
        device: Whether it has a pace of its own (a camera) and can be lost and come back.
        size: Width and height of the frames, pixels. Known after :meth:`open`.
        fps: Frames a second. Known after :meth:`open`.
    """

    name: str
    device: bool
    size: tuple[int, int]
    fps: float

    def open(self) -> None:
        """Gets ready to read.

        Raises:
            DeviceError: The device is missing, busy or not permitted.
            UsageError: The file cannot be read.
        """
        ...

    def read(self) -> Frame | None:
        """The next frame, owned by the caller; None at the end.

        Raises:
            DeviceError: The device was lost.
        """
        ...

    def close(self) -> None:
        """Lets everything go; may be called twice, and before :meth:`open`."""
        ...
