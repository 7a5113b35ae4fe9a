"""Faces, engines and looks change while the picture goes on."""

import itertools
import threading
from concurrent.futures import CancelledError

import pytest

from engines.errors import DoppelcamError, EngineError, UsageError
from engines.swap.mesh import texture
from engines.swap.mesh.mesh import MeshSwapper
from realtime.control.steering import MESH, NEURAL, STEERABLE, WORDS
from realtime.control.worker import MOST_WAITING, Worker
from realtime.settings.options import BY_NAME
from tests.realtime.control.rig import ASTRONAUT, HOPPER, Rig
from tests.realtime.fakes import SECOND, FakeSwapper
from tests.realtime.live import Live

SOON = 20


class Gate:
    """Something that takes as long as a test wants."""

    def __init__(self):
        self.began, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self):
        self.began.release()
        assert self.go.acquire(timeout=SOON)


def test_words_are_those_that_the_options_take():
    for name, words in WORDS.items():
        assert [str(BY_NAME[name].read(word)) for word in words] == list(words)
        assert set(STEERABLE) >= {name, *MESH, *NEURAL}


def test_opened_by_the_worker_and_published_whole():
    threads = []
    with Rig(opening=lambda: threads.append(threading.current_thread().name)) as rig:
        rig.desk.change({"eyes": "live"}).result(SOON)
        assert threads == ["control-worker"]
        assert rig.pipeline.swapper.opened == 1
        assert rig.swapper.closed == 1
    assert rig.pipeline.swapper.closed == 0  # The pipeline's own business.


def test_an_engine_that_does_not_open_leaves_the_old_one_and_its_settings():
    def refuse():
        raise EngineError("This plan was built for another GPU.", "Build it again.")

    with Rig(opening=refuse) as rig:
        with pytest.raises(EngineError, match="another GPU"):
            rig.desk.change({"eyes": "live"}).result(SOON)
        assert rig.pipeline.swapper is rig.swapper
        assert rig.made[0][0].closed == 1
        assert rig.desk.steering.config.eyes == "mixed"
        assert rig.swapper.closed == 0


def test_a_fault_of_ours_in_the_worker_ends_no_worker():
    faults = [ZeroDivisionError()]

    def opening():
        if faults:
            raise faults.pop()

    with Rig(opening=opening) as rig:
        with pytest.raises(ZeroDivisionError):
            rig.desk.change({"eyes": "live"}).result(SOON)
        rig.desk.change({"eyes": "photo"}).result(SOON)
        assert rig.desk.steering.config.eyes == "photo"


def test_of_many_changes_to_one_thing_the_newest_is_made():
    """A slider that is dragged asks more often than a swapper can be made."""
    gate = Gate()
    with Rig(opening=gate) as rig:
        first = rig.desk.change({"shape": 0.0})
        assert gate.began.acquire(timeout=SOON)
        asked = [rig.desk.change({"shape": n / 20}) for n in range(1, 21)]
        gate.go.release(50)
        for done in (first, *asked):
            assert done.result(SOON) is None
        assert [config.shape for _, config, _ in rig.made] == [0.0, 1.0]
        rig.desk.change({"label": True}).result(SOON)
        assert [swapper.closed for swapper, *_ in rig.made] == [1, 0]


def test_changes_to_different_things_are_all_made_in_their_order():
    gate = Gate()
    with Rig(opening=gate) as rig:
        first = rig.desk.change({"shape": 0.1})
        assert gate.began.acquire(timeout=SOON)
        asked = [
            rig.desk.change(values) for values in ({"eyes": "live"}, {"mouth": "photo"}, {"eyes": "photo"})
        ]
        gate.go.release(50)
        for done in (first, *asked):
            done.result(SOON)
        config = rig.desk.steering.config
        assert (config.shape, config.eyes, config.mouth) == (0.1, "photo", "photo")


def test_a_change_that_fails_harms_no_other():
    gate, faults = Gate(), [None, EngineError("No.")]

    def opening():
        gate()
        if faults and (fault := faults.pop(0)):
            raise fault

    with Rig(opening=opening) as rig:
        first = rig.desk.change({"shape": 0.1})
        assert gate.began.acquire(timeout=SOON)
        bad, good = rig.desk.change({"eyes": "live"}), rig.desk.change({"mouth": "photo"})
        gate.go.release(50)
        assert first.result(SOON) is good.result(SOON) is None
        assert isinstance(bad.exception(SOON), EngineError)
        assert (rig.desk.steering.config.eyes, rig.desk.steering.config.mouth) == ("mixed", "photo")


def test_label_and_smoothing_need_no_other_swapper():
    with Rig() as rig:
        rig.desk.change({"label": False, "smoothing": 0}).result(SOON)
        assert rig.pipeline.label is None
        assert rig.tracker.smoothing.min_cutoff == pytest.approx(2.5 * 8)
        assert not rig.made


def test_nobody_who_steers_from_elsewhere_names_a_file():
    """On the command line a mask may name the file of a network; on the page there are only its plain words."""
    with Rig(mask="oval,live-mouth") as rig:
        for mask in (
            "occlusion=/etc/passwd",
            "oval,occlusion=x.onnx",
            "regions=xseg_1",
            "live-eyes",
            3,
            None,
        ):
            with pytest.raises(UsageError, match="mask"):
                rig.desk.change({"mask": mask})
        rig.desk.change({"mask": "ellipse"}).result(SOON)
        assert rig.desk.steering.config.mask == "ellipse"
        assert "restore" not in STEERABLE


def test_too_much_at_once_is_refused_and_the_rest_is_made():
    gate = Gate()
    with Rig(opening=gate) as rig:
        first = rig.desk.change({"shape": 0.1})
        assert gate.began.acquire(timeout=SOON)
        asked = [rig.desk.change({("eyes", "mouth")[n % 2]: "photo"}) for n in range(MOST_WAITING)]
        with pytest.raises(DoppelcamError, match="Too much"):
            rig.desk.change({"shape": 0.9})
        gate.go.release(50)
        for done in (first, *asked):
            done.result(SOON)
        assert rig.desk.steering.config.shape == 0.1


def test_when_it_ends_nobody_waits_for_ever():
    gate = Gate()
    rig = Rig(opening=gate)
    with rig:
        going = rig.desk.change({"shape": 0.1})
        assert gate.began.acquire(timeout=SOON)
        waiting = rig.desk.change({"eyes": "live"})
        # The session ends first, and takes no changes any more.
        rig.session.cancelled = True
        gate.go.release(50)
    assert isinstance(going.exception(SOON), DoppelcamError)
    assert waiting.cancelled() or isinstance(waiting.exception(SOON), DoppelcamError)
    with pytest.raises(CancelledError):
        rig.desk.change({"eyes": "live"}).result(SOON)
    assert all(swapper.closed == 1 for swapper, *_ in rig.made)
    assert rig.pipeline.swapper is rig.swapper


def test_the_worker_ends_what_it_prepares_at_the_next_step():
    worker, began = Worker(), threading.Event()

    def job():
        began.set()
        while True:
            worker.say("one more kernel")

    worker.start()
    done = worker.ask(job)
    assert began.wait(SOON)
    worker.stop()
    assert isinstance(done.exception(SOON), DoppelcamError)
    assert worker.ask(job).cancelled()
    worker.stop()


def test_what_nobody_waits_for_is_done_last():
    worker, gate, order = Worker(), Gate(), []
    worker.start()
    worker.ask(gate)
    assert gate.began.acquire(timeout=SOON)
    later = worker.ask(lambda: order.append("later"), later=True)
    soon = [worker.ask(lambda n=n: order.append(n)) for n in range(3)]
    gate.go.release()
    for done in (*soon, later):
        done.result(SOON)
    assert order == [0, 1, 2, "later"]
    worker.ask(gate)
    assert gate.began.acquire(timeout=SOON)
    for _ in range(MOST_WAITING):
        later = worker.ask(lambda: None, later=True)
    with pytest.raises(DoppelcamError, match="Too much"):
        worker.ask(lambda: None, later=True)
    # Those take no room from what is waited for.
    soon = worker.ask(lambda: None)
    worker.end()
    gate.go.release()
    worker.stop()
    assert later.cancelled()
    assert soon.cancelled()


def idle(rig):
    """Waits until nothing is left to be prepared."""
    rig.desk._worker.ask(lambda: None, later=True).result(SOON)


def test_a_face_is_worked_out_before_it_is_put_on(monkeypatch):
    """What takes long is done when the photo comes, and not when somebody waits to see it."""
    made, view_of = [], texture.view_of
    monkeypatch.setattr(texture, "view_of", lambda *given: made.append(given) or view_of(*given))
    with Rig() as rig:
        face = rig.desk.drop("a.jpg", HOPPER.read_bytes()).result(SOON)
        idle(rig)
        assert len(made) == 1
        photos = rig.desk.gallery.read(face.photos, 468)
        swapper = MeshSwapper(*photos)
        swapper.open(lambda line: None)
        swapper.close()
        assert len(made) == 1


def test_other_engines_have_nothing_worked_out(monkeypatch):
    monkeypatch.setattr(texture, "view_of", lambda *given: pytest.fail("nobody asked for it"))
    with Rig(engine="portrait") as rig:
        rig.desk.drop("a.jpg", HOPPER.read_bytes()).result(SOON)
        idle(rig)


def test_a_face_that_was_taken_away_meanwhile_harms_nobody(caplog):
    with Rig() as rig:
        gate = Gate()
        face = rig.desk.drop("a.jpg", HOPPER.read_bytes())
        rig.desk._worker.ask(gate)
        assert gate.began.acquire(timeout=SOON)
        rig.desk.forget(face.result(SOON).id)
        gate.go.release()
        idle(rig)
        assert not rig.desk.gallery.people()
    assert "could not be prepared" not in caplog.text


def test_faces_of_several_people_are_theirs():
    from realtime.settings.values import Pair

    with Rig(person=(Pair(HOPPER, ASTRONAUT),)) as rig:
        assert rig.desk.state()["settings"]["face"] == ""
        with pytest.raises(UsageError, match="of their own"):
            rig.desk.change({"face": "face-1"})


def test_in_a_session_another_face_comes_without_a_frame_that_is_late():
    """Case 10. The new one takes three seconds to open; viewers see thirty frames in every one of them."""
    live = Live(fps=30.0)
    live.session.start()
    live.clock.run_until(SECOND)
    old, new = live.swapper, FakeSwapper(skin=200)
    worker, opened = Worker(), threading.Event()
    go = threading.Event()
    handed = []

    def job():
        new.open(lambda line: None)
        opened.set()
        assert go.wait(SOON)
        live.session.between_frames(lambda: handed.append(live.pipeline.replace_swapper(new))).result(SOON)
        handed[0].close()

    worker.start()
    done = worker.ask(job)
    assert opened.wait(SOON)
    live.clock.run_until(4 * SECOND)
    assert {int(s.face[0, 0, 0]) for s in live.sent if s.at > SECOND} == {60}
    go.set()
    while not live.session._changes._asked and not handed:
        pass
    live.clock.run_until(6 * SECOND)
    assert done.result(SOON) is None
    live.session.stop()
    worker.stop()
    assert (old.closed, new.closed) == (1, 1)
    assert old.threads == {"doppelcam-process", "control-worker"}
    times = [s.at for s in live.sent]
    assert max(b - a for a, b in itertools.pairwise(times)) <= SECOND / 30 * 1.5
    faces = [int(s.face[0, 0, 0]) for s in live.sent if s.at > SECOND]
    assert set(faces) == {60, 200}
    assert faces == sorted(faces)
