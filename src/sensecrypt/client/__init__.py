"""The client: trains, scores and selects parameters, protects its update, and checks its own conditions."""
