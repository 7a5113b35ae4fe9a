"""What the documentation says can be typed can be typed, and what it shows is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.parse

import pytest

from engines.errors import DoppelcamError
from realtime.cli.parser import given_flags, make_parser
from realtime.settings.load import load
from tests import pages
from tests.pages import ROOT, TESTED, Block

BLOCKS = pages.every_block()
RUN_BY_CI = "".join((ROOT / ".ci" / name).read_text() for name in ("run", "vm"))
OURS = sorted({(block.place, line) for block in BLOCKS for line in block.commands() if pages.is_ours(line)})
RUN = sorted({line for block in BLOCKS if block.word == TESTED for line in block.commands()})
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def words(line):
    """So that quotes make no difference."""
    return tuple(shlex.split(line))


def test_every_block_says_what_it_is():
    known = (*pages.MARKS, *pages.OTHERS)
    assert not [f"{block.place}: ```{block.word}" for block in BLOCKS if block.word not in known]


def test_every_command_is_run_by_a_test_or_marked_as_untested():
    said = {words(line) for block in BLOCKS if block.word in pages.MARKS for line in block.commands()}
    silent = [
        f"{block.place}: {line}"
        for block in BLOCKS
        for line in block.commands()
        if not pages.is_ours(line) and words(line) not in said and line not in RUN_BY_CI
    ]
    assert not silent, "begin their blocks with ```sh untested, or have them run:\n" + "\n".join(silent)


@pytest.mark.parametrize(("place", "line"), OURS)
def test_doppelcam_understands(place, line, tmp_path):
    try:
        args = make_parser().parse_args(words(line)[1:])
        if args.verb == "run":
            # An empty folder for a home: nobody's own configuration counts.
            load(given_flags(args), {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path)})
    except SystemExit as done:
        assert done.code == 0, f"{place}: {line}"
    except DoppelcamError as error:
        pytest.fail(f"{place}: {line}: {error.what}")


@pytest.mark.slow
@pytest.mark.parametrize("line", RUN)
def test_a_command_that_is_called_tested_works(line, tmp_path):
    program = tmp_path / "doppelcam"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m realtime "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
                   "XDG_CONFIG_HOME": str(tmp_path)}  # fmt: skip
    done = subprocess.run(
        shlex.split(line), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.word == "toml"], ids=lambda block: block.place)
def test_a_configuration_is_one(block, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("\n".join(block.lines), encoding="utf-8")
    assert load({}, {}, file).file == file


@pytest.mark.parametrize("page", pages.pages(), ids=lambda path: path.name)
def test_what_a_page_points_to_is_there(page):
    text = page.read_text(encoding="utf-8")
    missing = [target for target in _LINK.findall(text) if not _is_there(page, target)]
    assert not missing


def _is_there(page, target):
    if urllib.parse.urlsplit(target).scheme:
        return True
    path, _, heading = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return False
    return not heading or heading in _headings(file.read_text(encoding="utf-8"))


def _headings(text):
    """As GitHub names them."""
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_no_picture_lies_about_unused():
    shown = {
        (page.parent / target).resolve()
        for page in pages.pages()
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert not [path.name for path in (ROOT / "docs" / "pictures").iterdir() if path not in shown]


def test_commands_are_found_where_readers_find_them():
    text = (
        "```\nengines/  a drawing\nsudo true  # why\ndoppelcam run   a remark\n```\n"
        "```sh untested\nanything --at  all\ntwo \\\n    lines  # both\n# nothing\n```\n```toml\necho = 1\n```\n"
    )
    found = [list(block.commands()) for block in pages.blocks(text, "page.md")]
    assert found == [["sudo true", "doppelcam run"], ["anything --at", "two lines"], []]
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        list(pages.blocks("```\nsudo", "page.md"))


def test_a_command_that_nobody_marked_is_noticed():
    assert list(Block("p", 1, "", ("sudo rm -r x", "rmdir is not one")).commands()) == ["sudo rm -r x"]
