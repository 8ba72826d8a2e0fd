/* FreeRTOS with three tasks in kernels of their own, which the tick interrupts, a queue, a timer and a mutex. KERNEL is
   the folder of its sources, FreeRTOS-Kernel:

       P=$KERNEL/portable/GCC/RISC-V
       xpulpnn cc --preset xpulpnn --set nn_csrs=true -I examples/freertos -I $KERNEL/include -I $P \
           examples/freertos/demo.c examples/freertos/vectors.S $KERNEL/tasks.c $KERNEL/queue.c $KERNEL/list.c \
           $KERNEL/timers.c $P/port.c $P/portASM.S $KERNEL/portable/MemMang/heap_4.c -o build/freertos.elf
       xpulpnn iss --clint build/freertos.elf

   The result of each turn of a kernel is compared with plain C. RUN_TICKS ticks of TICK_CYCLES cycles after the first
   one all ends. */
#include <FreeRTOS.h>
#include <queue.h>
#include <semphr.h>
#include <stdio.h>
#include <stdlib.h>
#include <task.h>
#include <timers.h>
#include <xpulpnn_rt.h>
#ifdef XP_HAVE_MAC_LOAD_NN
#include <xpulpnn.h>
#endif

#ifndef RUN_TICKS
#define RUN_TICKS 200
#endif
enum { TASKS = 3, WORDS = 64, TIMER_TICKS = 10, LOAD_A = 1 << 3, LOAD_W = 1 << 4 };
static uint32_t activations[TASKS][WORDS + 1], weights[TASKS][WORDS + 1];
static unsigned turns[TASKS], wrong, timers, received, sum_of_turns, shared, expected_shared;
static QueueHandle_t queue;
static SemaphoreHandle_t mutex;

void xp_config_failed(const char *file, int line) {
    printf("%s:%d: assertion of the kernel failed\n", file, line);
    abort();
}

/* Sum of products of unsigned activations and signed weights of 8 bits, in plain C and with Mac&Load. */
static int32_t plain(unsigned task) {
    int32_t sum = 0;
    for (unsigned at = 0; at < 4 * WORDS; ++at)
        sum += ((uint8_t *)activations[task])[at] * ((int8_t *)weights[task])[at];
    return sum;
}

static int32_t kernel(unsigned task) {
#ifdef XP_HAVE_MAC_LOAD_NN
    const uint32_t *a = activations[task], *w = weights[task];
    int32_t sum = 0;
    xp_nn_load(&a, LOAD_A);
    for (int word = 0; word < WORDS; ++word) {
        xp_nn_load(&w, LOAD_W);
        sum = xp_mlsdotsup_b(sum, &a, LOAD_A);
    }
    return sum;
#else
    return plain(task);
#endif
}

static void compute(void *number) {
    unsigned task = (unsigned)(uintptr_t)number;
    int32_t right = plain(task);
    for (;;) {
        if (kernel(task) != right)
            ++wrong;
        ++turns[task];
        xSemaphoreTake(mutex, portMAX_DELAY);
        unsigned before = shared;
        taskYIELD();
        shared = before + 1;
        ++expected_shared;
        xSemaphoreGive(mutex);
        xQueueSend(queue, &task, portMAX_DELAY);
    }
}

static void fire(TimerHandle_t timer) {
    (void)timer;
    ++timers;
}

static void finish(void *unused) {
    TickType_t tick = xTaskGetTickCount(), first = tick;
    uint64_t began = xp_time();
    (void)unused;
    vTaskDelayUntil(&tick, RUN_TICKS);
    uint64_t cycles = xp_time() - began;
    for (unsigned task = 0; task < TASKS; ++task)
        sum_of_turns += turns[task];
    unsigned ticks = (unsigned)(xTaskGetTickCount() - first), fewest = turns[0];
    for (unsigned task = 1; task < TASKS; ++task)
        fewest = turns[task] < fewest ? turns[task] : fewest;
    int exact = ticks == RUN_TICKS && cycles / TICK_CYCLES + 1 >= RUN_TICKS && cycles / TICK_CYCLES <= RUN_TICKS;
    int good = exact && wrong == 0 && fewest > 0 && shared == expected_shared && timers >= RUN_TICKS / TIMER_TICKS - 1;
    printf("%u ticks, %u turns, %u received, %u wrong, %u of %u shared, %u timers: %s\n", ticks, sum_of_turns, received,
           wrong, shared, expected_shared, timers, good ? "right" : "WRONG");
    exit(!good);
}

static void receive(void *unused) {
    unsigned task;
    (void)unused;
    for (;;) {
        xQueueReceive(queue, &task, portMAX_DELAY);
        ++received;
    }
}

int main(void) {
    for (unsigned task = 0; task < TASKS; ++task)
        for (unsigned word = 0; word < WORDS; ++word) {
            activations[task][word] = 0x9E3779B9u * (word + 100 * task + 1);
            weights[task][word] = 0x85EBCA6Bu * (word + 37 * task + 3);
        }
    queue = xQueueCreate(4, sizeof(unsigned));
    mutex = xSemaphoreCreateMutex();
    for (uintptr_t task = 0; task < TASKS; ++task)
        xTaskCreate(compute, "compute", 256, (void *)task, 1, NULL);
    xTaskCreate(receive, "receive", 256, NULL, 2, NULL);
    xTaskCreate(finish, "finish", 1024, NULL, 3, NULL);
    xTimerStart(xTimerCreate("timer", TIMER_TICKS, pdTRUE, NULL, fire), 0);
    vTaskStartScheduler();
    return 1;
}
