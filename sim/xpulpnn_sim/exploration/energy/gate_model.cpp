// Interpreter of mapped netlists (gate_model.py). They get what instances of modules have at their ports, and are compared
// with them. In chosen clock cycles, transitions of nets are counted, glitches included.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace {

// Mirrored by gate_model.py, field by field.
struct Register {
    uint32_t data, enable, clock;  // net that lets the clock through to it and to its enable
    uint32_t states[2];  // its outputs: 2 * net + 1 for an inverse; 0 for one that is not used
};

constexpr uint32_t ONE = 1, WORD = 64, PORT_WORD = 32, PINS = 8, NO_RESET = ~0u;
constexpr uint64_t NEVER = ~uint64_t{0};

// Nets and gates that a change of a net reaches are looked up one by one, so that what is read for each is small.
struct Netlist {
    uint64_t nets;
    std::vector<Register> registers;
    std::vector<uint32_t> inputs;   // nets of the bits of the input ports, the clock's left out
    std::vector<uint32_t> outputs;  // likewise
    std::vector<uint64_t> tables;   // of the gates in topological order; bit i: value for inputs that spell i
    std::vector<uint32_t> driven;   // their outputs
    std::vector<uint32_t> delays;   // their delays in steps of time, 1 at least
    std::vector<uint32_t> begins;   // of the pins of each net in `fanout`, and their end
    std::vector<uint32_t> fanout;   // PINS * gate + pin
    std::vector<uint32_t> pairs;    // nets that are counted, each before one that is counted with it
};

class Instance {
  public:
    // In the `cycles` cycles from each of `starts` on, it counts.
    Instance(const Netlist& netlist, const char* name, uint32_t reset, const uint64_t* starts, uint64_t count, uint64_t cycles)
        : name(name), ports((netlist.inputs.size() + netlist.outputs.size()) / PORT_WORD + 1), toggles(netlist.nets),
          clocked(4 * netlist.registers.size()), together(netlist.pairs.size()), netlist_(netlist), reset_(reset),
          values_(netlist.nets), spelt_(netlist.tables.size()), state_(netlist.registers.size()),
          waiting_((netlist.tables.size() + WORD - 1) / WORD), due_(netlist.tables.size()),
          steps_(netlist.delays.empty() ? 1 : *std::max_element(netlist.delays.begin(), netlist.delays.end()) + 1),
          length_(cycles), begins_(starts, starts + count) {
        for (uint32_t i = 0; i < netlist.tables.size(); ++i) waiting_[i / WORD] |= uint64_t{1} << i % WORD;
        set(ONE, 1);
        for (uint32_t i = 0; i < state_.size(); ++i) set_state(i, 0);
    }

    // A cycle that ends with the values `ports` at the ports: inputs, then outputs, which must be those of the gates unless
    // there is a reset.
    void follow() {
        const bool counted = chunk_ < begins_.size() && cycle >= begins_[chunk_];
        settle(counted && cycle > begins_[chunk_]);
        const uint64_t first = netlist_.inputs.size();
        if (differs_at == NEVER && !(reset_ != NO_RESET && values_[reset_])) {
            for (uint64_t i = 0; i < netlist_.outputs.size() && differs_at == NEVER; ++i) {
                if (values_[netlist_.outputs[i]] == (ports[(first + i) / PORT_WORD] >> (first + i) % PORT_WORD & 1)) continue;
                differs_at = cycle;
                different = i;
            }
        }
        clock(counted);
    }

    const std::string name;
    std::vector<uint32_t> ports;
    uint64_t cycle = 0;
    uint64_t differs_at = NEVER, different = 0;  // the first cycle in which an output differed, and which did
    std::vector<uint64_t> toggles;   // of each net: its transitions between counted cycles that follow each other
    std::vector<uint64_t> clocked;   // of each register: cycles in which the clock reaches it, by 2 * next state + state
    std::vector<uint64_t> together;  // of each pair: cycles in which its first net is 1, and in which both are

  private:
    // With `timed`, gates follow their inputs after their delays, unless these change back before.
    void settle(bool timed) {
        timed_ = timed;
        for (const auto& [number, value] : changes_) set_state(number, value);
        for (uint64_t i = 0; i < netlist_.inputs.size(); ++i) set(netlist_.inputs[i], ports[i / PORT_WORD] >> i % PORT_WORD & 1);
        if (!timed) {
            for_each_waiting([this](uint64_t gate) { set(netlist_.driven[gate], output(gate)); });
            return;
        }
        uint64_t pending = 0;
        for (uint64_t step = 1; step == 1 || pending; ++step) {
            auto& arriving = steps_[step % steps_.size()];
            for (const uint32_t gate : arriving) {
                if (due_[gate] != step) continue;
                due_[gate] = 0;
                --pending;
                set(netlist_.driven[gate], !values_[netlist_.driven[gate]]);
            }
            arriving.clear();
            for_each_waiting([&](uint64_t gate) {
                const bool changes = due_[gate];
                if (output(gate) == (values_[netlist_.driven[gate]] ^ changes)) return;
                due_[gate] = changes ? 0 : step + netlist_.delays[gate];
                if (changes) --pending;
                else {
                    ++pending;
                    steps_[due_[gate] % steps_.size()].push_back(gate);
                }
            });
        }
    }

    template <typename Use>
    void for_each_waiting(Use use) {
        for (uint64_t word = 0; word < waiting_.size(); ++word) {
            while (waiting_[word]) {
                const uint32_t bit = __builtin_ctzll(waiting_[word]);
                waiting_[word] &= waiting_[word] - 1;
                use(word * WORD + bit);
            }
        }
    }

    uint8_t output(uint64_t gate) const { return netlist_.tables[gate] >> spelt_[gate] & 1; }

    void clock(bool counted) {
        changes_.clear();
        for (uint32_t i = 0; i < state_.size(); ++i) {
            const Register& one = netlist_.registers[i];
            if (!values_[one.clock] || !values_[one.enable]) continue;
            const uint8_t next = values_[one.data];
            clocked[4 * i + 2 * next + state_[i]] += counted;
            if (next != state_[i]) changes_.emplace_back(i, next);
        }
        for (uint32_t i = 0; counted && i < together.size(); i += 2) {
            together[i] += values_[netlist_.pairs[i]];
            together[i + 1] += values_[netlist_.pairs[i]] & values_[netlist_.pairs[i + 1]];
        }
        ++cycle;
        if (counted && cycle == begins_[chunk_] + length_) ++chunk_;
    }

    void set(uint32_t net, uint8_t value) {
        if (values_[net] == value) return;
        values_[net] = value;
        if (timed_) ++toggles[net];
        const uint32_t* end = netlist_.fanout.data() + netlist_.begins[net + 1];
        for (const uint32_t* one = netlist_.fanout.data() + netlist_.begins[net]; one != end; ++one) {
            const uint32_t gate = *one / PINS;
            spelt_[gate] ^= 1u << *one % PINS;
            waiting_[gate / WORD] |= uint64_t{1} << gate % WORD;
        }
    }

    void set_state(uint32_t number, uint8_t value) {
        state_[number] = value;
        for (const uint32_t one : netlist_.registers[number].states) {
            if (one) set(one >> 1, value ^ (one & 1));
        }
    }

    const Netlist& netlist_;
    uint32_t reset_;  // net of the reset
    std::vector<uint8_t> values_;    // of the nets
    std::vector<uint8_t> spelt_;     // of each gate: what its inputs spell
    std::vector<uint8_t> state_;     // of the registers
    std::vector<uint64_t> waiting_;  // bit per gate: an input has changed
    std::vector<uint64_t> due_;      // of each gate: the step in which its output changes, or 0
    std::vector<std::vector<uint32_t>> steps_;  // gates whose output may change, by step modulo the number of these
    bool timed_ = false;
    std::vector<std::pair<uint32_t, uint8_t>> changes_;  // of registers, at the edge before
    uint64_t chunk_ = 0, length_ = 0;  // `chunk_`: the one under way or ahead
    std::vector<uint64_t> begins_;     // of the chunks
};

std::deque<Netlist> netlists;
std::deque<Instance> instances;

}  // namespace

// Number of the instance with this name; -1 if no netlist follows it.
extern "C" int gate_instance(const char* name) {
    for (uint32_t i = 0; i < instances.size(); ++i) {
        if (instances[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

// Called for each word of the ports at every rising edge of the clock, before anything else changes.
extern "C" void gate_port(int instance, int place, int word) { instances[instance].ports[place] = word; }

// Called after the last word.
extern "C" void gate_follow(int instance) { instances[instance].follow(); }

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void gate_clear() {
    instances.clear();
    netlists.clear();
}

// Takes a netlist, the next one in number.
EXPORT void gate_load(uint64_t nets, const Register* registers, uint64_t register_count, const uint32_t* in,
                      uint64_t in_count, const uint32_t* out, uint64_t out_count, const uint64_t* tables,
                      uint64_t gate_count, const uint32_t* driven, uint64_t, const uint32_t* delays, uint64_t,
                      const uint32_t* begins, uint64_t begin_count, const uint32_t* fanout, uint64_t fanout_count,
                      const uint32_t* pairs, uint64_t pair_count) {
    netlists.push_back({nets, {registers, registers + register_count}, {in, in + in_count}, {out, out + out_count},
                        {tables, tables + gate_count}, {driven, driven + gate_count}, {delays, delays + gate_count},
                        {begins, begins + begin_count}, {fanout, fanout + fanout_count}, {pairs, pairs + pair_count}});
}

// Makes an instance of a netlist, in which everything is 0 first, and of which some cycles are counted.
EXPORT void gate_create(uint64_t netlist, const char* name, uint64_t reset, const uint64_t* starts, uint64_t count,
                        uint64_t cycles) {
    instances.emplace_back(netlists[netlist], name, static_cast<uint32_t>(reset), starts, count, cycles);
}

// What an instance has done: edges, first cycle in which an output was not what it followed (all ones: none) and number of
// the output; counts.
EXPORT void gate_result(uint64_t instance, uint64_t* run, uint64_t* toggles, uint64_t* clocked, uint64_t* together) {
    const Instance& one = instances[instance];
    for (const uint64_t figure : {one.cycle, one.differs_at, one.different}) *run++ = figure;
    std::copy(one.toggles.begin(), one.toggles.end(), toggles);
    std::copy(one.clocked.begin(), one.clocked.end(), clocked);
    std::copy(one.together.begin(), one.together.end(), together);
}
