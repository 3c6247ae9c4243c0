"""One client: it trains, scores, selects, protects its update, and checks its own conditions."""
