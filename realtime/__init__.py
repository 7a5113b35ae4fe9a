"""Sources, sinks, threads and budgets: what keeps time. Imports :mod:`engines`, never the other way round."""

__version__ = "0.1.0"
