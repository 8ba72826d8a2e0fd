/* Hardware loops in C, for compilers that do not know them. Included by xpulpnn.h.
 *
 * Loop 0 is the inner one. A function that is called from a body must not use the loop of the body, and the handlers of
 * crt0.S save both. Memory is not touched by the loop itself.
 */
#ifndef XP_HWLOOP_H
#define XP_HWLOOP_H

/* A loop around C statements.
 *
 *     xp_hwloop_begin(0, rows, count)
 *         sum = xp_sdotsp_b(xp_lw_post(&a, 4), xp_lw_post(&b, 4), sum);
 *     xp_hwloop_end(0, rows)
 *
 * runs the statements `count` times, also 0 times. `rows` is any name that is used once in the file. break, continue,
 * goto and return do what they do in a for statement. The loop ends on a nop of its own, since only the compiler knows
 * where the statements are; so it takes one cycle a turn more than XP_HWLOOP_ASM.
 *
 * It is correct whatever the compiler does to the code: the end is an asm goto, so the compiler knows of the jump back
 * and provides the place it goes to, which the set-up takes from the label that the end defines. Only copies of the end
 * cannot work; they give the error "symbol already defined" of the assembler. Declare the function that holds the loop
 * with XP_HWLOOP_FUNCTION, so that it is not copied itself; unrolling is off for these loops.
 */
#define xp_hwloop_begin(loop, name, count)                                                         \
    {                                                                                              \
        uint32_t xp_count = (uint32_t)(count);                                                     \
        if (xp_count != 0) {                                                                       \
            uint32_t xp_place;                                                                     \
            __asm__ volatile("la %0, .Lxp_start_" #name "\n\tcsrw %1, %0\n\t"                      \
                             "la %0, .Lxp_end_" #name "\n\tcsrw %2, %0\n\tcsrw %3, %4"             \
                             : "=&r"(xp_place)                                                     \
                             : "i"(0x7C0 + 4 * (loop)), "i"(0x7C1 + 4 * (loop)),                   \
                               "i"(0x7C2 + 4 * (loop)), "r"(xp_count));                            \
            XP_NOT_UNROLLED                                                                        \
            for (; 1; ({                                                                           \
                     __asm__ volatile(XP_LONG);                                                    \
                     __asm__ goto(".set .Lxp_start_" #name ", %l0\n"                               \
                                  ".Lxp_end_" #name ": nop" : : : : xp_again_##name);              \
                     goto xp_done_##name;                                                          \
                 xp_again_##name:;                                                                 \
                 })) {
#define xp_hwloop_end(loop, name)                                                                  \
            }                                                                                      \
        xp_done_##name:;                                                                           \
        }                                                                                          \
    }

/* GCC copies short blocks into several paths; it takes empty lines for instructions, so this makes a block long. */
#define XP_LONG "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"

#if defined(__clang__)
#define XP_NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#define XP_HWLOOP_FUNCTION __attribute__((noinline))
#else
#define XP_NOT_UNROLLED _Pragma("GCC unroll 1")
#define XP_HWLOOP_FUNCTION __attribute__((noinline, noclone))
#endif

/* A loop within one asm statement, set up by one instruction and without any overhead.
 *
 *     XP_HWLOOP_ASM(0, count,
 *                   XP_ASM_lw_post("%[x]", "4", "%[a]") XP_ASM_lw_post("%[y]", "4", "%[b]"),
 *                   XP_ASM_sdotsp_b("%[sum]", "%[x]", "%[y]"),
 *                   ([sum] "+r"(sum), [a] "+r"(a), [b] "+r"(b), [x] "=&r"(x), [y] "=&r"(y)), (), ("memory"));
 *
 * `body` are all instructions but the last one, which is `last`; both are strings. The lists of outputs, inputs and
 * clobbers stand in parentheses. The count is in t0. A body has at most 2045 instructions. Without `xpulpnn cc`, an
 * operand in memory must have constraint "A": a linker that shortens code does not see the address of a variable here.
 */
#ifdef XP_MNEMONICS
#define XP_LP_BEGIN "lp.setup %[xp_setup], t0, .Lxp_last_%=\n\t"
#define XP_LP_OPERAND(loop) (loop)
#define XP_LP_END ""
#else
#define XP_LP_BEGIN                                                                                \
    ".option push\n\t.option norelax\n"                                                            \
    ".Lxp_setup_%=: .word %[xp_setup] + ((.Lxp_last_%= - .Lxp_setup_%=) << 19)\n\t"
#define XP_LP_OPERAND(loop) XP_LP_SETUP_T0(loop)
#define XP_LP_END "\n\t.option pop"
#endif
#define XP_HWLOOP_ASM(loop, count, body, last, outputs, inputs, clobbers)                          \
    do {                                                                                           \
        uint32_t xp_turns = (uint32_t)(count);                                                     \
        if (xp_turns != 0) {                                                                       \
            register uint32_t xp_count __asm__("t0") = xp_turns;                                   \
            __asm__ volatile(XP_LP_BEGIN body "\n.Lxp_last_%=: " last XP_LP_END                     \
                             : XP_LIST outputs                                                     \
                             : [xp_setup] "i"(XP_LP_OPERAND(loop)), "r"(xp_count) XP_MORE inputs  \
                             : XP_LIST clobbers);                                                  \
        }                                                                                          \
    } while (0)
#define XP_LIST(...) __VA_ARGS__
#define XP_MORE(...) __VA_OPT__(, ) __VA_ARGS__

#endif
