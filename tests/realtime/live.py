"""A whole session out of fakes, in time that jumps."""

import threading

from realtime.clock import StopFlag
from realtime.pace.budget import Meter
from realtime.pipeline import Pipeline
from realtime.session import Session
from realtime.shown.guard import Guard
from tests.realtime.fakes import SECOND, FakeSink, FakeSource, FakeSwapper, FakeTracker, VirtualClock


class Live:
    """A session out of fakes, and the hand that moves its time."""

    def __init__(
        self, answer=lambda n: 1, swap=lambda n: None, cost_ns=0, opening_ns=0, sinks=1, policy=("hold", "veil"),
        fps=30.0, reconnect_s=None, most_failures=30, patience_s=0.8, governor=None, **source,
    ):  # fmt: skip
        self.clock = VirtualClock()
        self.stop = StopFlag(self.clock)
        self.source = FakeSource(self.clock, self.stop, **source)
        self.tracker = FakeTracker(answer)
        self.swapper = FakeSwapper(
            swap,
            opening=lambda: self.spend(opening_ns),
            work=lambda n: self.spend(cost_ns(n) if callable(cost_ns) else cost_ns),
        )
        self.sinks = [FakeSink(self.clock, f"sink {n}") for n in range(sinks)]
        self.meter = Meter(0)
        self.said, self.readied = [], []
        pipeline = Pipeline(self.tracker, self.swapper, self.meter, self.clock, None, most_failures)
        self.pipeline = pipeline
        self.session = Session(
            self.source, pipeline, Guard(policy), self.sinks, self.meter, self.clock, fps, self.stop,
            progress=self.said.append, reconnect_s=reconnect_s, patience_s=patience_s,
            governor=governor, on_ready=lambda: self.readied.append(self.clock.now_ns()),
        )  # fmt: skip

    def spend(self, ns):
        if ns:
            self.stop.wait_until(self.clock.now_ns() + ns)

    def play(self, seconds):
        """Starts, lives so long, stops."""
        self.session.start()
        self.clock.run_until(round(seconds * SECOND))
        self.session.stop()
        return self

    def run(self, duration_s=None, until_s=100.0):
        """As the command line does it: in a thread of its own, so that time can be moved from here."""
        result = []

        def body():
            try:
                result.append(self.session.run(duration_s))
            except BaseException as error:
                result.append(error)

        caller = threading.Thread(target=body, name="doppelcam-caller")
        caller.start()
        self.clock.run_until(round(until_s * SECOND))
        caller.join(10)
        assert not caller.is_alive()
        return result[0]

    @property
    def sent(self):
        return self.sinks[0].sent

    @property
    def counts(self):
        return self.session.report().counts

    def begins(self):
        """When each kind was first shown, seconds, in order."""
        first = {}
        for sent in self.sent:
            first.setdefault(sent.kind, sent.at / SECOND)
        return first


def no_threads():
    return not [t for t in threading.enumerate() if t.name.startswith("doppelcam")]
