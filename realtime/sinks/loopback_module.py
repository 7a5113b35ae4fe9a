"""Why there is no virtual camera on a Linux machine: what is missing of the module, and the line that mends it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from realtime.sinks.loopback_faults import LOAD_MODULE, RELOAD_MODULE

_INSTALL: Final = {
    "debian": "sudo apt install v4l2loopback-dkms linux-headers-{release}",
    "ubuntu": "sudo apt install v4l2loopback-dkms linux-headers-{release}",
    "arch": "sudo pacman -S v4l2loopback-dkms linux-headers",
    "fedora": "sudo dnf install akmod-v4l2loopback   (from RPM Fusion)",
    "suse": "sudo zypper install v4l2loopback-kmp-default",
}
_AT_EVERY_START: Final = (
    "echo v4l2loopback | sudo tee /etc/modules-load.d/v4l2loopback.conf && "
    "echo 'options v4l2loopback exclusive_caps=1 card_label=\"doppelcam\"' | "
    "sudo tee /etc/modprobe.d/v4l2loopback.conf"
)
_SIGNATURE: Final = b"~Module signature appended~\n"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the module.

    Attributes:
        what: One sentence.
        fix: The line that mends it.
    """

    what: str
    fix: str


class LoopbackModule:
    """What this machine has of v4l2loopback. Files are read and nothing is changed.

    Args:
        root: Where the machine's files are.
        release: Of the running kernel, as ``uname -r`` says.
    """

    def __init__(self, root: Path = Path("/"), release: str = "") -> None:
        self._root = root
        self._release = release or platform.release()

    @property
    def version(self) -> str:
        """Of the loaded module; empty when none is loaded."""
        return _read(self._root / "sys/module/v4l2loopback/version").strip()

    def why_none(self) -> Finding:
        """Why there is no virtual camera, as far as files tell."""
        if "microsoft" in self._release.casefold():
            return Finding(
                "The kernel of WSL has neither cameras nor virtual cameras.",
                "Run doppelcam in Windows itself.",
            )
        if (self._root / ".dockerenv").exists() or (self._root / "run/.containerenv").exists():
            return Finding(
                "This container was given no virtual camera.",
                f"On the machine itself: {LOAD_MODULE}, then start the container with --device /dev/videoN",
            )
        if (self._root / "sys/module/v4l2loopback").exists():
            return Finding("The module v4l2loopback is loaded and has no device.", RELOAD_MODULE)
        built = self._built()
        if self._release not in built:
            return self._not_for_this_kernel(sorted(built))
        if self._secure_boot() and not _is_signed(built[self._release]):
            return Finding(
                "Secure Boot is on, and the module v4l2loopback has no signature: the kernel will refuse it.",
                "sudo mokutil --import /var/lib/dkms/mok.pub, start anew and choose “Enroll MOK”; "
                f"then: sudo dkms autoinstall --force && {LOAD_MODULE}",
            )
        return Finding("The module v4l2loopback is there and not loaded.", LOAD_MODULE)

    def after_a_restart(self) -> Finding | None:
        """What is missing for the virtual camera to be there at the next start; None when nothing is."""
        loads = "".join(
            _read(path) for folder in ("etc/modules-load.d", "usr/lib/modules-load.d")
            for path in sorted((self._root / folder).glob("*.conf"))
        ) + _read(self._root / "etc/modules")  # fmt: skip
        if _says(loads, "v4l2loopback"):
            return None
        return Finding("The virtual camera will be gone after a restart.", _AT_EVERY_START)

    def _built(self) -> dict[str, Path]:
        """The module's file for every kernel that has one, by its release."""
        found: dict[str, Path] = {}
        for modules in (self._root / "lib/modules", self._root / "usr/lib/modules"):
            try:
                kernels = sorted(modules.iterdir())
            except OSError:
                continue
            for kernel in kernels:
                for path in kernel.rglob("v4l2loopback.ko*"):
                    found.setdefault(kernel.name, path)
        return found

    def _not_for_this_kernel(self, others: list[str]) -> Finding:
        if others:
            return Finding(
                f"The module v4l2loopback was built for the kernel {others[-1]}, and {self._release} runs.",
                f"Restart, or: sudo dkms autoinstall -k {self._release}",
            )
        return Finding(
            "The module v4l2loopback is not installed.", f"{self._how_to_install()}, then: {LOAD_MODULE}"
        )

    def _how_to_install(self) -> str:
        about = dict(
            line.split("=", 1) for line in _read(self._root / "etc/os-release").splitlines() if "=" in line
        )
        names = f"{about.get('ID', '')} {about.get('ID_LIKE', '')}".replace('"', "").split()
        line = next((_INSTALL[name] for name in names if name in _INSTALL), "Install v4l2loopback (DKMS)")
        return line.format(release=self._release)

    def _secure_boot(self) -> bool:
        for path in (self._root / "sys/firmware/efi/efivars").glob("SecureBoot-*"):
            try:
                # Four bytes of attributes, then the value.
                return path.read_bytes()[4:5] == b"\1"
            except OSError:
                continue
        return False


def _is_signed(module: Path) -> bool:
    """Whether a module carries a signature; a compressed one is believed to."""
    if module.suffix != ".ko":
        return True
    try:
        with module.open("rb") as file:
            file.seek(-len(_SIGNATURE), os.SEEK_END)
            return file.read() == _SIGNATURE
    except OSError:
        return False


def _says(text: str, word: str) -> bool:
    return any(line.strip() == word for line in text.splitlines())


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip() + "\n" if path.is_file() else ""
    except OSError:
        return ""
