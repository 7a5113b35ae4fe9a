"""Sound through PyAV: from a file, at the speed at which it is heard, or from a microphone."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from engines.errors import DeviceError, UsageError
from realtime.audio.base import CHANNELS, RATE, AudioBlock, Samples
from realtime.clock import Clock, StopFlag

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.container import InputContainer

_BLOCK: Final = RATE // 100
_SYSTEMS: Final = {
    "linux": ("alsa", "{}", "default"),
    "darwin": ("avfoundation", ":{}", "0"),
    "win32": ("dshow", "audio={}", ""),
}
"""For each system: FFmpeg's input, how it is told a device, and the usual device."""


class FileAudio:
    """A file, again and again, at the speed at which it is heard. See :class:`~realtime.audio.base.AudioSource`.

    Args:
        path: Whatever FFmpeg reads and has sound in it.
        clock: Time.
        stop: Ends the waits.
    """

    def __init__(self, path: Path, clock: Clock, stop: StopFlag) -> None:
        self.name = f"audio file {path}"
        self._path, self._clock, self._stop = path, clock, stop
        self._container: InputContainer | None = None
        self._samples: Iterator[Samples] = iter(())
        self._start_ns, self._given = 0, 0

    def open(self) -> None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        self._rewind()
        self._start_ns, self._given = self._clock.now_ns(), 0

    def read(self) -> AudioBlock | None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        samples = self._next()
        if samples is None:
            self._rewind()
            samples = self._next()
            if samples is None:
                raise UsageError(f"There is no sound in {self._path}.", "Use a file that has some.")
        captured = self._start_ns + self._given * 1_000_000_000 // RATE
        self._given += len(samples)
        if self._stop.wait_until(self._start_ns + self._given * 1_000_000_000 // RATE):
            return None
        return AudioBlock(samples, captured)

    def close(self) -> None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        container, self._container = self._container, None
        self._samples = iter(())
        if container is not None:
            container.close()

    def _next(self) -> Samples | None:
        import av

        try:
            return next(self._samples, None)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise UsageError(
                f"The sound of {self._path} cannot be read: {error}.", "Use another file."
            ) from error

    def _rewind(self) -> None:
        self.close()
        import av

        if not self._path.is_file():
            raise UsageError(f"There is no file {self._path} to take sound from.", "Check the path.")
        try:
            self._container = av.open(f"file:{self._path}")
        except (av.FFmpegError, OSError, ValueError) as error:
            raise UsageError(
                f"{self._path} is no file that has sound: {error}.", "Use a WAV, MP3 or MP4."
            ) from error
        if not self._container.streams.audio:
            raise UsageError(f"There is no sound in {self._path}.", "Use a file that has some.")
        self._samples = _blocks(self._container, _BLOCK)


class Microphone:
    """A microphone. See :class:`~realtime.audio.base.AudioSource`.

    A block was heard when it could be read, less its own length: drivers do not tell more that can be compared
    with the times of frames.

    Args:
        name: As the system calls it; None for the usual one.
        clock: Time.
        stop: Ends the reading.
        platform: Which system.
    """

    def __init__(self, name: str | None, clock: Clock, stop: StopFlag, platform: str = sys.platform) -> None:
        self.name = f"microphone {name}" if name else "microphone"
        self._asked, self._clock, self._stop, self._platform = name, clock, stop, platform
        self._container: InputContainer | None = None
        self._samples: Iterator[Samples] = iter(())

    def open(self) -> None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        self.close()
        import av

        try:
            form, pattern, usual = _SYSTEMS[self._platform]
        except KeyError:
            raise DeviceError(
                f"There is no way to a microphone on {self._platform}.", "Use --audio file:PATH."
            ) from None
        device = self._asked or usual
        if not device:
            raise DeviceError("Which microphone?", "Name it: --audio mic:NAME")
        try:
            # The second is how long it may give nothing at all.
            self._container = av.open(pattern.format(device), format=form, timeout=(5.0, 2.0))
        except (av.FFmpegError, OSError, ValueError) as error:
            raise DeviceError(
                f"The {self.name} cannot be opened: {error}.",
                "See what there is: arecord -L" if form == "alsa" else "Check its name and the permission.",
            ) from error
        self._samples = _blocks(self._container, None)

    def read(self) -> AudioBlock | None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        import av

        if self._stop:
            return None
        try:
            samples = next(self._samples, None)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise DeviceError(f"The {self.name} was lost: {error}.", "Plug it in again.") from error
        if samples is None:
            raise DeviceError(f"The {self.name} ended.", "Plug it in again.")
        return AudioBlock(samples, self._clock.now_ns() - len(samples) * 1_000_000_000 // RATE)

    def close(self) -> None:
        """See :class:`~realtime.audio.base.AudioSource`."""
        container, self._container = self._container, None
        self._samples = iter(())
        if container is not None:
            with contextlib.suppress(Exception):
                container.close()


def _blocks(container: InputContainer, size: int | None) -> Iterator[Samples]:
    """The sound of a container as blocks; of ``size`` samples each, or as they come."""
    from av.audio.frame import AudioFrame
    from av.audio.resampler import AudioResampler

    resampler = AudioResampler(format="flt", layout="stereo", rate=RATE, frame_size=size)
    for frame in container.decode(audio=0):
        assert isinstance(frame, AudioFrame)
        frame.pts = None
        for part in resampler.resample(frame):
            yield _as_samples(part)
    for part in resampler.resample(None):
        yield _as_samples(part)


def _as_samples(frame: AudioFrame) -> Samples:
    return np.ascontiguousarray(frame.to_ndarray().reshape(-1, CHANNELS), np.float32)
