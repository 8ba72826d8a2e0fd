/* What a program on the bare core may use besides the C library: trap handlers, counters, end of the program. */
#ifndef XPULPNN_RT_H
#define XPULPNN_RT_H

#include <stdint.h>
#include <xp_config.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XP_CSR_READ(csr)                                                                           \
    ({                                                                                             \
        uint32_t xp_value;                                                                         \
        __asm__ volatile("csrr %0, %1" : "=r"(xp_value) : "i"(csr));                               \
        xp_value;                                                                                  \
    })
#define XP_CSR_WRITE(csr, value) __asm__ volatile("csrw %0, %1" : : "i"(csr), "r"((uint32_t)(value)) : "memory")
#define XP_CSR_SET(csr, bits) __asm__ volatile("csrs %0, %1" : : "i"(csr), "r"((uint32_t)(bits)) : "memory")
#define XP_CSR_CLEAR(csr, bits) __asm__ volatile("csrc %0, %1" : : "i"(csr), "r"((uint32_t)(bits)) : "memory")

enum { XP_MSTATUS = 0x300, XP_MIE = 0x304, XP_MTVEC = 0x305, XP_MCOUNTINHIBIT = 0x320, XP_MIP = 0x344, XP_MHARTID = 0xF14 };
enum { XP_MSTATUS_MIE = 1 << 3 };
enum { XP_MCYCLE = 0xB00, XP_MCYCLEH = 0xB80, XP_MINSTRET = 0xB02, XP_MINSTRETH = 0xB82 };
enum { XP_LOOP = 0x7C0, XP_NN = 0x7D0 }; /* registers of hardware loops; words of the NN-RF, if they are CSRs */
enum { XP_PCCR = 0x780, XP_PCCR_ALL = 0x79F, XP_PCER = 0xCC0, XP_PCMR = 0xCC1 };

#if defined XP_HAVE_XPULPV2 && (defined XP_NN_WORDS || !(defined XP_HAVE_MAC_LOAD_NN || defined XP_HAVE_MAC_LOAD_CU))
/* State of a task beside its registers: what a scheduler saves and restores when it switches tasks in a kernel. */
struct xp_context {
    uint32_t loops[7]; /* the fourth is not used */
#ifdef XP_NN_WORDS
    uint32_t nn[XP_NN_WORDS];
#endif
};
#define XP_LOOP_EACH(macro) macro(0) macro(1) macro(2) macro(4) macro(5) macro(6)
#define XP_SAVE_LOOP(number) context->loops[number] = XP_CSR_READ(XP_LOOP + (number));
#define XP_RESTORE_LOOP(number) XP_CSR_WRITE(XP_LOOP + (number), context->loops[number]);
#define XP_SAVE_NN(number) context->nn[number] = XP_CSR_READ(XP_NN + (number));
#define XP_RESTORE_NN(number) XP_CSR_WRITE(XP_NN + (number), context->nn[number]);
#ifndef XP_NN_EACH
#define XP_NN_EACH(macro)
#endif
static inline void xp_context_save(struct xp_context *context) {
    XP_LOOP_EACH(XP_SAVE_LOOP)
    XP_NN_EACH(XP_SAVE_NN)
}
static inline void xp_context_restore(const struct xp_context *context) {
    XP_LOOP_EACH(XP_RESTORE_LOOP)
    XP_NN_EACH(XP_RESTORE_NN)
}
#endif

/* Registers of the interrupted program. */
struct xp_frame {
    uint32_t x[32]; /* x[0] is 0, x[2] the stack pointer; changes to these two are ignored */
    uint32_t mepc, mcause, mstatus;
};

/* Handlers a program may define. Without one, a trap ends the program with the code XP_FAIL_EXCEPTION + mcause or
   XP_FAIL_INTERRUPT + line, after a message. */
void xp_exception(struct xp_frame *frame);
enum { XP_FAIL_EXCEPTION = 0x1000, XP_FAIL_INTERRUPT = 0x2000, XP_FAIL_ABORT = 0x3000, XP_FAIL_STACK = 0x4000 };

/* Interrupts by line: 3 software, 7 timer, 11 external, 16..31 custom. */
static inline void xp_irq_enable(unsigned line) { XP_CSR_SET(XP_MIE, 1u << line); }
static inline void xp_irq_disable(unsigned line) { XP_CSR_CLEAR(XP_MIE, 1u << line); }
static inline void xp_irq_on(void) { XP_CSR_SET(XP_MSTATUS, XP_MSTATUS_MIE); }
static inline void xp_irq_off(void) { XP_CSR_CLEAR(XP_MSTATUS, XP_MSTATUS_MIE); }
static inline void xp_wait_for_interrupt(void) { __asm__ volatile("wfi" : : : "memory"); }

/* Low words: enough for differences below 2^32. */
static inline uint32_t xp_cycles(void) { return XP_CSR_READ(XP_MCYCLE); }
static inline uint32_t xp_instructions(void) { return XP_CSR_READ(XP_MINSTRET); }

/* Reads the high word on both sides of the low word, so that a carry between them is noticed. */
#define XP_CSR_READ64(low, high)                                                                   \
    ({                                                                                             \
        uint32_t xp_high, xp_low;                                                                  \
        do {                                                                                       \
            xp_high = XP_CSR_READ(high);                                                           \
            xp_low = XP_CSR_READ(low);                                                             \
        } while (xp_high != XP_CSR_READ(high));                                                    \
        (uint64_t)xp_high << 32 | xp_low;                                                          \
    })
static inline uint64_t xp_cycles64(void) { return XP_CSR_READ64(XP_MCYCLE, XP_MCYCLEH); }
static inline uint64_t xp_instructions64(void) { return XP_CSR_READ64(XP_MINSTRET, XP_MINSTRETH); }

/* Registers of a core-local interruptor, in systems that have one: `iss --clint`, `run --clint`. MSIP and MTIMECMP are
   those of core 0; those of core n of a cluster are (&XP_CLINT_MSIP)[n], (&XP_CLINT_MTIMECMP)[n]. */
#ifdef XP_CLUSTER
#define XP_CLINT_BASE 0x10210000
#else
#define XP_CLINT_BASE 0x02000000
#endif
#define XP_CLINT_MSIP (*(volatile uint32_t *)XP_CLINT_BASE)
#define XP_CLINT_MTIMECMP (*(volatile uint64_t *)(XP_CLINT_BASE + 0x4000))
#define XP_CLINT_MTIME ((volatile uint32_t *)(XP_CLINT_BASE + 0xBFF8))
static inline uint64_t xp_time(void) {
    uint32_t high, low;
    do {
        high = XP_CLINT_MTIME[1];
        low = XP_CLINT_MTIME[0];
    } while (high != XP_CLINT_MTIME[1]);
    return (uint64_t)high << 32 | low;
}

static inline uint32_t xp_hart_id(void) { return XP_CSR_READ(XP_MHARTID); }

#ifdef XP_HAVE_PERFORMANCE_COUNTERS
/* Clears all counters, then counts every event of the mask (bit 1 << event), XP_EVENT_... of xp_config.h. */
static inline void xp_counters_start(uint32_t events) {
    XP_CSR_WRITE(XP_PCMR, 0);
    XP_CSR_WRITE(XP_PCCR_ALL, 0);
    XP_CSR_WRITE(XP_PCER, events);
    XP_CSR_WRITE(XP_PCMR, 1);
}
static inline void xp_counters_stop(void) { XP_CSR_WRITE(XP_PCMR, 0); }
/* The event must be a constant. */
#define xp_counter(event) XP_CSR_READ(XP_PCCR + (event))
#endif

/* Sends bytes to the host: file 1 is its standard output, 2 its error output. printf and all others end here; a program
   may define it itself, to send them to a UART for instance. */
void xp_write(int file, const void *bytes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
