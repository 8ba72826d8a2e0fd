"""Names of the components that ``tools.components`` builds; a separate module, as that one is slow to import."""

ARITHMETIC_UNITS = ("dotp", "nnrf", "simd-alu", "mult")  # whose clock is not that of a kernel
CORE_NAMES = (*ARITHMETIC_UNITS, "ex-stage", "backend", "core", "core-debug")

CORE_BUSES = ("wishbone", "axi", "ahb")  # buses that a core can have instead of OBI
CLUSTER_NAMES = (
    *("cluster", "tcdm", "event-unit", "dma", "icache"),
    *("cluster-axi", "cluster-debug", "axi-ext", "axi-dma", "axi-refill", "axi-host", "cluster-wishbone"),
    *(f"core-{bus}" for bus in CORE_BUSES),
)
CORE_DEBUG = "core-debug"  # core with debug module
DEBUG_NAMES = ("dm", "jtag-dtm")
XIF = "xif"  # coprocessor behind CV-X-IF
ALL_TOPS = (*CORE_NAMES, *CLUSTER_NAMES, *DEBUG_NAMES, XIF)
