"""Speed and memory against named peers, both sides measured in one run, medians of repeats."""
