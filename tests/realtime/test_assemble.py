"""From a configuration to parts, and from parts to a running session."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import realtime.assemble as assemble_module
from engines.errors import EngineError, UsageError
from engines.kernels.canvas import HostEasel
from engines.open import read_faces
from engines.runtime.device import Machine, choose_device
from engines.runtime.driver import Driver
from realtime.assemble import assemble
from realtime.cli import main
from realtime.clock import ManualClock
from realtime.frame import Frame, Kind
from realtime.settings.config import BENCH, Config
from realtime.settings.load import from_flags


def small(**flags) -> Config:
    return from_flags(
        {"size": "320x240", **{name.replace("_", "-"): value for name, value in flags.items()}}, BENCH
    )


class Kept:
    """A sink that remembers what it was sent."""

    name = "kept"

    def __init__(self) -> None:
        self.frames: list[tuple[Kind, np.ndarray]] = []

    def open(self, size, fps) -> None: ...

    def send(self, frame: Frame) -> None:
        self.frames.append((frame.kind, frame.image.copy()))

    def close(self) -> None: ...


def test_the_graphics_card_is_never_replaced_silently():
    assert choose_device("cpu").name == "cpu"
    nothing = Machine(driver=lambda: Driver(why_not="there is no NVIDIA driver"))
    auto = choose_device("auto", nothing)
    assert auto.name == "cpu"
    assert "no NVIDIA driver" in auto.why
    for asked in ("cuda", "cuda:1"):
        with pytest.raises(EngineError, match=asked) as found:
            choose_device(asked, nothing)
        assert "--device cpu" in found.value.fix


def test_what_cannot_be_made_is_said_before_anything_is_opened():
    with pytest.raises(EngineError, match="no engine 'inswapper'"):
        assemble(small(engine="inswapper"))
    with pytest.raises(EngineError, match="cuda"):
        assemble(small(device="cuda"))
    with pytest.raises(UsageError, match="No face") as found:
        assemble(Config(source="pattern"))
    assert "--face" in found.value.fix


def test_budgets_scale_with_the_rate_and_single_ones_can_be_set():
    stages = assemble(small(fps="60", budget="swap=3"), clock=ManualClock()).meter.report(0).stages
    assert stages["track"].budget_ms == pytest.approx(2.0)
    assert stages["swap"].budget_ms == 3.0


def test_a_session_swaps_the_face_of_a_portrait():
    kept = Kept()
    parts = assemble(small(source="portrait"), more_sinks=[kept])
    assert not parts.nodes()
    session = parts.session(lambda _: None)
    session.start()
    try:
        assert session.ready.wait(60)
        nodes = parts.nodes()
    finally:
        session.stop()
    session.check()
    assert any(name.startswith("face_mesh") for name in nodes)
    assert all(sum(providers.values()) > 10 for providers in nodes.values())
    assert {provider for providers in nodes.values() for provider in providers} == {"CPUExecutionProvider"}
    assert Kind.LIVE not in {kind for kind, _ in kept.frames}
    assert session.report().counts["processed"] > 0


def test_pictures_are_painted_on_what_the_swapper_paints_on():
    begun = []

    class Watched(HostEasel):
        def begin(self, image, sent):
            begun.append(self)
            return super().begin(image, sent)

    parts = assemble(small(), easels=lambda device, now_ns: Watched(now_ns))
    with closing(parts.pipeline) as pipeline:
        pipeline.process(Frame(np.zeros((240, 320, 3), np.uint8), 0, 0))
    assert begun == [parts.easel]


def test_a_start_looks_for_its_device_once(monkeypatch):
    asked = []
    real = assemble_module.choose_device
    monkeypatch.setattr(assemble_module, "choose_device", lambda *a, **kw: asked.append(a) or real(*a, **kw))
    assemble(small())
    assert len(asked) == 1


def test_a_swapper_that_was_handed_over_is_never_taken_for_one_that_was_not(monkeypatch):
    parts = assemble(replace(small(), governor=True))
    first, other = parts.swapper, parts.another(small(), read_faces)
    way = SimpleNamespace(name="less", saves=0.5)
    monkeypatch.setattr(type(other), "gives_way", [way], raising=False)

    def broken(rungs):
        raise EngineError("It does not come back.")

    monkeypatch.setattr(parts.governor, "replace", broken)
    with pytest.raises(EngineError, match="come back"):
        parts.replace_swapper(other)
    assert parts.pipeline.swapper is first


def test_a_file_keeps_its_own_rate_and_size(tmp_path):
    video = _video(tmp_path / "in.mkv", fps=12)
    parts = assemble(Config(source=f"file:{video}", face=BENCH.face, sink=("null",)))
    assert parts.fps == 12
    parts = assemble(Config(source=f"file:{video}", face=BENCH.face, sink=("null",), fps=24.0))
    assert parts.fps == 24


def test_offline_every_frame_of_a_file_comes_out(tmp_path):
    video = _video(tmp_path / "in.mkv", fps=12, frames=7)
    out = tmp_path / "out.mkv"
    config = Config(source=f"file:{video}", face=BENCH.face, sink=(f"file:{out}",), offline=True)
    report = assemble(config).offline(lambda _: None)
    assert (report.counts["captured"], report.counts["sent"], report.counts.get("dropped", 0)) == (7, 7, 0)
    assert out.stat().st_size > 0


def _video(path, fps, frames=5):
    """A few frames of the portrait, as a file."""
    from realtime.sinks.open import open_sink
    from realtime.sources.open import make_source

    clock = ManualClock()
    source = make_source("portrait", size=(320, 240), fps=fps, clock=clock)
    sink = open_sink(f"file:{path}", clock=clock, report=lambda: None, metadata={})
    source.open()
    sink.open((320, 240), fps)
    for _ in range(frames):
        sink.send(source.read().shown_as(Kind.SWAPPED))
    sink.close()
    source.close()
    return path


def test_offline_from_the_command_line(tmp_path, capsys):
    video, out = _video(tmp_path / "in put.mkv", fps=12, frames=4), tmp_path / "out.mkv"
    face = str(BENCH.face[0])
    assert (
        main(["run", "--face", face, "--offline", "--source", f"file:{video}", "--sink", f"file:{out}"]) == 0
    )
    assert "4 frames out" in capsys.readouterr().out
    assert out.stat().st_size > 0
