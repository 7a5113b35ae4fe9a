"""Shared by all tests: nothing a test starts may outlive it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def _open_sockets() -> set[str]:
    """Sockets of this process, by inode; empty where the system does not tell."""
    links = set()
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            links.add(str(entry.readlink()))
        except OSError:
            continue
    return {link for link in links if link.startswith("socket:")}


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test() -> Iterator[None]:
    threads, sockets = set(threading.enumerate()), _open_sockets()
    yield
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        left = [t for t in threading.enumerate() if t not in threads and t.is_alive()]
        open_now = _open_sockets() - sockets
        if not left and not open_now:
            return
        # Only now: what lies in a cycle may still let go, and collecting after every test takes a minute in all.
        gc.collect()
        time.sleep(0.02)
    assert not left, f"threads outlived the test: {[t.name for t in left]}"
    assert not open_now, f"sockets outlived the test: {open_now}"
