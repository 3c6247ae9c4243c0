"""The cryptographic core, small enough to audit in one sitting. It knows nothing of models or of the protocol.

Read in this order: `scheme` (what every scheme offers), `encoding` (numbers to plaintexts), `paillier` (in it `public`,
`fixedbase`, `secret`, `randomizers`), `ring` (it says in which order), `ckks`, `schemes` and `secretschemes` (all
schemes by name, the two sides apart), `publicfile` and `keyfile` (keys at rest), `keys` (new ones).
"""
