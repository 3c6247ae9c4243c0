"""A run to look at: one HTML page with everything in it, or the same page live while the run goes on."""

from sensecrypt.report.watch import Watch
from sensecrypt.report.writing import write_report

__all__ = ["Watch", "write_report"]
