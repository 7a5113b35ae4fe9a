"""Buffers come back when nobody holds them, and not a moment sooner."""

from __future__ import annotations

import gc
import threading
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from realtime.clock import SystemClock
from realtime.frame import Frame, FramePool, Kind
from realtime.mailbox import Mailbox


def frame_of(pool, seq=0):
    lease = pool.lease()
    lease.buffer[:] = seq % 251
    return Frame(lease.buffer, seq, 1000 + seq, lease=lease)


def test_a_buffer_has_the_shape_of_a_frame():
    buffer = FramePool((64, 36)).lease().buffer
    assert buffer.shape == (36, 64, 3)
    assert buffer.dtype == np.uint8
    assert buffer.flags.c_contiguous
    assert buffer.flags.writeable


def test_a_frame_that_is_dropped_gives_its_buffer_back():
    pool = FramePool((32, 16))
    for seq in range(100):
        frame = frame_of(pool, seq)
        assert frame.size == (32, 16)
        del frame
    assert pool.allocated == 1


def test_no_buffer_is_used_again_while_anybody_holds_a_frame_on_it():
    pool = FramePool((32, 16))
    first = frame_of(pool, 7)
    renamed = first.shown_as(Kind.HELD)
    assert renamed.image is first.image
    assert (renamed.kind, renamed.seq, renamed.captured_ns) == (Kind.HELD, 7, 1007)
    address = first.image.ctypes.data
    del first
    gc.collect()
    others = [frame_of(pool, 8) for _ in range(4)]
    assert address not in [frame.image.ctypes.data for frame in others]
    assert (renamed.image == 7).all()
    del renamed
    assert frame_of(pool).image.ctypes.data == address
    assert pool.allocated == 5


def test_frames_outlive_their_pool():
    pool = FramePool((32, 16))
    frame = frame_of(pool, 3)
    del pool
    gc.collect()
    assert (frame.image == 3).all()
    del frame
    gc.collect()


def test_a_frame_cannot_be_changed_by_accident():
    with pytest.raises(FrozenInstanceError):
        frame_of(FramePool((4, 4))).seq = 5


def test_many_threads_share_a_pool_and_no_buffer_is_in_two_hands():
    """A camera, a process and three sinks: each looks whether its picture is still the one it was given."""
    pool, boxes = FramePool((16, 8)), [Mailbox(SystemClock()) for _ in range(4)]
    torn = []

    def sink(box):
        held = []
        while (frame := box.get()) is not None:
            held.append(frame.shown_as(Kind.SWAPPED))
            # A sink that is slow holds the frames before, too.
            held = held[-2:]
            torn.extend(f.seq for f in held if (f.image != f.seq % 251).any())

    threads = [threading.Thread(target=sink, args=(box,), daemon=True) for box in boxes]
    for thread in threads:
        thread.start()
    for seq in range(2000):
        frame = frame_of(pool, seq)
        for box in boxes:
            box.put(frame)
        del frame
    for box in boxes:
        box.close()
    for thread in threads:
        thread.join(20)
    assert torn == []
    # Each sink holds three at most, its box one, and the camera one.
    assert pool.allocated <= 4 * 4 + 1
