"""Names of the components that ``tools.components`` builds, whose import takes longer than many commands run."""

CORE_NAMES = ("dotp", "nnrf", "simd-alu", "mult", "ex-stage", "backend", "core", "core-debug")  # components of a core

CLUSTER_NAMES = (
    *("cluster", "tcdm", "event-unit", "dma", "icache"),
    *("cluster-axi", "cluster-debug", "axi-ext", "axi-dma", "axi-refill", "core-wishbone", "cluster-wishbone"),
)
"""Components of a cluster."""

CORE_DEBUG, CLUSTER_DEBUG = "core-debug", "cluster-debug"  # with debug mode and what serves it
DEBUG_NAMES = ("dm", "jtag-dtm")  # components of external debugging

ALL_TOPS = (*CORE_NAMES, *CLUSTER_NAMES, *DEBUG_NAMES)  # all that can be generated
