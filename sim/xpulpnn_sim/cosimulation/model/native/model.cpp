// C interface of a Verilated design; Python calls it many cycles at a time (model.py).
#include <memory>

#include "Vtestbench.h"
#include "checker.hpp"
#include "driver.hpp"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

using harness::Checker;
using harness::Driver;

namespace {

struct Model {
    explicit Model(const harness::Settings& settings) : driver(settings) {
        context = std::make_unique<VerilatedContext>();
#if VM_TRACE
        context->traceEverOn(true);
#endif
        top = std::make_unique<Vtestbench>(context.get(), "testbench");
        top->rst = 1;
        for (int i = 0; i < RESET_CYCLES; ++i) edge();
        top->rst = 0;
    }
    ~Model() {
#if VM_TRACE
        if (wave) wave->close();
#endif
        top->final();
    }

    // One clock cycle: the driver sees how it ends and chooses the inputs of the next one.
    void clock() {
        harness::Observed seen;
        std::memcpy(&seen, top->observed.data(), sizeof seen);
        if (driver.settings.collect) {
            for (uint32_t hart = 0; hart < harness::HARTS; ++hart) {
                if (seen.retire[hart].valid) driver.record(hart, top->records.data() + hart * harness::RECORD_WORDS);
            }
        }
        driver.edge(seen);
        edge();
    }

    // The clock edge, which brings the inputs that the driver has chosen.
    void edge() {
        std::memcpy(top->coming.data(), &driver.driven, sizeof driver.driven);
        do {
            top->clk = !top->clk;
            top->eval();
            dump();
        } while (top->clk && !harness::BOTH_EDGES);
    }

    void dump() {
#if VM_TRACE
        time += HALF_PERIOD;
        const harness::Settings& settings = driver.settings;
        const uint64_t now = settings.dump_instructions ? driver.stream.accepted() : driver.status.cycles;
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
    std::unique_ptr<Vtestbench> top;
#if VM_TRACE
    static constexpr int HALF_PERIOD = 5, TRACE_DEPTH = 99;
    uint64_t time = 0;
    std::unique_ptr<VerilatedFstC> wave;
#endif
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* model_create(const harness::Settings* settings) { return new Model(*settings); }

EXPORT void model_destroy(void* handle) { delete static_cast<Model*>(handle); }

EXPORT int model_open_wave(void* handle, const char* path) { return static_cast<Model*>(handle)->open_wave(path); }

EXPORT void model_add_memory(void* handle, uint32_t base, uint32_t size, uint8_t* bytes) {
    static_cast<Model*>(handle)->driver.add_memory(base, size, bytes);
}

EXPORT void model_add_errors(void* handle, uint32_t base, uint32_t size) {
    static_cast<Model*>(handle)->driver.memory.add_errors(base, size);
}

EXPORT void model_add_interrupts(void* handle, const harness::Interrupt* interrupts, uint64_t count) {
    static_cast<Model*>(handle)->driver.interrupts.assign(interrupts, interrupts + count);
}

EXPORT void model_account(void* handle, uint32_t hart, uint32_t base, uint32_t bytes, uint64_t* rows) {
    static_cast<Model*>(handle)->driver.accounts[hart].start(base, bytes, rows);
}

EXPORT void model_set_program(void* handle, const harness::StreamInsn* program, uint32_t count) {
    static_cast<Model*>(handle)->driver.stream.program.assign(program, program + count);
}

EXPORT void model_add_pokes(void* handle, const harness::Poke* pokes, uint64_t count) {
    auto& all = static_cast<Model*>(handle)->driver.stream.pokes;
    all.insert(all.end(), pokes, pokes + count);
}

EXPORT void model_feed(void* handle, const uint32_t* indices, uint64_t count, uint64_t lookahead) {
    static_cast<Model*>(handle)->driver.stream.feed(indices, count, lookahead);
}

// Where the records of each hart and the grants of all go until the next call.
EXPORT void model_collect(void* handle, uint32_t hart, harness::Retirement* records, uint32_t* lines, uint32_t capacity,
                          harness::Grant* grants, uint32_t grant_capacity) {
    Driver& driver = static_cast<Model*>(handle)->driver;
    driver.records[hart] = {records, lines};
    driver.harts[hart].records = 0;
    driver.capacity = capacity;
    driver.grants = grants;
    driver.grant_capacity = grant_capacity;
    driver.status.grants = 0;
}

// How often the DMA engine has been active so far, and when, unless there is no room for that.
EXPORT uint64_t model_activities(void* handle, harness::Activity* activities) {
    const auto& all = static_cast<Model*>(handle)->driver.activities;
    if (activities) std::copy(all.begin(), all.end(), activities);
    return all.size();
}

// Runs until an event, the cycle `limit`, or the end of the stream's block; with `drain`, until all that was accepted
// has retired.
EXPORT void model_advance(void* handle, uint64_t limit, uint32_t drain, harness::Status* status,
                          harness::HartStatus* harts) {
    Model& self = *static_cast<Model*>(handle);
    Driver& driver = self.driver;
    driver.status.events = 0;
    while (!driver.status.events) {
        if (driver.status.cycles >= limit) {
            driver.status.events |= harness::CYCLE_LIMIT;
        } else if (harness::STREAMS && !driver.stream.wanting() &&
                   (!drain || driver.harts[0].retired >= driver.stream.accepted())) {
            driver.status.events |= harness::STREAM_DONE;
        } else {
            self.clock();
        }
    }
    driver.status.accepted = driver.stream.accepted();
    driver.status.first_offered = driver.stream.first_offered();
    driver.status.position = driver.stream.wrong.position;
    driver.status.expected = driver.stream.wrong.expected;
    driver.status.got = driver.stream.wrong.got;
    *status = driver.status;
    std::copy(driver.harts.begin(), driver.harts.end(), harts);
}

EXPORT void* check_create(const harness::CheckSettings* settings) { return new Checker(*settings); }

EXPORT void check_destroy(void* handle) { delete static_cast<Checker*>(handle); }

EXPORT void check_add_memory(void* handle, uint32_t base, uint32_t size, uint8_t* bytes) {
    static_cast<Checker*>(handle)->shadow.add_window(base, size, bytes);
}

EXPORT void check_add_errors(void* handle, uint32_t base, uint32_t size) {
    static_cast<Checker*>(handle)->shadow.add_errors(base, size);
}

EXPORT void check_add_csrs(void* handle, uint32_t hart, const harness::CsrState* csrs, uint32_t count) {
    static_cast<Checker*>(handle)->hart(hart).add_csrs(csrs, count);
}

EXPORT void check_add_insns(void* handle, const harness::CheckInsn* insns, uint32_t count) {
    static_cast<Checker*>(handle)->text.add(insns, count);
}

// The steps of a block, described in checker.hpp.
EXPORT uint32_t check_find(void* handle, uint32_t hart, const harness::Retirement* records, uint32_t count,
                           uint32_t* unknown) {
    return static_cast<Checker*>(handle)->hart(hart).find(records, count, unknown);
}

EXPORT void check_distribute(void* handle, uint32_t hart, uint32_t groups, uint32_t* starts, uint32_t* values) {
    static_cast<Checker*>(handle)->hart(hart).distribute(groups, starts, values);
}

EXPORT void check_transfers(void* handle, uint32_t hart, const uint32_t* lines, const uint8_t* taken,
                            const uint32_t* targets) {
    static_cast<Checker*>(handle)->hart(hart).transfers(lines, taken, targets);
}

EXPORT uint32_t check_block(void* handle, const harness::Grant* grants, uint32_t count, harness::CheckError* errors) {
    return static_cast<Checker*>(handle)->check(grants, count, errors);
}

EXPORT void check_finish(void* handle) { static_cast<Checker*>(handle)->finish(); }
