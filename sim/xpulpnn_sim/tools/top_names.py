"""Names of the components that ``tools.tops`` builds, which takes longer to import than many commands run."""

CORE_NAMES = ("dotp", "nnrf", "simd-alu", "mult", "ex-stage", "backend", "core")  # components of a core

CLUSTER_NAMES = (
    *("cluster", "tcdm", "event-unit", "dma", "icache"),
    *("cluster-axi", "axi-ext", "axi-dma", "axi-refill"),
)
"""Components of a cluster."""

ALL_TOPS = (*CORE_NAMES, *CLUSTER_NAMES)  # all that can be generated
