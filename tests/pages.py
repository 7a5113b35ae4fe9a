"""The commands on the documentation's pages, and what is said about each.

A fenced block in which a reader finds commands says in its first line who runs them:

- ``sh tested``: ``tests/test_docs.py``, each line by itself, from the checkout;
- ``sh tested-vm``: ``tests/vm/test_docs.py``, the whole block as root on real devices;
- ``sh untested``: nobody.

A block without a word may have doppelcam's commands, which its parser reads in every block, and commands that are
marked elsewhere or run by CI. Text behind ``#``, or behind two spaces, is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTED, TESTED_VM, UNTESTED = "sh tested", "sh tested-vm", "sh untested"
MARKS = (TESTED, TESTED_VM, UNTESTED)
OTHERS = (
    "",
    "python",
    "toml",
    "toml points",
    "ini",
    "json",
    "dockerfile",
    "http",
    "html",
    "css",
    "javascript",
    "mermaid",
    "text",
)
"""What else a block may be called. ``toml`` alone is a configuration, and is loaded as one."""

_NAMES = (
    "sudo apt apt-get dnf pacman zypper brew winget snap flatpak pip pip3 pipx uv python python3 py npm node make g++ "
    "docker podman systemctl systemd-analyze journalctl loginctl modprobe modinfo mokutil dkms rmmod insmod v4l2-ctl "
    "usermod fuser echo tee cp mv rm mkdir cd export curl wget git ffmpeg ffplay ffprobe nginx obs oscsend kill "
    "nvidia-smi ruff mypy pytest $"
)
PROGRAMS = frozenset(_NAMES.split())
"""How a line begins that is a command, in a block without a word."""

_FENCE = re.compile(r"^\s*```(.*)$")
_REMARK = re.compile(r"(^|\s)#.*$|(?<=\S)\s{2,}.*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: ``page`` and ``line`` of its fence, the words behind the fence, its lines."""

    page: str
    line: int
    word: str
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"

    def commands(self) -> Iterator[str]:
        """Its commands, each in one line, without remarks. In a block without a word only what looks like one."""
        for line in "\n".join(self.lines).replace("\\\n", " ").split("\n"):
            # Joined lines are full of spaces that are no remark.
            command = re.sub(r"\s+", " ", line) if line not in self.lines else line.strip()
            command = _REMARK.sub("", command).strip()
            if command and (
                self.word in MARKS or (not self.word and (is_ours(command) or looks_like_a_command(command)))
            ):
                yield command


def looks_like_a_command(line: str) -> bool:
    """In a block that may as well be a drawing."""
    first = line.split()[0]
    return first in PROGRAMS or first.startswith((".ci/", "./")) or first.endswith(".sh")


def is_ours(command: str) -> bool:
    """Whether doppelcam's own parser can read it."""
    return command.split()[0] == "doppelcam"


def blocks(text: str, page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    word, began, lines = "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and not began:
            word, began, lines = fence[1].strip(), number, []
        elif fence:
            yield Block(page, began, word, tuple(lines))
            began = 0
        elif began:
            lines.append(line)
    assert not began, f"{page}:{began}: the block has no end"


def pages() -> list[Path]:
    """Every page for users."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def every_block() -> list[Block]:
    """Of all pages."""
    return [
        block
        for path in pages()
        for block in blocks(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
