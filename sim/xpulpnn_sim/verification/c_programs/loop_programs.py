"""Random C programs of several functions made of loops; each program returns a checksum."""

from collections.abc import Sequence

from xpulpnn_sim.verification.c_programs.generator import ARRAYS, SMALL, program_piece

PIECES = 6  # functions of a program
_ELEMENTS = 512
_CALLS = ((0, 0, 0), (1, 3, 7), (13, 5, 2_654_435_761), (-3, 40, 4_294_967_289), (38, -2, 97))
"""Arguments with which each function is called; the first two are equal, ascending or descending."""

PRELUDE = """\
#include <stdint.h>
#define NOINLINE __attribute__((noinline))
#ifdef __riscv
#include "xpulpnn.h"
#define DOT(a, b, acc) xp_sdotsp_b((uint32_t)(a), (uint32_t)(b), (acc))
#define MAXIMUM(a, b) ((int32_t)xp_max((uint32_t)(a), (uint32_t)(b)))
#define NEXT(pointer) ((uint32_t)xp_lw_post(&(pointer), 4))
#define TURNS(name, count) xp_hwloop_begin(0, name, count)
#define TURNS_END(name) xp_hwloop_end(0, name)
#define LOOPS XP_HWLOOP_FUNCTION
#else
static int32_t dot(uint32_t a, uint32_t b, int32_t acc) {
    for (int i = 0; i < 4; i++) acc += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return acc;
}
#define DOT(a, b, acc) dot((uint32_t)(a), (uint32_t)(b), (acc))
#define MAXIMUM(a, b) ((int32_t)(a) > (int32_t)(b) ? (int32_t)(a) : (int32_t)(b))
#define NEXT(pointer) ((uint32_t)*(pointer)++)
#define TURNS(name, count) for (uint32_t name = (count); name; name--) {
#define TURNS_END(name) }
#define LOOPS NOINLINE
#endif
#define ADD(value) (h = h * 31u + (uint32_t)(value))
typedef struct { int32_t a; int16_t b; uint8_t c; uint8_t d; int32_t e; } item_t;
"""


def program(seed: int, pieces: Sequence[int] = tuple(range(PIECES))) -> str:
    """Return C text of ``uint32_t program_SEED(void)``, which returns a checksum of all results and the memory."""
    lines = [f"/* random C program {seed} */", PRELUDE]
    lines += [f"static {kind} g_{name}[{_ELEMENTS}];" for name, kind in ARRAYS.items()]
    texts = [program_piece(seed, number) for number in pieces]
    lines += ["static item_t g_i[64];", SMALL]
    if any("g_v" in text for text in texts):
        lines.append("static volatile int32_t g_v;")
    lines.append("static NOINLINE uint32_t mix(uint32_t h, uint32_t v) { return (h ^ v) * 16777619u + (h >> 13); }")
    lines += texts
    lines += [f"uint32_t program_{seed}(void) {{", f"    uint32_t h = {seed}u;"]
    lines.append(f"    for (int i = 0; i < {_ELEMENTS}; i++) {{")
    lines += [
        f"        g_{name}[i] = ({kind})((h = h * 1664525u + 1013904223u) >> 7);" for name, kind in ARRAYS.items()
    ]
    lines.append("    }")
    lines.append("    for (int i = 0; i < 64; i++) { g_i[i].a = (int32_t)h + i; g_i[i].b = (int16_t)i; g_i[i].d = 3; }")
    lines.append("    g_n = e_n = (int32_t)h; e_p = &e_n; g_one = g_i[h & 7];")
    lines.append("    for (int i = 0; i < 4; i++) g_a[i] = (int16_t)(h >> i), e_h[i & 1] = (uint16_t)(h >> 9);")
    for number in pieces:
        lines += [f"    h = p{number}(h, {n}, {m}, {u}u);" for n, m, u in _CALLS]
    for name in ARRAYS:
        lines.append(f"    for (int i = 0; i < {_ELEMENTS}; i++) h = h * 31u + (uint32_t)g_{name}[i];")
    lines.append("    for (int i = 0; i < 64; i++) h = h * 31u + (uint32_t)(g_i[i].a + g_i[i].c + g_i[i].e);")
    lines.append("    h = h * 31u + (uint32_t)(g_n + e_n + g_one.a + g_u + g_a[1] + e_h[0]);")
    lines += ["    return h;", "}"]
    return "\n".join(lines) + "\n"
