// C interface of a Verilated design; Python calls it many cycles at a time (model.py).
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "Vtestbench.h"
#include "driver.hpp"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace harness {

struct Model {
    Model(const Settings& settings, const Window* windows, uint64_t count) : driver(settings, windows, count) {
        context = std::make_unique<VerilatedContext>();
#if VM_TRACE
        context->traceEverOn(true);
#endif
        top = std::make_unique<Vtestbench>(context.get(), "testbench");
        reset();
        if (settings.reset_after) rehearse(settings, windows, count);
    }
    ~Model() {
#if VM_TRACE
        if (wave) wave->close();
#endif
        top->final();
    }

    void reset() {
        for (int i = 0; i < RESET_CYCLES; ++i, edge()) top->rst = i < RESET_CYCLES - 1;
    }

    // Runs for some cycles without interrupts, and starts again with a reset in the midst of it; memory is as before.
    void rehearse(const Settings& settings, const Window* windows, uint64_t count) {
        std::vector<std::vector<uint8_t>> kept;
        for (uint64_t i = 0; i < count; ++i) {
            const auto* place = reinterpret_cast<const uint8_t*>(windows[i].place);
            kept.emplace_back(place, place + (place ? windows[i].size : 0));
        }
        driver.settings.collect = driver.settings.irq_rate = driver.settings.halt_rate = driver.driven.collect = 0;
        for (uint32_t i = 0; i < settings.reset_after; ++i) clock();
        for (uint64_t i = 0; i < count; ++i) {
            std::copy(kept[i].begin(), kept[i].end(), reinterpret_cast<uint8_t*>(windows[i].place));
        }
        driver.~Driver();
        new (&driver) Driver(settings, windows, count);
        reset();
    }

    // One clock cycle: the driver sees how it ends and chooses the inputs of the next one.
    void clock() {
        Observed seen;
        std::memcpy(&seen, top->observed.data(), sizeof seen);
        if (driver.settings.collect) {
            for (uint32_t hart = 0; hart < HARTS; ++hart) {
                if (seen.retire[hart].valid) driver.record(hart, top->records.data() + hart * RECORD_WORDS);
            }
        }
        driver.edge(seen);
        edge();
        if (JTAG_PORTS) scan();
    }

    // Scans of the test access port take few clock cycles, to save time; waveforms show each edge. Between two accesses
    // there must be clock cycles enough for a handshake that goes back to its beginning.
    void scan() {
        Observed seen;
        for (int count = 0; count < SCANNED; ++count) {
            std::memcpy(&seen, top->observed.data(), sizeof seen);
            if (!driver.scan(seen)) break;
            std::memcpy(top->coming.data(), &driver.driven, sizeof driver.driven);
            top->eval();
        }
    }

    void edge() {
        std::memcpy(top->coming.data(), &driver.driven, sizeof driver.driven);
        do {
            top->clk = !top->clk;
            top->eval();
            dump();
        } while (top->clk && !BOTH_EDGES);
    }

    void dump() {
#if VM_TRACE
        time += HALF_PERIOD;
        const Settings& settings = driver.settings;
        const uint64_t now = settings.dump_instructions ? driver.status.accepted : driver.status.cycles + 1;
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

    static constexpr int RESET_CYCLES = 4, SCANNED = VM_TRACE ? 0 : 12;
    Driver driver;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vtestbench> top;
#if VM_TRACE
    static constexpr int HALF_PERIOD = 5, TRACE_DEPTH = 99;
    uint64_t time = 0;
    std::unique_ptr<VerilatedFstC> wave;
#endif
};

}  // namespace harness

using namespace harness;

#define EXPORT extern "C" __attribute__((visibility("default")))

// nullptr if there is to be a waveform and its file cannot be written.
EXPORT Model* model_create(const Settings* settings, const Window* windows, uint64_t count, const Interrupt* interrupts,
                           uint64_t rising, const char* wave) {
    auto model = std::make_unique<Model>(*settings, windows, count);
    model->driver.interrupts.assign(interrupts, interrupts + rising);
    return wave && !model->open_wave(wave) ? nullptr : model.release();
}

EXPORT void model_destroy(Model* self) { delete self; }

EXPORT void model_account(Model* self, uint64_t hart, uint64_t base, uint64_t bytes, uint64_t* rows) {
    self->driver.accounts[hart].start(base, bytes, rows);
}

EXPORT void model_set_stream(Model* self, const StreamInsn* program, uint64_t count, const uint32_t* sequence,
                             uint64_t length, const Poke* pokes, uint64_t poked) {
    self->driver.stream.program.assign(program, program + count);
    self->driver.stream.feed(sequence, length);
    self->driver.stream.pokes.assign(pokes, pokes + poked);
}

// Where the records of each hart and the grants of all go until the next call.
EXPORT void model_collect(Model* self, uint64_t hart, Retirement* records, uint32_t* lines, Waits* waits,
                          uint64_t capacity, Grant* grants, uint64_t grant_capacity) {
    Driver& driver = self->driver;
    driver.records[hart] = {records, lines, waits};
    driver.harts[hart].records = 0;
    driver.capacity = capacity;
    driver.grants = grants;
    driver.grant_capacity = grant_capacity;
    driver.status.grants = 0;
}

// How often the DMA engine has been active so far, and when, unless there is no room for that.
EXPORT uint64_t model_activities(Model* self, Activity* activities) {
    const auto& all = self->driver.activities;
    if (activities) std::copy(all.begin(), all.end(), activities);
    return all.size();
}

// Runs until an event, the cycle `limit`, or all of the stream has retired.
EXPORT void model_advance(Model* self, uint64_t limit, Status* status, HartStatus* harts) {
    Driver& driver = self->driver;
    driver.status.events = 0;
    while (!driver.status.events) {
        if (driver.status.cycles >= limit) {
            driver.status.events |= CYCLE_LIMIT;
        } else if (STREAMS && !driver.stream.wanting() && driver.harts[0].retired >= driver.status.accepted) {
            driver.status.events |= STREAM_DONE;
        } else {
            self->clock();
        }
    }
    *status = driver.status;
    std::copy(driver.harts.begin(), driver.harts.end(), harts);
}

#if VM_COVERAGE
// Of the model that was simulated last in this thread.
EXPORT void write_coverage(const char* path) { Verilated::threadContextp()->coveragep()->write(path); }
#endif
