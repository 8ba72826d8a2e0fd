// Interpreter of a mapped netlist behind the ports of a Verilog module (model.py). It also keeps the
// values of chosen clock cycles. One netlist is simulated at a time.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "svdpi.h"

namespace {

// Both are mirrored by model.py, field by field.
struct Gate {
    uint64_t table;  // bit i: value for inputs that spell i
    uint32_t output, count, inputs[6];
};
struct Register {
    uint32_t data, enable;
    uint32_t states[2];  // its outputs: 2 * net + 1 for an inverse; 0 for one that is not used
};

constexpr uint32_t ONE = 1, WORD = 64;

std::vector<Gate> gates;        // in topological order
std::vector<Register> registers;
std::vector<uint32_t> inputs;   // nets of the bits of the input ports, the clock's left out
std::vector<uint32_t> outputs;  // likewise
std::vector<std::vector<uint32_t>> fanout;  // of each net: the gates it goes to
std::vector<uint8_t> values;    // of the nets
std::vector<uint8_t> state;     // of the registers
std::vector<uint64_t> waiting;  // bit per gate: an input has changed
std::vector<std::pair<uint32_t, uint8_t>> changes;

uint64_t cycle = 0, chunk = 0, length = 0;  // `chunk`: the one under way or ahead
std::vector<uint64_t> begins;   // of the chunks
uint8_t* row = nullptr;

void set(uint32_t net, uint8_t value) {
    if (values[net] == value) return;
    values[net] = value;
    for (const uint32_t gate : fanout[net]) waiting[gate / WORD] |= uint64_t{1} << gate % WORD;
}

void evaluate(const Gate& gate) {
    uint32_t spelt = 0;
    for (uint32_t i = 0; i < gate.count; ++i) spelt |= static_cast<uint32_t>(values[gate.inputs[i]]) << i;
    set(gate.output, gate.table >> spelt & 1);
}

void set_state(uint32_t number, uint8_t value) {
    state[number] = value;
    for (const uint32_t one : registers[number].states) {
        if (one) set(one >> 1, value ^ (one & 1));
    }
}

void record() {
    if (chunk == begins.size() || cycle < begins[chunk]) return;
    if (cycle + 1 == begins[chunk] + length) ++chunk;
    for (const uint32_t net : inputs) *row++ = values[net];
    std::memcpy(row, state.data(), state.size());
    row += state.size();
}

}  // namespace

// Called by the module whenever an input or the state has changed.
extern "C" void gate_settle(const svBitVecVal* in, svBitVecVal* out) {
    for (uint64_t i = 0; i < inputs.size(); ++i) set(inputs[i], in[i / 32] >> i % 32 & 1);
    for (uint64_t word = 0; word < waiting.size(); ++word) {
        while (waiting[word]) {
            const uint32_t bit = __builtin_ctzll(waiting[word]);
            waiting[word] &= waiting[word] - 1;
            evaluate(gates[word * WORD + bit]);
        }
    }
    for (uint64_t i = 0; i < outputs.size(); ++i) {
        if (i % 32 == 0) out[i / 32] = 0;
        out[i / 32] |= static_cast<uint32_t>(values[outputs[i]]) << i % 32;
    }
}

// Called at every rising edge of the clock, before anything else changes.
extern "C" void gate_clock() {
    record();
    ++cycle;
    changes.clear();
    for (uint32_t i = 0; i < registers.size(); ++i) {
        const uint8_t next = values[registers[i].data];
        if (values[registers[i].enable] && next != state[i]) changes.emplace_back(i, next);
    }
    for (const auto& [number, value] : changes) set_state(number, value);
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// Takes a netlist; everything is 0 first. For each of the chunks the values before `cycles` edges from number `starts[i]`
// on go to `rows`: a byte for each input, then one for each register.
EXPORT void gate_load(uint64_t nets, const Gate* gate, uint64_t gate_count, const Register* first, uint64_t register_count,
                      const uint32_t* in, uint64_t in_count, const uint32_t* out, uint64_t out_count,
                      const uint64_t* starts, uint64_t count, uint64_t cycles, uint8_t* rows) {
    gates.assign(gate, gate + gate_count);
    registers.assign(first, first + register_count);
    inputs.assign(in, in + in_count);
    outputs.assign(out, out + out_count);
    fanout.assign(nets, {});
    waiting.assign((gate_count + WORD - 1) / WORD, 0);
    for (uint32_t i = 0; i < gate_count; ++i) {
        waiting[i / WORD] |= uint64_t{1} << i % WORD;
        for (uint32_t pin = 0; pin < gates[i].count; ++pin) fanout[gates[i].inputs[pin]].push_back(i);
    }
    values.assign(nets, 0);
    values[ONE] = 1;
    state.assign(register_count, 0);
    for (uint32_t i = 0; i < register_count; ++i) set_state(i, 0);
    cycle = chunk = 0;
    begins.assign(starts, starts + count);
    length = cycles;
    row = rows;
}

// Edges since gate_load.
EXPORT uint64_t gate_cycles() { return cycle; }
