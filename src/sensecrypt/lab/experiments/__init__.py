"""Every figure and table of the paper, and some of our own: one file and one command per item."""
