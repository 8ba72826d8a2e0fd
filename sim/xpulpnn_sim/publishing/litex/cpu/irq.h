#ifndef IRQ_H
#define IRQ_H
/* Interrupts of LiteX: its line n is line 16 + n of the core. */

#ifdef __cplusplus
extern "C" {
#endif

#include <system.h>

#define IRQ_MSTATUS_MIE 8
#define IRQ_FIRST 16

static inline unsigned int irq_getie(void)
{
    return (csrr(mstatus) & IRQ_MSTATUS_MIE) != 0;
}

static inline void irq_setie(unsigned int ie)
{
    if (ie)
        csrs(mstatus, IRQ_MSTATUS_MIE);
    else
        csrc(mstatus, IRQ_MSTATUS_MIE);
}

static inline unsigned int irq_getmask(void)
{
    return csrr(mie) >> IRQ_FIRST;
}

static inline void irq_setmask(unsigned int mask)
{
    csrw(mie, mask << IRQ_FIRST);
}

static inline unsigned int irq_pending(void)
{
    return csrr(mip) >> IRQ_FIRST;
}

#ifdef __cplusplus
}
#endif

#endif
