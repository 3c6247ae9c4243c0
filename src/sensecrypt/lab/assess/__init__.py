"""What attacks learn from what policies leave in sight: tables with confidence intervals."""
