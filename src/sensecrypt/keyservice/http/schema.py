"""The database: one file, write-ahead logging, strict tables. What is secret in it is encrypted."""

from __future__ import annotations

VERSION = 4

_ROUND = "run TEXT NOT NULL, number INTEGER NOT NULL, cluster INTEGER NOT NULL, purpose TEXT NOT NULL"

TABLES = f"""
CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    description TEXT NOT NULL,          -- as the admin registered it
    fingerprint TEXT NOT NULL,          -- of its key pair, which is in a file of its own
    ended INTEGER NOT NULL DEFAULT 0    -- whether its secret key is destroyed
) STRICT;
CREATE TABLE samples (                  -- what members' weights follow from, fixed by the first that a client tells
    run TEXT NOT NULL, client INTEGER NOT NULL, samples INTEGER NOT NULL,
    PRIMARY KEY (run, client)
) STRICT;
CREATE TABLE joined (                   -- members of runs that apps register: one certificate a number
    run TEXT NOT NULL, client INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (run, client), UNIQUE (run, name)
) STRICT;
CREATE TABLE starts (                   -- the model, as a hash, that all members of such a run's round start from
    {_ROUND}, attempt INTEGER NOT NULL, start TEXT NOT NULL,
    PRIMARY KEY (run, number, cluster, purpose, attempt)
) STRICT;
CREATE TABLE sketches (                 -- one a client: each that is turned tells whoever turns it something
    run TEXT NOT NULL, client INTEGER NOT NULL,
    sketch BLOB NOT NULL,               -- the first that came, encrypted
    PRIMARY KEY (run, client)
) STRICT;
CREATE TABLE rankings (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    cluster INTEGER NOT NULL,
    number INTEGER NOT NULL,            -- of the round whose sensitivities made it
    ranking BLOB NOT NULL               -- encrypted
) STRICT;
CREATE TABLE rounds (
    {_ROUND}, attempt INTEGER NOT NULL,
    description BLOB NOT NULL,          -- as the aggregator registered it
    ranking INTEGER REFERENCES rankings (id),  -- the order that its members are told, fixed from the start
    PRIMARY KEY (run, number, cluster, purpose, attempt)
) STRICT;
CREATE TABLE tags (
    {_ROUND}, attempt INTEGER NOT NULL, client INTEGER NOT NULL,
    tag BLOB NOT NULL,              -- without its blinding, encrypted
    blinded BLOB,                        -- with it, encrypted; gone as soon as the round is released
    PRIMARY KEY (run, number, cluster, purpose, attempt, client)
) STRICT;
CREATE TABLE releases (                 -- one a round, whatever its attempts
    {_ROUND},
    attempt INTEGER,                    -- whose sum entered decryption; none as long as all were refused
    digest BLOB,                        -- of that sum
    failures INTEGER NOT NULL DEFAULT 0,
    result BLOB,                        -- encrypted; there as soon as it is verified
    contributors TEXT,
    weight REAL,
    rule BLOB,                          -- encrypted; what the server's rule remembers after this round
    PRIMARY KEY (run, number, cluster, purpose)
) STRICT;
CREATE TABLE audit_waiting (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;  -- until they are in the file
CREATE TABLE audit_head (
    only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL, digest TEXT NOT NULL
) STRICT;
PRAGMA user_version = {VERSION};
"""
