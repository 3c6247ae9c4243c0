"""Profiles: named parameter sets of the encryption schemes, with claimed security and sources."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.errors import InvalidInput

DEFAULT_PROFILE = "ring-2048x4"
RING_HEADER_BYTES, RING_FIRST_BITS, RING_VALUE_BITS = 16, 50, 44  # of a row; of a coefficient, as crypto.ring has it


@dataclass(frozen=True)
class Profile:
    """A parameter set of an encryption scheme.

    Attributes:
        name: the name in configurations and key files.
        scheme: the scheme's name in the registries `crypto.schemes` and `crypto.secretschemes`.
        key_bits: bits of the Paillier modulus n; for CKKS and ring, the ring dimension.
        slot_bits: bits of a value, including its sign.
        slots: values per ciphertext.
        ciphertext_bytes: bytes of a ciphertext.
        exponent_bits: bits of the random exponent of a Paillier randomizer; 0 for other schemes.
        security_bits: claimed security against the best known attack, in bits; 0: none.
        assumption: the assumptions of the claim.
        citation: the sources of the claim.
        subgroup_bits: bits of the primes α_p and α_q if randomizers are in the subgroup of order 2·α_p·α_q, which makes
            decryption faster; 0: no subgroup.
        multiplies: whether ciphertexts can be multiplied by a number.
        randomness_ahead: whether randomizers can be computed before the values are known.
        forgeries_show_key: whether decrypting forged ciphertexts reveals the secret key, as in lattice schemes; then no
            sum may be released before its MAC tag has matched.
        max_summands: the largest number of summands for which noise cannot change a sum; None: unlimited.
    """

    name: str
    scheme: str
    key_bits: int
    slot_bits: int
    slots: int
    ciphertext_bytes: int
    exponent_bits: int
    security_bits: int
    assumption: str
    citation: str
    subgroup_bits: int = 0
    multiplies: bool = False
    randomness_ahead: bool = False
    forgeries_show_key: bool = False
    max_summands: int | None = None

    @property
    def bytes_per_value(self) -> float:
        """Bytes of a ciphertext per value."""
        return self.ciphertext_bytes / self.slots

    def row_bytes(self, values: int) -> int:
        """Return the bytes of a sent ciphertext of `values` values: ring polynomials without values are left out."""
        if self.scheme != "ring":
            return self.ciphertext_bytes
        dimension, polynomials = self.key_bits, self.slots // self.key_bits
        return self.ciphertext_bytes - (polynomials - -(-values // dimension)) * dimension * RING_VALUE_BITS // 8


_DCR = "decisional composite residuosity; h^a with a of half the length of n is indistinguishable from random"
_DJN = "Damgård, Jurik, Nielsen 2010; exponent length: Goldreich, Rosen 2003; key length: NIST SP 800-57"


def _paillier(
    name: str,
    key_bits: int,
    slot_bits: int,
    *,
    scalar: bool = False,
    exponent_bits: int | None = None,
    security_bits: int,
    assumption: str = _DCR,
    citation: str = _DJN,
    subgroup_bits: int = 0,
) -> Profile:
    # The packed values form a signed number of absolute value below n/2, and n ≥ 2^(key_bits − 1).
    slots = 1 if scalar else (key_bits - 2) // slot_bits
    exponent = exponent_bits or key_bits // 2
    size = key_bits // 4
    return Profile(
        name,
        "paillier",
        key_bits,
        slot_bits,
        slots,
        size,
        exponent,
        security_bits,
        assumption,
        citation,
        subgroup_bits,
        multiplies=True,
        randomness_ahead=True,
    )


def _ring(polynomials: int) -> Profile:
    """Return the profile with `polynomials` · 2,048 slots: more slots mean fewer bytes per value and larger blocks."""
    dimension = 2048
    return Profile(
        "ring-2048" if polynomials == 1 else f"ring-2048x{polynomials}",
        "ring",
        dimension,
        32,
        polynomials * dimension,
        RING_HEADER_BYTES + dimension * (RING_FIRST_BITS + polynomials * RING_VALUE_BITS) // 8,
        0,
        128,
        "ring learning with errors, dimension 2048, modulus 2^51, ternary secret: 128 bits against classical and "
        "quantum computers; and that no attacker sees decryptions of forged ciphertexts",
        "Homomorphic Encryption Standard 2018: at most 54 bits of modulus against classical computers, 51 against "
        "quantum ones; any modulus: Peikert, Regev, Stephens-Davidowitz 2017",
        forgeries_show_key=True,
        max_summands=10_000,
    )


_ALL = (
    _paillier("paillier-2048", 2048, 32, security_bits=112),
    _paillier("paillier-2048-slot16", 2048, 16, security_bits=112),
    _paillier("paillier-2048-slot64", 2048, 64, security_bits=112),
    _paillier("paillier-3072", 3072, 32, security_bits=128),
    _paillier(
        "paillier-2048-short",
        2048,
        32,
        exponent_bits=448,
        security_bits=112,
        assumption="decisional composite residuosity, and: h^a with a of 448 bits is indistinguishable from random "
        "(a short-exponent assumption, stronger than that of paillier-2048)",
        citation="Damgård, Jurik, Nielsen 2010; 448 = 4 · 112 bits, twice the length that resists generic square-root "
        "attacks",
    ),
    _paillier(
        "paillier-2048-subgroup",
        2048,
        32,
        exponent_bits=640,  # 127 bits longer than the subgroup's order, so h^a is close to uniform
        subgroup_bits=256,
        security_bits=112,
        assumption="decisional composite residuosity in a subgroup: powers of h^n, where the order of h is "
        "twice the product of two secret 256-bit primes, are indistinguishable from their products with random powers "
        "of 1 + n (not standard, less studied than that of paillier-2048; exponents are so long that no further "
        "assumption is needed)",
        citation="Paillier 1999, section 6; Damgård, Jurik, Nielsen 2010; Ma, Han, Lei 2021; best attack on the "
        "subgroup, 2^128: Coron, Joux, Mandal, Naccache, Tibouchi 2011; key length: NIST SP 800-57",
    ),
    _paillier("paillier-2048-scalar", 2048, 64, scalar=True, security_bits=112),
    Profile(  # does not multiply: its modulus is a single prime
        "ckks-8192",
        "ckks",
        8192,
        32,
        4096,
        131_328,
        0,
        128,
        "ring learning with errors, dimension 8192, 120-bit modulus; and that decryption rounds the noise away before "
        "values are released, because approximate values would reveal the key (Li, Micciancio 2021)",
        "Homomorphic Encryption Standard 2018: at most 218 bits of modulus at dimension 8192",
        forgeries_show_key=True,
        max_summands=1_000,
    ),
    _ring(1),
    _ring(4),
    _ring(16),
    _paillier(
        "insecure-test",
        512,
        32,
        security_bits=0,
        assumption="none: a 512-bit modulus is factored in hours",
        citation="for unit tests only",
    ),
)
PROFILES = {profile.name: profile for profile in _ALL}


def get_profile(name: str | Profile) -> Profile:
    """Return the profile of that name; a `Profile` must be equal to the registered one."""
    known = PROFILES.get(name.name if isinstance(name, Profile) else str(name))
    if known is None or (isinstance(name, Profile) and name != known):
        problem = f"is {name!r}" if isinstance(name, str) else "is not a registered profile"
        raise InvalidInput("profile", problem, f"choose one of {', '.join(PROFILES)}")
    return known
