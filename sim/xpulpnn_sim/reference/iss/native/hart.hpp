// Runtime of the compiled simulator: memory, instructions, bursts of them. library.py compiles the rows of the
// instruction table behind the runtime and shares its structures.
#include <cstdint>
#include <cstdlib>
#include <cstring>

using I = int64_t;
using W = __int128;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using u8 = uint8_t;
using i8 = int8_t;

// functions of the notation, and elements of words
static inline I zx(I value, I width) { return value & ((I(1) << width) - 1); }
static inline I sx(I value, I width) { return I(u64(value) << (64 - width)) >> (64 - width); }
static inline I element(I word, I index, I step, I width) { return zx(word >> index * step, width); }
static inline u32 inserted(u32 word, I index, I width, I value) {
  const I mask = zx(-1, width) << index * width;
  return (word & ~mask) | (value << index * width & mask);
}
static inline I quotient(I a, I b) { return a / b; }
static inline I remainder(I a, I b) { return a % b; }
template <class A, class B> static inline auto min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline auto max(A a, B b) { return a < b ? b : a; }

constexpr u32 PAGE = 1 << PAGE_BITS;

static inline void copy(void *to, const void *from, u32 size) {
  size == 4 ? memcpy(to, from, 4) : size == 2 ? memcpy(to, from, 2) : memcpy(to, from, 1);
}

struct Hart;
struct Op;
using Function = u32 (*)(Hart &, const Op &, u32 pc, u32 following);
// callbacks of Python, which return a status
using Read = u32 (*)(u32 address, u32 size, u32 *value);
using Write = u32 (*)(u32 address, u32 size, u32 value);
using Translate = u32 (*)(u32 pc, Op *op);

// RAISED: a callback holds an exception of Python; AGAIN: a device must be accessed at the exact time, by a step;
// RESTS: only an interrupt ends sleep or a jump to itself; TRAPS: the handler of an exception raises it
enum Status : u32 { DONE, BUS_ERROR, RAISED, TRAP, AGAIN, RESTS, TRAPS, DIFFERS, BREAK };
enum Flag : u32 { STOP = 1, BRANCH = 2, JUMP = 4, REGISTER_JUMP = 8, LEADS = 16, STORE = 32, UPDATES = 64, PAIR = 128 };
enum Access : u8 { PRESENT = 1, READ_ONLY = 2, WRITE_ONLY = 4 };  // of a CSR
enum Reads : u32 { READS_RS1 = 1, READS_RS2 = 2, READS_RD = 4 };

struct Op {  // a translated instruction
  Function run;
  i32 operands[8];  // in the order of the row, at most 6; the structure has 64 bytes, as a cache line
  u32 raw, events;
  u8 length, flags, reads, rs1, rs2, rd, destination;  // registers; destination is 0 if rd is not written
  u8 loads, size;  // loads counted; bytes of the memory access, 0 for none
  i8 activation, weight, loaded;  // entries of the NN-RF, -1 for none
};

struct CodePage { Op ops[PAGE / 2]; CodePage *next; };

struct Memory {
  u8 **whole;  // pages that are memory from end to end, null for all others
  u8 **plain;  // those of them without instructions and watched words
  u8 **partial;  // pages of which the windows are memory
  u64 *windows, window_count;  // base and bytes of each
  Read read;
  Write write;
  Hart *harts;
  u32 watched[16];  // addresses of words whose stores Python makes, and loads where they are not in `whole`
  u32 twins[2], twin_bytes;  // two address ranges of the same memory
  u32 devices, device_bytes;  // address range whose accesses depend on the exact time
  u32 answers, answer;  // blocks of devices whose loads have a given answer (bit 31: the CLINT), and it
  u8 *msip, *mtimecmp, *mtime;  // registers of a core-local interruptor, or null

  // where bytes of one page are, or null if they are no memory that compiled code may access
  u8 *bytes(u32 address, u32 size) const {
    u8 *page = partial[address >> PAGE_BITS];
    if (!page || address % PAGE + size > PAGE) return nullptr;
    for (const u32 word : watched)
      if (word - address + 3 < size + 3) return nullptr;
    for (u64 *window = windows; window < windows + 2 * window_count; window += 2)
      if (window[0] <= address && address + u64(size) <= window[0] + window[1]) return page + address % PAGE;
    return nullptr;
  }
};

struct Hart {
  u32 pc, last_pc, asleep, halted, status, cause, taken, retired, endless;
  u32 skipped;  // counters that the instruction writes
  u32 interrupt;  // field `cause` of the next record if an interrupt was taken before it, or 0
  u32 raised;  // interrupt lines that fall when their interrupt is taken
  u32 exception[5];  // the last one not in a handler as it begins: pc, cause, pc before, last jump to a register, data address
  u32 jumped;  // address of the last jump to a register
  u32 handler, again;  // of the last exception; how many such ones in a row
  u64 entered;  // instructions up to the handler
  u32 regs[32], nn[STATE_WORDS], csr[CSR_COUNT];
  u32 absent;  // words of `nn` that a coprocessor lacks and that stay 0, a bit each
  u8 access[CSR_ADDRESSES];  // of each CSR, by address
  u32 csr_read;  // address of the CSR that the instruction reads, or of none
  u32 address, loaded, stored;  // of the last memory access
  u32 places[16], searched;  // addresses that an instruction with several loads reads, and their number
  u8 exact, fetches_anew, debugged;  // devices may be accessed; each fetch has other bytes; ebreak ends a run
  u64 valid;  // fields of the record
  Record record;
  u64 executed, idle;  // instructions; cycles that were slept through
  u32 *path, path_length;  // addresses of executed instructions that Python has not read, or null
  u64 begun;  // instructions up to the turn of the hart in a cluster
  u32 waits;  // whether an access to a device has not been answered
  Memory *memory;
  Hart *next;  // another hart of the memory
  CodePage **code, *code_pages;
  Translate translate;

  [[noreturn, gnu::cold]] void stop(u32 why) { throw Status(why); }
  void trap(I why) { cause = u32(why), stop(debugged && why == BREAKPOINT ? BREAK : TRAP); }
  u32 load(u32 at, u32 size, bool of_step = false) {
    address = at;
    const u8 *page = memory->whole[at >> PAGE_BITS];
    const u32 offset = at % PAGE;
    u32 value = 0;
    if (__builtin_expect(page && offset + size <= PAGE, 1)) {
      copy(&value, page + offset, size);
    } else if (const u8 *bytes = memory->bytes(at, size)) {
      copy(&value, bytes, size);
    } else if (is_answered(at, size)) {
      value = zx(memory->answer, 8 * size);
    } else if (const u32 why = memory->read(at, size, &value)) {
      if (why != BUS_ERROR || !of_step) stop(why);
      nn[FAILED] = 1;
      memory->read(at, size | 1 << 31, &value);  // the bytes in spite of the error
    }
    return loaded = value;
  }
  void store(u32 at, u32 size, u32 value) {
    address = at;
    u8 *page = memory->plain[at >> PAGE_BITS];
    const u32 offset = at % PAGE;
    if (__builtin_expect(page && offset + size <= PAGE, 1))
      copy(page + offset, &value, size);
    else
      store_slowly(at, size, value);
  }
  void store_slowly(u32 at, u32 size, u32 value);
  // whether an access needs no device; it stops if it needs one at the exact time
  bool is_answered(u32 address, u32 size) {
    const u32 first = address - memory->devices, last = first + size - 1;
    if (first >= memory->device_bytes && last >= memory->device_bytes) return false;
    if (!exact) stop(AGAIN);
    return memory->answers >> (address - CLINT < CLINT_SPACE ? 31 : min(first / BLOCK_BYTES, u32(30))) & 1;
  }
  u32 noted(u32 place) { return places[searched++ % 16] = place; }
  void require_csr(u32 address, bool writes) {
    if (!(access[address] & PRESENT) || (writes && access[address] & READ_ONLY)) trap(ILLEGAL_INSTRUCTION);
  }
  u32 &csr_word(u32 place) { return place - NN_CSR < NNRF_WORDS ? nn[place - NN_CSR] : csr[CSR_SHOWN[place]]; }
  u32 read_csr(u32 address) { return csr_read = address, access[address] & WRITE_ONLY ? 0 : csr_word(CSR_AT[address]); }
  void write_csr(u32 address, u32 value);
  u32 flag(u32 bit) const { return csr[MSTATUS] >> bit & 1; }
  void set_flag(u32 bit, u32 value) { csr[MSTATUS] = (csr[MSTATUS] & ~(1u << bit)) | value << bit; }
  void put(u32 place, u32 value) { if (!(absent >> place & 1)) nn[place] = value; }
  void set(u32 number, u32 value) { regs[number] = value, regs[0] = 0; }
  // the address after pc: the start of a hardware loop that ends there and repeats, or following
  u32 after(u32 pc, u32 following) {
    for (u32 *loop = csr + LPSTART0; loop <= csr + LPSTART1; loop += LPSTART1 - LPSTART0)
      if (loop[1] == pc && loop[2] > 1) return loop[2]--, loop[0];
    return following;
  }
  Op &at(u32 pc) {
    CodePage *page = code[pc >> PAGE_BITS];
    Op &op = (page ? page : cover(pc))->ops[pc % PAGE / 2];
    if (__builtin_expect(!op.run, 0)) {
      op = {};
      if (const u32 why = translate(pc, &op)) why == BUS_ERROR ? trap(INSTRUCTION_ACCESS_FAULT) : stop(why);
      cover(pc), cover(pc + 2);
    }
    return op;
  }
  CodePage *cover(u32 pc);
  u32 counted() const { return csr[PCMR] & PCMR_COUNTS ? csr[PCER] : 0; }
  void count(u32 events, u32 enabled, bool saturates);
  void pass(u64 cycles, u64 instructions, u32 inhibited);
  u32 ready() const { return flag(MSTATUS_MIE_BIT) ? csr[MIP] & csr[MIE] : 0; }
  void wait();
  bool comes_straight(u32 place);
  void enter(u32 why);
  u64 update_lines();
  bool wakes();
  u32 complete(const Op &op);
  void observe_sources(const Op &op);
  void observe_results(const Op &op);
  const Op *execute();
  void note() { if (path) path[path_length++] = last_pc; }
};

static u32 twin(const Memory &memory, u32 address) {
  for (int side = 0; side < 2; side++)
    if (address - memory.twins[side] < memory.twin_bytes) return address - memory.twins[side] + memory.twins[!side];
  return address;
}

// Makes stores to the page of an instruction drop translated instructions; returns where these are.
CodePage *Hart::cover(u32 pc) {
  CodePage *page = code[pc >> PAGE_BITS];
  if (!page) {
    page = static_cast<CodePage *>(calloc(1, sizeof(CodePage)));
    page->next = code_pages, code_pages = page;
  }
  const u32 addresses[] = {pc, twin(*memory, pc)};
  for (const u32 address : addresses) {
    code[address >> PAGE_BITS] = page;
    memory->plain[address >> PAGE_BITS] = nullptr;
  }
  return page;
}

extern "C" void forget(Memory &memory, u32 address, u32 size) {
  const u32 first = (address & ~1u) - 2, last = address + size - 1;
  for (Hart *hart = memory.harts; hart; hart = hart->next) {
    if (size <= PAGE && !hart->code[first >> PAGE_BITS] && !hart->code[last >> PAGE_BITS]) continue;
    for (u32 at = first, left = (size + 4) / 2; left; at += 2, left--)
      if (CodePage *page = hart->code[at >> PAGE_BITS]) page->ops[at % PAGE / 2].run = nullptr;
  }
}

extern "C" void release(Hart &hart) {
  for (Hart **other = &hart.memory->harts; *other; other = &(*other)->next)
    if (*other == &hart) {
      *other = hart.next;
      break;
    }
  while (CodePage *page = hart.code_pages) hart.code_pages = page->next, free(page);
}

void Hart::store_slowly(u32 address, u32 size, u32 value) {
  if (u8 *bytes = memory->bytes(address, size)) {
    copy(bytes, &value, size);
    forget(*memory, address, size);
  } else if (!is_answered(address, size)) {
    if (const u32 why = memory->write(address, size, value)) stop(why);
  }
}

// Executes the instruction at pc with the ends of hardware loops and the performance counters.
u32 Hart::complete(const Op &op) {
  const u32 flags = op.flags, size = op.size, loads = op.loads, enabled = counted();
  const bool saturates = csr[PCMR] & PCMR_SATURATES;
  u32 events = op.events | 1 << CYCLES;
  taken = flags & JUMP || (flags & BRANCH && op.run(*this, op, pc, 1) != 1);
  if (flags & BRANCH && taken) events |= 1 << TAKEN_BRANCHES;
  stored = regs[op.rs2];
  u32 following = op.run(*this, op, pc, pc + op.length);
  if (!taken && !(flags & LEADS)) following = after(pc, following);
  if (enabled) {
    count(events, enabled, saturates);
    for (u32 load = 1; load < loads; load++) count(1 << LOADS, enabled, saturates);
    if (size && address % 4 + size > 4) count(1 << (flags & STORE ? STORES : LOADS), enabled, saturates);
  }
  return following;
}

// Executes up to `limit` plain instructions, up to `until` or one that needs a step. Returns their number.
static u64 burst(Hart &hart, u64 limit, u32 until) {
  u64 done = 0;
  u32 pc = hart.pc;
  const bool counts = hart.counted();
  hart.skipped = 0;
  try {
    while (done < limit && pc != until && !hart.halted) {
      const Op &op = hart.at(pc);
      const u32 flags = op.flags;
      if (flags & STOP) break;
      const bool ends = pc == hart.csr[LPSTART0 + 1] || pc == hart.csr[LPSTART1 + 1];
      hart.pc = pc;
      const u32 next = ends || counts ? hart.complete(op) : op.run(hart, op, pc, pc + op.length);
      hart.last_pc = pc, pc = next, done++;
      hart.note();
      if (flags & REGISTER_JUMP && (hart.jumped = hart.last_pc) == next) break;
    }
  } catch (Status why) {
    hart.status = why;
  }
  hart.pc = pc, hart.executed += done;
  hart.pass(done, done, hart.csr[MCOUNTINHIBIT]);
  return done;
}
