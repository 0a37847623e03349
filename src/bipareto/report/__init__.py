"""Fronts for people: one HTML file to keep and to send, and a page on which to choose and to solve on."""

from bipareto.report.data import Run
from bipareto.report.document import write_report
from bipareto.report.server import serve

__all__ = ["Run", "serve", "write_report"]
