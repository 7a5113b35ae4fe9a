"""A control page around a session that is none: changes are made at once, and the figures stand still."""

from __future__ import annotations

import http.client
import json
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np

from realtime.clock import SystemClock
from realtime.control.control import Control
from realtime.frame import Kind
from realtime.pace.budget import Meter
from realtime.pipeline import Pipeline
from realtime.session import Snapshot
from realtime.settings.config import Config
from realtime.shown.guard import Guard
from realtime.tracking.smooth import OneEuroSettings
from tests.realtime.fakes import FakeSource, FakeSwapper, FakeTracker, make_frame

ASSETS = Path(__file__).parents[3] / "realtime" / "assets"
HOPPER, ASTRONAUT = ASSETS / "hopper.jpg", ASSETS / "astronaut.png"
PASSWORD = "correct horse"


class QuietSink:
    """Counts what is done to it."""

    def __init__(self, name="quiet", refuse=None):
        self.name, self.refuse = name, refuse
        self.opened = self.closed = 0
        self.kinds = []

    def open(self, size, fps):
        self.opened += 1
        if self.refuse:
            raise self.refuse

    def send(self, frame):
        self.kinds.append(frame.kind)

    def close(self):
        self.closed += 1


class StillSession:
    """Makes every change at once, as the process thread would."""

    def __init__(self):
        self.cancelled = False

    def between_frames(self, change):
        done = Future()
        if self.cancelled:
            done.cancel()
            return done
        done.set_running_or_notify_cancel()
        try:
            change()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def snapshot(self):
        meter = Meter(0)
        meter.stage("swap", 5_000_000)
        meter.age(20_000_000)
        return Snapshot("live", True, meter.report(1_000_000_000), "every second frame")


class Rig:
    """The page, entered, and a browser's manners.

    Attributes:
        made: Every swapper that was made, with the configuration that asked for it.
    """

    def __init__(self, environ=None, opening=lambda: None, **config):
        clock = SystemClock()
        self.config = replace(Config(control="0", sink=("null",)), **config)
        self.made, self.opening = [], opening
        self.swapper, self.tracker, self.guard = FakeSwapper(), FakeTracker(), Guard()
        self.tracker.smoothing = OneEuroSettings()
        self.pipeline = Pipeline(self.tracker, self.swapper, Meter(0), clock, None)
        self.sink, self.session = QuietSink(), StillSession()
        self.control = Control(
            self.config, [self.sink], self.pipeline, self.tracker, self.guard, FakeSource(clock, None), self.another,
            self.pipeline.replace_swapper, lambda: {"net": {"CPUExecutionProvider": 7}}, clock, environ or {},
        )  # fmt: skip

    def another(self, config, read):
        faces = read(config.face, 468) if config.face else []
        swapper = FakeSwapper(opening=self.opening, skin=200)
        self.made.append((swapper, config, faces))
        return swapper

    def __enter__(self):
        self.control.begin(self.session)
        self.http = self.control._http
        self.token = self.control.link.partition("token=")[2]
        self.cookie = self.csrf = ""
        return self

    def __exit__(self, *_):
        self.control.__exit__(None, None, None)

    @property
    def port(self):
        return self.http.port

    @property
    def desk(self):
        return self.control.desk

    def ask(self, method, path, body=None, headers=None, host=None):
        """One request and no manners. Gives status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True)
            for value in [host or f"127.0.0.1:{self.port}"] if not isinstance(host, list) else host:
                connection.putheader("Host", value)
            sent = dict(headers or {})
            if body is not None and "Content-Length" not in sent:
                sent["Content-Length"] = str(len(body))
            for name, value in sent.items():
                for one in value if isinstance(value, list) else [value]:
                    connection.putheader(name, one)
            connection.endheaders()
            if body:
                connection.send(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def enter(self):
        """Opens the link, as a browser does."""
        status, headers, _ = self.ask("GET", f"/?token={self.token}")
        assert (status, headers["Location"]) == (303, "/")
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        self.csrf = self.get("/api/state")["csrf"]
        return self

    def manners(self, **other):
        """What the page's own script sends with a change; another value, or None to leave one out."""
        sent = {
            "Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}", "X-CSRF-Token": self.csrf,
            "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin",
        } | {name.replace("_", "-"): value for name, value in other.items()}  # fmt: skip
        return {name: value for name, value in sent.items() if value is not None}

    def get(self, path):
        status, _, body = self.ask("GET", path, headers={"Cookie": self.cookie})
        assert status == 200, body
        return json.loads(body)

    def send(self, method, path, value=None, **other):
        """A change, as the page asks for it. Gives status and what was said."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        status, _, said = self.ask(method, path, body, self.manners(**other))
        return status, json.loads(said)

    def drop(self, name, data):
        """A photo, as the page sends it."""
        return self.send("POST", f"/api/faces?name={name}", data, Content_Type="application/octet-stream")


class Feeder:
    """Offers frames to a picture until it is told to stop, as an output thread does."""

    def __init__(self, offer, size=(320, 180)):
        self._offer, self._size, self._ended = offer, size, threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")

    def _run(self):
        seq = 0
        while not self._ended.wait(0.01):
            frame = make_frame(seq, seq, self._size, Kind.SWAPPED)
            frame.image[:] = np.uint8(seq % 250)
            self._offer(frame)
            seq += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
