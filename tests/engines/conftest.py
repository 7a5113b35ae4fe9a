"""Fixtures that several files share."""

from tests.engines.swap.test_neural import opened

__all__ = ["opened"]
