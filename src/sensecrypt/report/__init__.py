"""Pages of runs and comparisons: one HTML file each, or the same page served live."""

from sensecrypt.report.watch import Watch
from sensecrypt.report.writing import write_report

__all__ = ["Watch", "write_report"]
