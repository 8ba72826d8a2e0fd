// C interface of a Verilated core; Python calls it many cycles at a time (harness/core_abi.py).
#include <memory>

#include "Vcore_top.h"
#include "Vcore_top___024root.h"
#include "core_checker.hpp"
#include "core_driver.hpp"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

// Evaluation without the bookkeeping of Verilator's threads and $finish, which the core has no use for.
void Vcore_top___024root___eval(Vcore_top___024root* root);

using cosim::CoreChecker;
using cosim::CoreDriver;

namespace {

CoreDriver* active = nullptr;  // the driver whose model is being evaluated; set on entry of every call below

struct Core {
    explicit Core(const cosim::CoreSettings& settings) : driver(settings) {
        active = &driver;
        context = std::make_unique<VerilatedContext>();
#if VM_TRACE
        context->traceEverOn(true);
#endif
        top = std::make_unique<Vcore_top>(context.get(), "core_top");
        top->rst = 1;
        top->boot_addr = settings.boot_addr;
        top->hart_id = settings.hart_id;
        for (int i = 0; i < RESET_CYCLES; ++i) {
            top->clk = 1;
            top->eval_step();
            top->clk = 0;
            top->eval_step();
        }
        top->rst = 0;
    }
    ~Core() {
#if VM_TRACE
        if (wave) wave->close();
#endif
        top->final();
    }

    void clock() {
#if VM_TRACE
        top->clk = 1;
        top->eval_step();
        dump();
        top->clk = 0;
        top->eval_step();
        dump();
#else
        // nothing happens at the falling edge: forget the level seen last instead of evaluating it
        top->rootp->__Vtrigprevexpr___TOP__clk__0 = 0;
        top->clk = 1;
        Vcore_top___024root___eval(top->rootp);
#endif
    }

#if VM_TRACE
    void dump() {
        time += HALF_PERIOD;
        const uint64_t now = driver.status.cycles;
        if (wave && now >= driver.settings.dump_from && now <= driver.settings.dump_to) wave->dump(time);
    }
#endif

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
    CoreDriver driver;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vcore_top> top;
#if VM_TRACE
    static constexpr int HALF_PERIOD = 5, TRACE_DEPTH = 99;
    uint64_t time = 0;
    std::unique_ptr<VerilatedFstC> wave;
#endif
};

}  // namespace

// Called by the Verilog shim (harness/core_shim.py) at every clock edge outside reset.
extern "C" void core_edge(int flags, int fetch_address, int address, int wdata, int pc, int next_pc, int insn,
                          int* drive, int* fetched, int* rdata, int* irq) {
    cosim::CoreOutputs out;
    out.fetch = flags & 1;
    out.request = flags >> 1 & 1;
    out.we = flags >> 2 & 1;
    out.ack = flags >> 3 & 1;
    out.sleep = flags >> 4 & 1;
    out.valid = flags >> 5 & 1;
    out.trap = flags >> 6 & 1;
    out.be = flags >> 7 & 0xF;
    out.irq_id = flags >> 11 & 0x1F;
    out.cause = flags >> 16 & 0x3F;
    out.fetch_address = fetch_address;
    out.address = address;
    out.wdata = wdata;
    out.pc = pc;
    out.next_pc = next_pc;
    out.insn = insn;
    active->edge(out);
    *drive = active->fetch_bus.grant | active->fetch_bus.rvalid << 1 | active->data_bus.grant << 2 |
             active->data_bus.rvalid << 3 | active->settings.collect << 4;
    *fetched = active->fetch_bus.rdata;
    *rdata = active->data_bus.rdata;
    *irq = active->status.lines;
}

// Called before core_edge in cycles with a retirement, if retirements are recorded.
extern "C" void core_retire(const svBitVecVal* fields) {
    cosim::CoreRetirement retirement;
    retirement.order = active->status.retired;
    retirement.cycle = active->status.cycles + 1;
    std::memcpy(&retirement.insn, fields, sizeof retirement - offsetof(cosim::CoreRetirement, insn));
    active->record(retirement);
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* core_create(const cosim::CoreSettings* settings) { return new Core(*settings); }

EXPORT void core_destroy(void* handle) {
    Core* self = static_cast<Core*>(handle);
    active = &self->driver;
    delete self;
}

EXPORT int core_open_wave(void* handle, const char* path) { return static_cast<Core*>(handle)->open_wave(path); }

EXPORT void core_add_memory(void* handle, uint32_t base, uint32_t size, uint8_t* bytes) {
    static_cast<Core*>(handle)->driver.memory.add_window(base, size, bytes);
}

EXPORT void core_add_irqs(void* handle, const cosim::CoreIrq* irqs, uint64_t count) {
    static_cast<Core*>(handle)->driver.irqs.assign(irqs, irqs + count);
}

// Runs until an event or the cycle `limit`; records go to `records`, the interrupt lines of each to `lines`, both of
// which have room for `capacity`.
EXPORT void core_advance(void* handle, uint64_t limit, cosim::CoreRetirement* records, uint32_t* lines,
                         uint32_t capacity, cosim::CoreStatus* status) {
    Core& self = *static_cast<Core*>(handle);
    CoreDriver& driver = self.driver;
    active = &driver;
    driver.records = records;
    driver.record_lines = lines;
    driver.capacity = capacity;
    driver.status.records = 0;
    driver.status.events = 0;
    while (!driver.status.events) {
        if (driver.status.cycles >= limit) {
            driver.status.events |= cosim::CYCLE_LIMIT;
            break;
        }
        self.clock();
    }
    *status = driver.status;
}

EXPORT void* core_check_create(uint32_t entry, uint32_t tohost, uint32_t fromhost) {
    return new CoreChecker(entry, tohost, fromhost);
}

EXPORT void core_check_destroy(void* handle) { delete static_cast<CoreChecker*>(handle); }

EXPORT void core_check_add_memory(void* handle, uint32_t base, uint32_t size, uint8_t* bytes) {
    static_cast<CoreChecker*>(handle)->shadow.add_window(base, size, bytes);
}

EXPORT void core_check_add_csrs(void* handle, const cosim::CoreCsr* csrs, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) static_cast<CoreChecker*>(handle)->add_csr(csrs[i]);
}

EXPORT void core_check_add_insns(void* handle, const cosim::CoreInsn* insns, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) static_cast<CoreChecker*>(handle)->add_insn(insns[i]);
}

// The three steps of a block, described in core_checker.hpp.
EXPORT uint32_t core_check_find(void* handle, const cosim::CoreRetirement* records, uint32_t count,
                                uint32_t* unknown) {
    return static_cast<CoreChecker*>(handle)->find(records, count, unknown);
}

EXPORT void core_check_distribute(void* handle, const cosim::CoreRetirement* records, uint32_t count, uint32_t groups,
                                  uint32_t* starts, const cosim::CoreValues* values) {
    static_cast<CoreChecker*>(handle)->distribute(records, count, groups, starts, *values);
}

EXPORT uint32_t core_check_block(void* handle, const cosim::CoreRetirement* records, uint32_t count,
                                 const uint32_t* lines, const uint8_t* taken, const uint32_t* targets,
                                 cosim::CoreError* errors) {
    return static_cast<CoreChecker*>(handle)->check(records, count, lines, taken, targets, errors);
}
