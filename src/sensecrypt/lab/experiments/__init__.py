"""Every figure and table of the paper, and some of our own: one file an item, one command each."""
