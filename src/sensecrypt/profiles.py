"""Named parameter sets: what is secure enough, how values are packed, and who says so."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.errors import InvalidInput

DEFAULT_PROFILE = "ring-2048x4"
RING_HEADER_BYTES, RING_FIRST_BITS, RING_VALUE_BITS = 16, 50, 44  # of a row; of a coefficient, as crypto.ring has it


@dataclass(frozen=True)
class Profile:
    """One way to encrypt.

    Attributes:
        name: how configurations and key files call it.
        scheme: its name in the registries `crypto.schemes` and `crypto.secretschemes`.
        key_bits: length of the Paillier modulus n; for CKKS and ring the ring dimension.
        slot_bits: width of one value, sign included.
        slots: values a ciphertext.
        ciphertext_bytes: length of every ciphertext.
        exponent_bits: length of the random exponent that hides a Paillier plaintext; 0 for the others.
        security_bits: claimed strength against the best known attack; 0: none.
        assumption: what the claim rests on.
        citation: where it comes from.
        subgroup_bits: length of the primes α_p and α_q if randomizers are confined to the subgroup of order 2·α_p·α_q,
            which makes decryption faster; 0: they are not.
        multiplies: whether ciphertexts can be multiplied by a number.
        randomness_ahead: whether the randomness of ciphertexts can be made before the values are known.
        forgeries_show_key: whether decryptions of forged ciphertexts show the secret key, as those of lattice schemes
            do: then nobody may see a sum before its MAC tag matched.
        max_summands: ciphertexts that may be added before the noise of their sum could change it; None: any number.
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
        """Length of a ciphertext divided by the values in it."""
        return self.ciphertext_bytes / self.slots

    def row_bytes(self, values: int) -> int:
        """Length of a ciphertext of so many values where it travels: ring polynomials without values are left out."""
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
    # Packed values are one signed number below n/2, and n is at least 2^(key_bits − 1).
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
    """`polynomials` times 2,048 values: the more, the fewer bytes a value, and the coarser the blocks."""
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
        "quantum computers; and that nobody sees decryptions of ciphertexts that it forged",
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
        "(a short-exponent assumption, stronger than the default's)",
        citation="Damgård, Jurik, Nielsen 2010; 448 = 4 · 112 bits, twice what generic square-root attacks need",
    ),
    _paillier(
        "paillier-2048-subgroup",
        2048,
        32,
        exponent_bits=640,  # 127 bits longer than the subgroup's order
        subgroup_bits=256,
        security_bits=112,
        assumption="decisional composite residuosity in a subgroup: powers of h^n, where the order of h is "
        "twice the product of two secret 256-bit primes, are indistinguishable from their products with random powers "
        "of 1 + n (not standard, less studied than the default's; exponents are too long to need an assumption)",
        citation="Paillier 1999, section 6; Damgård, Jurik, Nielsen 2010; Ma, Han, Lei 2021; best attack on the "
        "subgroup, 2^128: Coron, Joux, Mandal, Naccache, Tibouchi 2011; key length: NIST SP 800-57",
    ),
    _paillier("paillier-2048-scalar", 2048, 64, scalar=True, security_bits=112),
    Profile(  # its modulus of one prime has no room for products
        "ckks-8192",
        "ckks",
        8192,
        32,
        4096,
        131_328,
        0,
        128,
        "ring learning with errors, dimension 8192, 120-bit modulus; and that decryption rounds the noise away before "
        "anybody sees a value, as approximate values would reveal the key (Li, Micciancio 2021)",
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
    """The profile of that name."""
    known = PROFILES.get(name.name if isinstance(name, Profile) else str(name))
    if known is None or (isinstance(name, Profile) and name != known):
        problem = f"is {name!r}" if isinstance(name, str) else "is none of the named ones"
        raise InvalidInput("profile", problem, f"choose one of {', '.join(PROFILES)}")
    return known
