"""The database: one file, write-ahead logging, strict tables. Secrets in it are encrypted."""

from __future__ import annotations

VERSION = 4

_ROUND = "run TEXT NOT NULL, number INTEGER NOT NULL, cluster INTEGER NOT NULL, purpose TEXT NOT NULL"

TABLES = f"""
CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    description TEXT NOT NULL,          -- JSON, as it was registered
    fingerprint TEXT NOT NULL,          -- of its key pair, which is in a file of its own
    ended INTEGER NOT NULL DEFAULT 0    -- whether its secret key is destroyed
) STRICT;
CREATE TABLE samples (                  -- weights follow from them; only the first report of a client counts
    run TEXT NOT NULL, client INTEGER NOT NULL, samples INTEGER NOT NULL,
    PRIMARY KEY (run, client)
) STRICT;
CREATE TABLE joined (                   -- members of runs that apps register: one certificate per number
    run TEXT NOT NULL, client INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (run, client), UNIQUE (run, name)
) STRICT;
CREATE TABLE starts (                   -- hash of the model that all members of such a run's round start from
    {_ROUND}, attempt INTEGER NOT NULL, start TEXT NOT NULL,
    PRIMARY KEY (run, number, cluster, purpose, attempt)
) STRICT;
CREATE TABLE sketches (                 -- one per client: every rotated sketch reveals something about the rotation
    run TEXT NOT NULL, client INTEGER NOT NULL,
    sketch BLOB NOT NULL,               -- the first that arrived, encrypted
    PRIMARY KEY (run, client)
) STRICT;
CREATE TABLE rankings (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    cluster INTEGER NOT NULL,
    number INTEGER NOT NULL,            -- of the round whose sensitivities it follows from
    ranking BLOB NOT NULL               -- encrypted
) STRICT;
CREATE TABLE rounds (
    {_ROUND}, attempt INTEGER NOT NULL,
    description BLOB NOT NULL,          -- as the aggregator registered it
    ranking INTEGER REFERENCES rankings (id),  -- the importance order of its members, fixed from the start
    PRIMARY KEY (run, number, cluster, purpose, attempt)
) STRICT;
CREATE TABLE tags (
    {_ROUND}, attempt INTEGER NOT NULL, client INTEGER NOT NULL,
    tag BLOB NOT NULL,                  -- without its blinding seed, encrypted
    blinded BLOB,                       -- with the seed, encrypted; erased when the round is released
    PRIMARY KEY (run, number, cluster, purpose, attempt, client)
) STRICT;
CREATE TABLE releases (                 -- one per round, over all its attempts
    {_ROUND},
    attempt INTEGER,                    -- whose sum entered decryption; NULL while all were refused
    digest BLOB,                        -- of that sum
    failures INTEGER NOT NULL DEFAULT 0,
    result BLOB,                        -- encrypted; present once the sum is verified
    contributors TEXT,
    weight REAL,
    rule BLOB,                          -- encrypted; the server rule's state after this round
    PRIMARY KEY (run, number, cluster, purpose)
) STRICT;
CREATE TABLE audit_waiting (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;  -- until they are in the file
CREATE TABLE audit_head (
    only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL, digest TEXT NOT NULL
) STRICT;
PRAGMA user_version = {VERSION};
"""
