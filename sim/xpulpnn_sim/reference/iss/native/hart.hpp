// Runtime of the compiled simulator; library.py compiles the rows behind it and shares its structures.
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
// callbacks of Python, which return a status, or the value of a CSR
using Read = u32 (*)(u32 address, u32 size, u32 *value);
using Write = u32 (*)(u32 address, u32 size_or_writes, u32 value);
using Translate = u32 (*)(u32 pc, Op *op);

enum Status : u32 { DONE, BUS_ERROR, RAISED, TRAP, DIFFERS };  // RAISED: a callback holds an exception of Python
enum Flag : u32 { STOP = 1, BRANCH = 2, JUMP = 4, REGISTER_JUMP = 8, LEADS = 16, STORE = 32, UPDATES = 64, PAIR = 128 };
enum Reads : u32 { READS_RS1 = 1, READS_RS2 = 2, READS_RD = 4 };

struct Op {  // a translated instruction
  Function run;
  i32 operands[6];  // operands in the order of the row
  i32 offset;  // constant that a memory access adds to its base
  u32 raw, events;
  u8 length, flags, reads, rs1, rs2, rd, destination;  // registers; destination is 0 if rd is not written
  u8 loads, size;  // loads counted; bytes of the memory access, 0 for none
  i8 offset_register, activation, weight, loaded;  // -1 for none; the last three are entries of the NN-RF
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
  u32 watched[8];  // addresses of words whose stores Python makes
  u32 twins[2], twin_bytes;  // two address ranges of the same memory

  // where bytes of one page are, or null if they are no memory that compiled code may access
  u8 *bytes(u32 address, u32 size) const {
    u8 *page = partial[address >> PAGE_BITS];
    if (!page || address % PAGE + size > PAGE) return nullptr;
    for (u64 *window = windows; window < windows + 2 * window_count; window += 2)
      if (window[0] <= address && address + u64(size) <= window[0] + window[1]) return page + address % PAGE;
    return nullptr;
  }
};

struct Hart {
  u32 pc, last_pc, asleep, halted, status, cause, taken, skipped;
  u32 regs[32], nn[STATE_WORDS], csr[CSR_COUNT];
  u32 address, loaded, stored;  // of the last memory access
  u64 valid;  // fields of the record
  Record record;
  u64 executed;
  u32 *path;  // addresses of executed instructions, or null
  Memory *memory;
  Hart *next;  // another hart of the memory
  CodePage **code, *code_pages;
  Translate translate;
  Write access_csr;

  [[noreturn, gnu::cold]] void stop(u32 why) { throw Status(why); }
  void trap(I why) { cause = u32(why), stop(TRAP); }
  u32 load(u32 address, u32 size, bool of_step = false) {
    const u8 *page = memory->whole[address >> PAGE_BITS];
    const u32 offset = address % PAGE;
    u32 value = 0;
    if (__builtin_expect(page && offset + size <= PAGE, 1)) {
      copy(&value, page + offset, size);
    } else if (const u8 *bytes = memory->bytes(address, size)) {
      copy(&value, bytes, size);
    } else if (const u32 why = memory->read(address, size, &value)) {
      if (why != BUS_ERROR || !of_step) stop(why);
      nn[FAILED] = 1;
      memory->read(address, size | 1 << 31, &value);  // the bytes in spite of the error
    }
    return loaded = value;
  }
  void store(u32 address, u32 size, u32 value) {
    u8 *page = memory->plain[address >> PAGE_BITS];
    const u32 offset = address % PAGE;
    if (__builtin_expect(page && offset + size <= PAGE, 1))
      copy(page + offset, &value, size);
    else
      store_slowly(address, size, value);
  }
  void store_slowly(u32 address, u32 size, u32 value);
  u32 read_csr(u32 address) { return access_csr(address, 0, 0); }
  void write_csr(u32 address, u32 value) { access_csr(address, 1, value); }
  void set_flag(u32 bit, u32 value) { csr[MSTATUS] = (csr[MSTATUS] & ~(1u << bit)) | value << bit; }
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
      if (const u32 why = translate(pc, &op)) stop(why);
      cover(pc), cover(pc + 2);
    }
    return op;
  }
  CodePage *cover(u32 pc);
  void count(u32 events, u32 enabled, bool saturates);
  u32 complete(const Op &op);
  void observe_sources(const Op &op);
  void observe_results(const Op &op);
  bool matches(const Op &op, const Record &got, u64 unread) const;
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
  u8 *bytes = memory->bytes(address, size);
  for (const u32 watched : memory->watched)
    if (watched - address + 3 < size + 3) bytes = nullptr;
  if (bytes) {
    copy(bytes, &value, size);
    forget(*memory, address, size);
  } else if (const u32 why = memory->write(address, size, value)) {
    stop(why);
  }
}

void Hart::count(u32 events, u32 enabled, bool saturates) {
  for (events &= enabled & ~skipped; events; events &= events - 1) {
    u32 &counter = csr[PCCR0 + __builtin_ctz(events)];
    counter += !(saturates && counter == ~0u);
  }
}

// Executes the instruction at pc with the ends of hardware loops and the performance counters.
u32 Hart::complete(const Op &op) {
  const u32 flags = op.flags, size = op.size, loads = op.loads, enabled = csr[PCMR] & 1 ? csr[PCER] : 0;
  const bool saturates = csr[PCMR] & 2;
  u32 events = op.events | 1 << CYCLES;
  skipped = 0;
  taken = flags & JUMP || (flags & BRANCH && op.run(*this, op, pc, 1) != 1);
  if (flags & BRANCH && taken) events |= 1 << TAKEN_BRANCHES;
  address = regs[op.rs1] + (flags & UPDATES ? 0 : op.offset_register < 0 ? op.offset : regs[op.offset_register]);
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

// Executes up to `limit` instructions, up to `until` or one that needs a step. Returns their number.
extern "C" u64 run(Hart &hart, u64 limit, u32 until) {
  u64 done = 0;
  u32 pc = hart.pc;
  const bool counts = hart.csr[PCMR] & 1 && hart.csr[PCER];
  hart.halted = 0, hart.status = DONE;
  try {
    while (done < limit && pc != until && !hart.halted) {
      const Op &op = hart.at(pc);
      const u32 flags = op.flags;
      if (flags & STOP) break;
      const bool ends = pc == hart.csr[LPSTART0 + 1] || pc == hart.csr[LPSTART1 + 1];
      hart.pc = pc;
      const u32 next = ends || counts ? hart.complete(op) : op.run(hart, op, pc, pc + op.length);
      if (hart.path) hart.path[done] = pc;
      hart.last_pc = pc, pc = next, done++;
      if (next == hart.last_pc && flags & REGISTER_JUMP) break;
    }
  } catch (Status why) {
    hart.status = why;
  }
  hart.pc = pc, hart.executed += done;
  return done;
}

// Lets harts take turns of `quantum` instructions, up to one that does not complete its turn or halts the program.
// Returns the number of turns before that.
extern "C" u64 take_turns(Hart **harts, u32 count, u32 quantum, u32 turns) {
  for (u32 turn = 0; turn < turns; turn++) {
    Hart &hart = *harts[turn % count];
    if (run(hart, quantum, ~0u) < quantum || hart.halted) return turn;
  }
  return turns;
}

#define SET(name, value) (record.name = (value), valid |= u64(1) << PLACE_##name)

void Hart::observe_sources(const Op &op) {
  record = {}, valid = 0;
  SET(pc_rdata, pc), SET(insn, op.raw), SET(rs1_addr, op.rs1), SET(rs2_addr, op.rs2);
  if (op.reads & READS_RS1) SET(rs1_rdata, regs[op.rs1]);
  if (op.reads & READS_RS2) SET(rs2_rdata, regs[op.rs2]);
  if (op.reads & READS_RD) SET(rd_rdata, regs[op.rd]);
  if (op.activation >= 0) SET(nn_act_rdata, nn[op.activation]);
  if (op.weight >= 0) SET(nn_wgt_rdata, nn[op.weight]);
}

void Hart::observe_results(const Op &op) {
  const u32 mask = (1u << op.size) - 1, rd = op.destination, base = op.flags & UPDATES ? op.rs1 : 0;
  const bool pair = rd && op.flags & PAIR;
  SET(pc_wdata, pc);
  if (op.size) SET(mem_addr, address);
  if (op.size && op.flags & STORE) SET(mem_wmask, mask), SET(mem_wdata, u32(zx(stored, 8 * op.size)));
  if (op.size && !(op.flags & STORE)) SET(mem_rmask, mask), SET(mem_rdata, loaded);
  if (op.loaded >= 0) SET(nn_we, 1), SET(nn_addr, op.loaded), SET(nn_wdata, loaded);
  if (rd) SET(rd_we, 1), SET(rd_addr, rd), SET(rd_wdata, regs[rd]);
  if (pair) SET(rd2_we, 1), SET(rd2_wdata, regs[rd + 1]);
  if (base && base != rd && !(pair && base == rd + 1)) SET(base_we, 1), SET(base_addr, base), SET(base_wdata, regs[base]);
}

// Executes the instruction at pc. It has no effect unless the status is 0.
static void observed_step(Hart &hart, const Op &op) {
  const u32 pc = hart.pc;
  hart.observe_sources(op);
  hart.pc = hart.complete(op);
  hart.observe_results(op);
  hart.last_pc = pc, hart.executed++;
}

extern "C" void observe(Hart &hart) { hart.observe_sources(hart.at(hart.pc)); }

extern "C" u32 step(Hart &hart) {
  hart.status = DONE;
  try {
    observed_step(hart, hart.at(hart.pc));
  } catch (Status why) {
    hart.status = why;
  }
  return hart.status;
}

bool Hart::matches(const Op &op, const Record &got, u64 unread) const {
  const u32 *values = &record.insn, *others = &got.insn;
  const u32 rd = got.rd_we ? got.rd_addr : 0, base = got.base_we ? got.base_addr : 0;
  const bool same = base == (op.flags & UPDATES ? op.rs1 : 0) && (base == rd || (record.rd2_we && base == rd + 1));
  if (rd != record.rd_addr || (base != record.base_addr && !same)) return false;
  for (u64 places = (valid | ALWAYS) & ~unread; places; places &= places - 1) {
    const int place = __builtin_ctzll(places);
    // stored data above the size of the access may have any value
    const u32 mask = place == PLACE_mem_wdata ? u32(zx(-1, 8 * op.size)) : ~0u;
    if (values[place] != (others[place] & mask)) return false;
  }
  return true;
}

// Steps along the records of a design while they are as expected, up to one that needs more than that; `ready` are the
// interrupt lines that would be taken. Returns their number; if the next one differs, it has been executed.
extern "C" u64 follow(Hart &hart, const Record *records, const u32 *lines, u64 count, u32 ready, u64 unread) {
  u64 done = 0;
  hart.status = DONE;
  try {
    for (; done < count; done++) {
      const Record &got = records[done];
      if (got.intr | got.trap || got.pc_rdata != hart.pc || (lines && lines[done] & ready)) break;
      const Op &op = hart.at(hart.pc);
      if (op.flags & STOP) break;
      observed_step(hart, op);
      if (!hart.matches(op, got, unread)) {
        hart.status = DIFFERS;
        break;
      }
    }
  } catch (Status why) {
    hart.status = why;
  }
  return done;
}
