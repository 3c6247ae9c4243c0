"""The cryptographic core, small enough to audit in one sitting. It does not depend on models or on the protocol.

Read in this order: `scheme` (the contract of every scheme), `encoding` (numbers to plaintexts), `paillier` (`public`,
`fixedbase`, `secret`, `randomizers`), `ring` (its `__init__` gives the order), `ckks`, `schemes` and `secretschemes`
(registries of the public and of the secret sides), `publicfile` and `keyfile` (keys at rest), `keys` (key generation).
"""
