"""The canonical mesh and the names of its parts agree with each other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from engines.analysis import topology as t

RINGS = (*t.RIGHT_EYE_RINGS, *t.LEFT_EYE_RINGS, t.LIPS_OUTER, t.LIPS_INNER, *t.LIPS_BETWEEN, t.OVAL)


def edges_of(corners):
    return Counter(frozenset(pair) for a, b, c in corners.tolist() for pair in ((a, b), (b, c), (c, a)))


def test_triangles_make_one_closed_sheet_with_the_oval_as_its_border():
    edges = edges_of(t.triangles())
    assert t.triangles().shape == (898, 3)
    assert set(edges.values()) == {1, 2}
    border = {edge for edge, count in edges.items() if count == 1}
    assert border == {frozenset(pair) for pair in zip(t.OVAL, (*t.OVAL[1:], t.OVAL[0]), strict=True)}


def test_triangles_are_wound_alike():
    directed = Counter(pair for a, b, c in t.triangles().tolist() for pair in ((a, b), (b, c), (c, a)))
    assert max(directed.values()) == 1


def test_the_texture_is_not_folded():
    uv = t.canonical_uv()
    a, b, c = (uv[t.triangles()[:, i]] for i in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    assert ((area < 0).all()) or ((area > 0).all())
    assert uv.min() >= 0
    assert uv.max() <= 1


def test_every_ring_names_each_point_once():
    for ring in RINGS:
        assert len(set(ring)) == len(ring)
        assert max(ring) < t.POINTS


def test_left_and_right_are_mirror_images():
    mirror = t.mirrored()
    assert (mirror[mirror] == np.arange(t.POINTS)).all()
    for right, left in zip((*t.RIGHT_EYE_RINGS, t.RIGHT_BROW), (*t.LEFT_EYE_RINGS, t.LEFT_BROW), strict=True):
        assert mirror[list(right)].tolist() == list(left)
    # The person's right is the picture's left.
    assert (t.canonical()[list(t.RIGHT_EYE_RINGS[0]), 0] < 0).all()


def test_the_refined_points_replace_each_point_once():
    assert len(set(t.REFINED_LIPS)) == 80
    for eye in (t.REFINED_RIGHT_EYE, t.REFINED_LEFT_EYE):
        assert len(set(eye)) == 71
    assert t.mirrored()[list(t.REFINED_RIGHT_EYE)].tolist() == list(t.REFINED_LEFT_EYE)


def test_up_is_up():
    points = t.canonical()
    assert points[10, 1] < points[1, 1] < points[152, 1]
    # The tip of the nose is nearest to the camera.
    assert points[:, 2].argmin() in (1, 4)


@pytest.mark.parametrize("shared", [t.canonical, t.canonical_uv, t.triangles, t.mirrored])
def test_what_all_share_cannot_be_changed_by_one(shared):
    with pytest.raises(ValueError, match="read-only"):
        shared()[0] = 0
