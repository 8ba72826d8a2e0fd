"""The xpulpnn hardware generator: ISA table, configuration and Amaranth components."""

from xpulpnn.lazy import loader

HOMES = {
    "Backend": "xpulpnn.core.backend",
    "Core": "xpulpnn.core.core",
    "CoreConfig": "xpulpnn.config",
    "DotpConfig": "xpulpnn.config",
    "DotpUnit": "xpulpnn.dotp.unit",
    "ExStage": "xpulpnn.core.ex_stage",
    "InstructionPortSignature": "xpulpnn.core.obi",
    "Mult": "xpulpnn.core.mult",
    "NnRf": "xpulpnn.dotp.nnrf",
    "ObiSignature": "xpulpnn.core.obi",
    "PRESETS": "xpulpnn.config",
    "SimdAlu": "xpulpnn.core.simd_alu",
    "preset": "xpulpnn.config",
}
"""The public names and the modules they are loaded from when they are first used."""

__getattr__ = loader(__name__, HOMES)
