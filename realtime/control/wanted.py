"""Whether there is to be a control page, and who can reach it; what serves one is imported only then."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Mapping

from realtime.settings.config import Config


def wants_control(
    config: Config, someone_reads: bool, environ: Mapping[str, str], platform: str = sys.platform
) -> bool:
    """Whether there is to be a control page.

    Args:
        config: What is wanted; ``auto`` means on a desktop where somebody reads the link.
        someone_reads: Whether the program's words go to a terminal.
        environ: The environment: who has a desktop on Linux says so there.
        platform: As in ``sys.platform``.
    """
    if config.offline or config.control == "off":
        return config.control_osc is not None and not config.offline
    if config.control != "auto":
        return True
    if config.control_osc is not None or not is_loopback(config.control_host):
        return True
    desktop = platform in ("win32", "darwin") or any(
        environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return desktop and someone_reads


def is_wide(config: Config) -> bool:
    """Whether the page can be reached from other machines, where what is said can be overheard."""
    return not is_loopback(config.control_host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return ipaddress.ip_address(host).is_loopback
