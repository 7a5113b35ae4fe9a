"""How a session ends, what it says of errors, and what is changed while it runs."""

import threading

import pytest

from engines.errors import DeviceError, EngineError, PhotoError, UsageError
from realtime.frame import Kind
from tests.realtime.fakes import MS, SECOND, FakeSwapper
from tests.realtime.live import Live, no_threads


def test_a_frame_nobody_judged_ends_the_session_with_a_slate():
    live = Live()
    guard = live.session._guard
    good, calls = guard.judge, []

    def careless(outcome, now_ns):
        calls.append(now_ns)
        return outcome.frame if len(calls) > 30 else good(outcome, now_ns)

    guard.judge = careless
    error = live.run()
    assert error.exit_code == 1
    assert "nobody had judged" in str(error)
    assert not any(s.bare for s in live.sent)
    assert live.sent[-1].kind is Kind.SLATE
    assert no_threads()


@pytest.mark.parametrize(
    ("breaking", "kind", "code"),
    [
        ("camera open", DeviceError, 3),
        ("camera back", DeviceError, 3),
        ("file open", UsageError, 2),
        ("engine open", EngineError, 4),
        ("engine run", EngineError, 4),
        ("sink open", DeviceError, 3),
        ("sink send", DeviceError, 3),
        ("a bug in a sink", ZeroDivisionError, None),
    ],
)
def test_every_error_reaches_the_caller_as_what_it_is_and_all_is_closed(breaking, kind, code):
    def fail(error):
        def raiser(*args):
            raise error

        return raiser

    gone = {"camera open": ((0, SECOND),), "camera back": ((SECOND, 1 << 62),)}.get(breaking, ())
    swap = (lambda n: EngineError("out of memory")) if breaking == "engine run" else (lambda n: None)
    live = Live(swap=swap, gone=gone, reconnect_s=2, sinks=2)
    if breaking == "file open":
        live.source.open = fail(UsageError("Not a video."))
    if breaking == "engine open":
        live.swapper.opening = fail(EngineError("No plan for this GPU."))
    if breaking == "sink open":
        live.sinks[1].opening = fail(DeviceError("There is no virtual camera."))
    if breaking == "sink send":
        live.sinks[1].work = lambda n: fail(DeviceError("The disk is full."))() if n == 20 else None
    if breaking == "a bug in a sink":
        live.sinks[0].work = lambda n: 1 // 0 if n == 20 else None
    error = live.run()
    assert type(error) is kind
    assert getattr(error, "exit_code", None) == code
    assert no_threads()
    assert live.tracker.closed and live.swapper.closed and live.source.closed
    assert all(s.closed >= len(s.opened) for s in live.sinks)
    if not breaking.endswith("open"):
        assert all(s.closed == 1 for s in live.sinks)
    assert live.session.report().seconds >= 0  # The summary still tells.


def test_the_first_error_wins_and_the_others_are_logged(caplog):
    live = Live(sinks=2)

    def both(n):
        if n == 30:
            raise DeviceError("The disk is full.")

    def closing():
        raise DeviceError("The end of the file was not written.")

    live.sinks[0].work = both
    live.sinks[1].close = closing
    error = live.run()
    assert str(error) == "The disk is full."
    assert "The end of the file was not written." in caplog.text


def test_ctrl_c_ends_every_thread_and_leaves_the_summary(monkeypatch):
    live = Live()
    real = live.session.wait

    def interrupted(until_ns=None):
        if live.clock.now_ns() > 2 * SECOND:
            raise KeyboardInterrupt
        return real(until_ns)

    monkeypatch.setattr(live.session, "wait", interrupted)
    assert isinstance(live.run(), KeyboardInterrupt)
    assert no_threads()
    assert live.session.report().counts["sent"] == len(live.sent) > 50
    assert live.session.report().seconds == pytest.approx(2, abs=0.2)
    assert live.sinks[0].closed == 1


def test_ctrl_c_while_an_engine_is_being_built_ends_it_at_its_next_word():
    live = Live(opening_ns=3600 * SECOND)
    live.session.start()
    live.clock.run_until(10 * SECOND)
    live.session.stop()
    assert live.said == ["tracker", "swapper"]  # And not that it is ready.
    live.session.check()
    assert no_threads()
    assert live.swapper.closed == 1


def test_a_driver_that_never_returns_is_left_behind_with_a_warning(caplog):
    release = threading.Event()
    live = Live(patience_s=0.02)
    read = live.source.read
    live.source.read = lambda: read() if live.source.given < 10 else release.wait(30) and None
    live.session.start()
    try:
        while live.source.given < 10:
            live.clock._now += MS  # Not run_until: that waits for the one that never waits.
            with live.stop._condition:
                live.stop._condition.notify_all()
        live.session.stop()
        assert "doppelcam-capture does not return and is left behind" in caplog.text
        assert live.sinks[0].closed == 1
        assert all(t.daemon for t in threading.enumerate() if t.name.startswith("doppelcam"))
    finally:
        release.set()


@pytest.mark.parametrize("again", [False, True])
def test_a_camera_that_is_still_being_opened_is_waited_for_by_nobody_and_let_go_later(caplog, again):
    """The first time, and when a lost one is looked for: a driver may take ten seconds, and cannot be hurried."""
    release, opening = threading.Event(), threading.Event()
    live = Live(patience_s=0.02, gone=((SECOND, SECOND + 1),) if again else ())
    real = live.source.open

    def slow():
        if live.source.opened or not again:
            opening.set()
            release.wait(30)
        real()

    live.source.open = slow
    caller = threading.Thread(target=live.session.start, name="a caller")
    caller.start()
    try:
        while not opening.wait(0.001):
            live.clock._now += MS  # Not run_until: that waits for the one that never waits.
            with live.stop._condition:
                live.stop._condition.notify_all()
        live.session.stop()
        caller.join(10)
        assert "left behind" not in caplog.text
        closed = live.source.closed
    finally:
        release.set()
    for thread in live.session._threads:
        thread.join(10)
    assert live.source.closed > closed and live.source.opened == 1 + again
    live.session.check()
    assert no_threads()


def test_stopping_twice_or_before_the_start_is_no_error():
    live = Live().play(1)
    live.session.stop()
    idle = Live()
    idle.session.stop()
    idle.session.check()


def test_a_session_without_a_sink_is_refused():
    with pytest.raises(UsageError, match="nowhere"):
        Live(sinks=0)


def test_one_thread_owns_the_engines_and_threads_have_names():
    live = Live(sinks=2)
    live.session.start()
    live.clock.run_until(SECOND)
    names = {t.name for t in threading.enumerate() if t.name.startswith("doppelcam")}
    live.session.stop()
    assert names == {"doppelcam-capture", "doppelcam-process", "doppelcam-output-0", "doppelcam-output-1"}
    assert live.swapper.threads == {"doppelcam-process"}


def test_a_new_face_is_handed_over_between_two_frames():
    live = Live()
    live.session.start()
    live.clock.run_until(SECOND)
    new, old = FakeSwapper(skin=200), []
    done = live.session.between_frames(lambda: old.append(live.pipeline.replace_swapper(new)))
    live.clock.run_until(2 * SECOND)
    live.session.stop()
    assert done.result(0) is None
    assert new.threads == {"doppelcam-process"}
    assert old == [live.swapper]
    assert (live.swapper.closed, new.closed) == (0, 1)
    faces = [int(s.face[0, 0, 0]) for s in live.sent if s.kind is Kind.SWAPPED]
    assert set(faces) == {60, 200}
    assert faces == sorted(faces)


def test_a_bad_photo_keeps_the_old_face_and_names_the_reason():
    """Case 29."""
    live = Live()
    live.session.start()
    live.clock.run_until(SECOND)

    def refuse():
        raise PhotoError("There is no face in holiday.jpg.")

    done = live.session.between_frames(refuse)
    live.clock.run_until(3 * SECOND)
    live.session.stop()
    live.session.check()
    with pytest.raises(PhotoError, match="holiday"):
        done.result(0)
    late = [s for s in live.sent if s.at > SECOND]
    assert len(late) >= 58
    assert all(s.swapped for s in late)


def test_a_change_is_made_even_when_no_frame_comes_and_cancelled_when_it_is_over():
    live = Live(gone=((SECOND, 1 << 62),))
    live.session.start()
    live.clock.run_until(5 * SECOND)
    done = live.session.between_frames(lambda: None)
    live.clock.run_until(6 * SECOND)
    assert done.done() and not done.cancelled()
    live.session.stop()
    assert live.session.between_frames(lambda: None).cancelled()


def test_a_stop_flag_of_the_caller_ends_it():
    live = Live()
    live.session.start()
    live.clock.run_until(SECOND)
    live.stop.set()
    assert live.session.wait()
    live.session.stop()
    live.session.check()
