"""The key server as a service of its own: mutual TLS, state that survives, an audit log. See decision 11."""
