#ifndef SYSTEM_H
#define SYSTEM_H
/* What LiteX's software asks of a CPU: CSRs and caches. */

#ifdef __cplusplus
extern "C" {
#endif

#define csrr(name) ({ unsigned long value_; __asm__ volatile ("csrr %0, " #name : "=r"(value_)); value_; })
#define csrw(name, value) ({ __asm__ volatile ("csrw " #name ", %0" :: "rK"(value)); })
#define csrs(name, bits) ({ __asm__ volatile ("csrs " #name ", %0" :: "rK"(bits)); })
#define csrc(name, bits) ({ __asm__ volatile ("csrc " #name ", %0" :: "rK"(bits)); })

static inline void flush_cpu_icache(void)
{
    __asm__ volatile ("fence.i" ::: "memory");
}

/* There is no data cache. */
static inline void flush_cpu_dcache(void)
{
}

void flush_l2_cache(void);
void busy_wait(unsigned int ms);
void busy_wait_us(unsigned int us);

#ifdef __cplusplus
}
#endif

#endif
