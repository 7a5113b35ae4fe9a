"""From ``--audio`` to what is heard."""

from __future__ import annotations

from pathlib import Path

from engines.errors import UsageError
from realtime.audio.decode import FileAudio, Microphone
from realtime.audio.feed import AudioFeed
from realtime.clock import Clock

FORMS = "mic[:NAME], file:PATH, none"


def open_audio(spec: str, clock: Clock) -> AudioFeed | None:
    """What a specification names; opened once somebody listens.

    Args:
        spec: ``mic[:NAME]``, ``file:PATH`` or ``none``.
        clock: Time.

    Returns:
        None for ``none``.

    Raises:
        UsageError: It names nothing of that.
    """
    kind, colon, rest = spec.strip().partition(":")
    rest = rest.strip()
    if kind == "none" and not colon:
        return None
    if kind == "mic" and bool(colon) == bool(rest):
        return AudioFeed(lambda stop: Microphone(rest or None, clock, stop), clock)
    if kind == "file" and rest:
        path = Path(rest).expanduser()
        if not path.is_file():
            raise UsageError(f"There is no file {path} to take sound from.", "Check the path.")
        return AudioFeed(lambda stop: FileAudio(path, clock, stop), clock)
    raise UsageError(f"There is no audio {spec!r}.", f"There are: {FORMS}.")
