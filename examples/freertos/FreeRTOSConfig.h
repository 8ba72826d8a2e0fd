/* Settings of the kernel for a core with a CLINT, as `iss --clint` and `run --clint` have one, or for core 0 of a
   cluster with one. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include <xpulpnn_rt.h>

#define configMTIME_BASE_ADDRESS (XP_CLINT_BASE + 0xBFF8)
#define configMTIMECMP_BASE_ADDRESS (XP_CLINT_BASE + 0x4000)
#define configCPU_CLOCK_HZ 1000000
#ifndef TICK_CYCLES
#define TICK_CYCLES 5000
#endif
#define configTICK_RATE_HZ (configCPU_CLOCK_HZ / TICK_CYCLES)
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS

#define configUSE_PREEMPTION 1
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define configUSE_MUTEXES 1
#define configUSE_TIMERS 1
#define configTIMER_TASK_PRIORITY 4
#define configTIMER_QUEUE_LENGTH 4
#define configTIMER_TASK_STACK_DEPTH 256
#define configMAX_PRIORITIES 5
#define configMINIMAL_STACK_SIZE 256
#define configISR_STACK_SIZE_WORDS 256
#define configTOTAL_HEAP_SIZE 32768
#define configSUPPORT_STATIC_ALLOCATION 0
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configCHECK_FOR_STACK_OVERFLOW 0
#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskSuspend 1
#define INCLUDE_xTaskDelayUntil 1

void xp_config_failed(const char *file, int line);
#define configASSERT(condition)                                                                    \
    if (!(condition))                                                                              \
    xp_config_failed(__FILE__, __LINE__)

#endif
