"""Data that ships with the package or is fetched, verified and cached."""

from bipareto.datasets.digits import digits

__all__ = ["digits"]
