"""What a sink of frames is."""

from __future__ import annotations

from typing import Protocol

from realtime.frame import Frame


class Sink(Protocol):
    """Something that shows or stores frames: a virtual camera, a file, a page.

    One thread opens, sends and closes it. It owns no cadence: the output thread decides when to send, and
    sends the last frame again when there is no newer one.

    Attributes:
        name: What to call it in a message.
    """

    name: str

    def open(self, size: tuple[int, int], fps: float) -> None:
        """Gets ready to show frames of this size (width, height; both even) at this rate.

        Raises:
            DeviceError: The device is missing, busy, not permitted, or has another size.
            UsageError: The target cannot be written.
        """
        ...

    def send(self, frame: Frame) -> None:
        """Shows one frame; returns when it is out of our hands. The frame is shared: read it only.

        Raises:
            DeviceError: The device or the disk takes no more.
        """
        ...

    def close(self) -> None:
        """Finishes and lets everything go; may be called twice, and before :meth:`open`."""
        ...
