"""For experiments: attacks, comparisons, benchmarks, the paper's figures, a fleet on one machine.

Only the command imports it.
"""
