/* A convolution in the shape of the public test programs for PULP: main starts the cluster, core 0 brings the tensors
 * into the TCDM and forks, every core computes a chunk of the output rows with an im2col buffer of its own, and the
 * result is compared with what numpy says (layer_data.h). OLDER: the same with the names of the older runtimes.
 */
#ifdef OLDER
#include "rt/rt_api.h"
#define L2_SPACE RT_L2_DATA
#define L1_SPACE RT_CL_DATA
#define CORE_ID rt_core_id
#define BARRIER rt_team_barrier
#define ALLOCATE(size) rt_alloc(RT_ALLOC_CL_DATA, size)
#else
#include "pmsis.h"
#define L2_SPACE PI_L2
#define L1_SPACE PI_L1
#define CORE_ID pi_core_id
#define BARRIER pi_cl_team_barrier
#define ALLOCATE(size) pmsis_l1_malloc(size)
#endif

#include "layer_data.h"

#define ROW (KERNEL * KERNEL * CHANNELS)

typedef struct {
    const uint8_t *in;
    const int8_t *weights;
    uint8_t *out;
    uint8_t *im2col;
} arguments_t;

L1_SPACE static arguments_t arguments;
L1_SPACE static uint32_t rows_of_core[16];
static volatile int wrong;

static void gather(const uint8_t *in, uint8_t *patch, int y, int x) {
    for (int ky = 0; ky < KERNEL; ky++)
        for (int kx = 0; kx < KERNEL; kx++) {
            int row = y + ky - 1, column = x + kx - 1;
            if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH)
                memset(patch, 0, CHANNELS);
            else
                memcpy(patch, in + (row * WIDTH + column) * CHANNELS, CHANNELS);
            patch += CHANNELS;
        }
}

static void layer(const uint8_t *in, const int8_t *weights, uint8_t *out, uint8_t *im2col) {
    int core = CORE_ID();
    int log2_cores = __builtin_pulp_fl1(NUM_CORES);
    int chunk = (HEIGHT >> log2_cores) + ((HEIGHT & (NUM_CORES - 1)) != 0);
    int start = __builtin_pulp_minsi(chunk * core, HEIGHT), stop = __builtin_pulp_minsi(start + chunk, HEIGHT);
    uint8_t *patch = im2col + core * ROW;
    rows_of_core[core] = stop - start;
    for (int y = start; y < stop; y++)
        for (int x = 0; x < WIDTH; x++) {
            gather(in, patch, y, x);
            for (int channel = 0; channel < OUTPUTS; channel++) {
                int sum = bias[channel];
                const v4u *pixels = (const v4u *)patch;
                const v4s *filter = (const v4s *)(weights + channel * ROW);
                for (int i = 0; i < ROW / 4; i++)
                    sum = __builtin_pulp_sdotusp4(pixels[i], filter[i], sum);
                out[(y * WIDTH + x) * OUTPUTS + channel] = __builtin_pulp_clipu_r((sum * MULTIPLIER) >> SHIFT, 255);
            }
        }
    BARRIER(0);
}

static void work(void *arg) {
    arguments_t *given = arg;
    layer(given->in, given->weights, given->out, given->im2col);
}

static void bring(const void *from, void *to, uint32_t size) {
#ifdef OLDER
    rt_dma_copy_t copy;
    rt_dma_memcpy((uint32_t)from, (uint32_t)to, size, RT_DMA_DIR_EXT2LOC, 0, &copy);
    rt_dma_wait(&copy);
#else
    pi_cl_dma_copy_t copy = {0};
    copy.dir = PI_CL_DMA_DIR_EXT2LOC;
    copy.merge = 0;
    copy.size = size;
    copy.ext = (uint32_t)from;
    copy.loc = (uint32_t)to;
    pi_cl_dma_memcpy(&copy);
    pi_cl_dma_wait(&copy);
#endif
}

static void cluster_entry(void *unused) {
    (void)unused;
    uint8_t *in = ALLOCATE(sizeof input), *out = ALLOCATE(sizeof expected);
    int8_t *weights = ALLOCATE(sizeof filters);
    uint8_t *im2col = ALLOCATE(NUM_CORES * ROW);
    if (in == NULL || out == NULL || weights == NULL || im2col == NULL)
        exit(2);
    bring(input, in, sizeof input);
    bring(filters, weights, sizeof filters);
    arguments = (arguments_t){in, weights, out, im2col};
#ifdef OLDER
    rt_perf_t perf;
    rt_perf_init(&perf);
    rt_perf_conf(&perf, 1 << RT_PERF_CYCLES | 1 << RT_PERF_INSTR);
    rt_perf_reset(&perf);
    rt_perf_start(&perf);
    rt_team_fork(NUM_CORES, work, &arguments);
    rt_perf_stop(&perf);
    unsigned cycles = rt_perf_read(RT_PERF_CYCLES), instructions = rt_perf_read(RT_PERF_INSTR);
    rt_perf_save(&perf);
    rt_perf_save(&perf);
    wrong += rt_perf_get(&perf, RT_PERF_INSTR) != 2 * instructions || rt_perf_get(&perf, RT_PERF_LD) != 0;
#else
    pi_perf_conf(1 << PI_PERF_CYCLES | 1 << PI_PERF_INSTR);
    pi_perf_reset();
    pi_perf_start();
    pi_cl_team_fork(NUM_CORES, work, &arguments);
    pi_perf_stop();
    unsigned cycles = pi_perf_read(PI_PERF_CYCLES), instructions = pi_perf_read(PI_PERF_INSTR);
#endif
    int rows = 0;
    for (int core = 0; core < NUM_CORES; core++)
        rows += rows_of_core[core];
    for (unsigned i = 0; i < sizeof expected; i++)
        wrong += out[i] != expected[i];
    wrong += rows != HEIGHT || instructions == 0 || cycles < instructions;
    printf("cycles %u instructions %u wrong %d\n", cycles, instructions, wrong);
}

#ifdef OLDER
static int done;
static void end_of_call(void *argument) { done = argument == &done; }

int main(void) {
    rt_cluster_call_t call;
    rt_event_sched_t scheduler;
    rt_event_sched_init(&scheduler);
    if (rt_event_alloc(&scheduler, 4))
        return 3;
    rt_event_t *event = rt_event_get(NULL, end_of_call, &done);
    rt_cluster_mount(1, 0, 0, NULL);
    rt_cluster_call(&call, 0, cluster_entry, NULL, NULL, 2048, 1024, rt_nb_pe(), event);
    while (!done)
        rt_event_execute(NULL, 1);
    rt_cluster_mount(0, 0, 0, NULL);
    return wrong;
}
#else
static int ended;
static void end_of_task(void *argument) { ended += argument == &ended; }

static void kickoff(void) {
    struct pi_device cluster;
    struct pi_cluster_conf conf;
    struct pi_cluster_task task;
    pi_cluster_conf_init(&conf);
    conf.id = 0;
    pi_open_from_conf(&cluster, &conf);
    if (pi_cluster_open(&cluster))
        pmsis_exit(3);
    pi_task_t event;
    pi_freq_set(PI_FREQ_DOMAIN_CL, 100000000);
    pi_cluster_send_task_to_cl_async(
        &cluster, pi_cluster_task(&task, cluster_entry, NULL), pi_task_callback(&event, end_of_task, &ended));
    pi_task_wait_on(&event);
    if (ended != 1)
        pmsis_exit(4);
    pi_cluster_close(&cluster);
    pmsis_exit(wrong);
}

int main(void) { return pmsis_kickoff((void *)kickoff); }
#endif
