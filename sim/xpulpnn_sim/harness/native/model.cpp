// C interface of a Verilated back end; Python calls it a block of instructions at a time (harness/abi.py).
#include <algorithm>
#include <memory>

#include "Vstream_top.h"
#include "driver.hpp"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

using cosim::Driver;

namespace {

Driver* active = nullptr;  // the driver whose model is being evaluated; set on entry of every call below

struct Cosim {
    explicit Cosim(const cosim::Settings& settings) : driver(settings) {
        active = &driver;
        context = std::make_unique<VerilatedContext>();
#if VM_TRACE
        context->traceEverOn(true);
#endif
        top = std::make_unique<Vstream_top>(context.get(), "stream_top");
        top->rst = 1;
        for (int i = 0; i < RESET_CYCLES; ++i) clock();
        top->rst = 0;
    }
    ~Cosim() {
#if VM_TRACE
        if (wave) wave->close();
#endif
        top->final();
    }

    void clock() {
        top->clk = 1;
        top->eval_step();
        dump();
        top->clk = 0;
        top->eval_step();
        dump();
    }

    void dump() {
#if VM_TRACE
        time += HALF_PERIOD;
        const cosim::Settings& settings = driver.settings;
        const uint64_t now = settings.dump_instructions ? driver.stats.accepted : driver.stats.cycles;
        if (wave && now >= settings.dump_from && now <= settings.dump_to) wave->dump(time);
#endif
    }

    bool open_wave(const char* path) {
#if VM_TRACE
        wave = std::make_unique<VerilatedFstC>();
        top->trace(wave.get(), TRACE_DEPTH);
        wave->open(path);
        return wave->isOpen();
#else
        (void)path;
        return false;
#endif
    }

    static constexpr int RESET_CYCLES = 3;
    Driver driver;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vstream_top> top;
#if VM_TRACE
    static constexpr int HALF_PERIOD = 5, TRACE_DEPTH = 99;
    uint64_t time = 0;
    std::unique_ptr<VerilatedFstC> wave;
#endif
};

}  // namespace

// Called by the Verilog shim (harness/shim.py) at every clock edge outside reset.
extern "C" void cosim_edge(int flags, int be_cause, int jump_target, int branch_target, int address, int wdata,
                           int* drive, int* word, int* pc, int* rdata) {
    cosim::Outputs out;
    out.ready = flags & 1;
    out.jump = flags >> 1 & 1;
    out.branch = flags >> 2 & 1;
    out.request = flags >> 3 & 1;
    out.we = flags >> 4 & 1;
    out.trap = flags >> 5 & 1;
    out.busy = flags >> 6 & 1;
    out.be = be_cause & 0xF;
    out.cause = be_cause >> 4;
    out.jump_target = jump_target;
    out.branch_target = branch_target;
    out.address = address;
    out.wdata = wdata;
    active->edge(out);
    *drive = active->valid | (active->length == 2) << 1 | active->bus.grant << 2 | active->bus.rvalid << 3;
    *word = active->word;
    *pc = active->pc;
    *rdata = active->bus.rdata;
}

extern "C" void cosim_retire(int insn, int pc, int rs1, int rs2, int rd_old, int rd_we, int rd_addr, int rd,
                             int base_we, int base_addr, int base, int address, int rmask, int wmask, int rdata,
                             int wdata, int act, int wgt, int nn_we, int nn_addr, int nn) {
    const auto u = [](int value) { return static_cast<uint32_t>(value); };
    active->retire({u(insn), u(pc), u(rs1), u(rs2), u(rd_old), u(rd_we), u(rd_addr), u(rd), u(base_we), u(base_addr),
                    u(base), u(address), u(rmask), u(wmask), u(rdata), u(wdata), u(act), u(wgt), u(nn_we), u(nn_addr),
                    u(nn)});
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* cosim_create(const cosim::Settings* settings) { return new Cosim(*settings); }

EXPORT void cosim_destroy(void* handle) {
    Cosim* self = static_cast<Cosim*>(handle);
    active = &self->driver;
    delete self;
}

EXPORT int cosim_open_wave(void* handle, const char* path) { return static_cast<Cosim*>(handle)->open_wave(path); }

EXPORT void cosim_set_program(void* handle, const cosim::StaticInsn* program, uint32_t count) {
    Driver& driver = static_cast<Cosim*>(handle)->driver;
    driver.program.assign(program, program + count);
    driver.cycles_at.assign(count, 0);
}

EXPORT void cosim_add_memory(void* handle, uint32_t base, uint32_t size, uint8_t* bytes, uint8_t* shadow) {
    Driver& driver = static_cast<Cosim*>(handle)->driver;
    driver.memory.add_window(base, size, bytes);
    driver.shadow.add_window(base, size, shadow);
}

EXPORT void cosim_add_pokes(void* handle, const cosim::Poke* pokes, uint64_t count) {
    Driver& driver = static_cast<Cosim*>(handle)->driver;
    driver.pokes.insert(driver.pokes.end(), pokes, pokes + count);
}

// Runs `count` instructions; without lookahead the pipeline is then emptied. Returns the records written.
EXPORT uint32_t cosim_run(void* handle, const uint32_t* indices, uint64_t count, uint32_t lookahead,
                          const cosim::Records* records) {
    Cosim& self = *static_cast<Cosim*>(handle);
    Driver& driver = self.driver;
    active = &driver;
    driver.checker.select(*records);
    driver.feed(indices, count, lookahead);
    while (driver.wanting()) self.clock();
    if (!lookahead) {
        while (driver.draining()) self.clock();
        driver.end_stream();
    }
    driver.end_block();
    return driver.checker.written;
}

EXPORT void cosim_stats(void* handle, cosim::Stats* stats, uint64_t* cycles_at) {
    Driver& driver = static_cast<Cosim*>(handle)->driver;
    driver.stats.mismatches = driver.log.total;
    *stats = driver.stats;
    std::copy(driver.cycles_at.begin(), driver.cycles_at.end(), cycles_at);
}

// Copies the first errors and returns how many there are in `errors`; `fatal` tells whether the run was given up.
EXPORT uint32_t cosim_errors(void* handle, cosim::Error* errors, uint32_t* fatal) {
    const cosim::ErrorLog& log = static_cast<Cosim*>(handle)->driver.log;
    const uint32_t count = log.total < cosim::ErrorLog::KEPT ? log.total : cosim::ErrorLog::KEPT;
    std::copy(log.first, log.first + count, errors);
    *fatal = log.fatal;
    return count;
}
