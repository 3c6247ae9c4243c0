"""The cryptographic core, small enough to audit in one sitting. It knows nothing of models or of the protocol.

Read in this order: `encoding` (numbers to plaintexts), `paillier` (the public side), `fixedbase` (its table), `secret`
(the secret side), `obfuscators` (randomness made ahead), `publicfile` and `keyfile` (keys at rest), `ckks` and
`ckks_secret` (the other scheme).
"""
