// CSRs, counters, traps, interrupts and the timer of a hart; what an instruction does, as a record; runs and steps.

constexpr u64 FOREVER = u64(1) << 48;  // cycles that no program sleeps
constexpr u32 WRITES_TIME = 1 << 30, WRITES_RETIRED = 1u << 31;  // in Hart::skipped, above the performance counters

void Hart::write_csr(u32 address, u32 value) {
  const u32 place = CSR_AT[address], bits = CSR_WRITABLE[place];
  if (place == PCCRALL) {
    for (u32 event = 0; event < EVENTS; event++) csr[PCCR0 + event] = value;
    skipped |= (1 << EVENTS) - 1;
    return;
  }
  u32 &word = csr_word(place);
  word = (word & ~bits) | (value & bits);
  if (place - PCCR0 < EVENTS) skipped |= 1 << (place - PCCR0);
  if (place == MCYCLE || place == MCYCLEH) skipped |= WRITES_TIME;
  if (place == MINSTRET || place == MINSTRETH) skipped |= WRITES_RETIRED;
}

void Hart::count(u32 events, u32 enabled, bool saturates) {
  for (events &= enabled & ~skipped; events; events &= events - 1) {
    u32 &counter = csr[PCCR0 + __builtin_ctz(events)];
    counter += !(saturates && counter == ~0u);
  }
}

static void add(u32 &low, u32 &high, u64 amount) {
  const u64 sum = (u64(high) << 32 | low) + amount;
  low = u32(sum), high = u32(sum >> 32);
}

// Advances the counters of cycles and retired instructions, unless `inhibited` as in mcountinhibit, or just written.
void Hart::pass(u64 cycles, u64 instructions, u32 inhibited) {
  if (!(inhibited >> MCOUNTINHIBIT_CY_BIT & 1 || skipped & WRITES_TIME)) add(csr[MCYCLE], csr[MCYCLEH], cycles);
  if (!(inhibited >> MCOUNTINHIBIT_IR_BIT & 1 || skipped & WRITES_RETIRED)) add(csr[MINSTRET], csr[MINSTRETH], instructions);
}

static u32 most_urgent(u32 pending) {
  for (const u32 line : IRQ_PRIORITY)
    if (pending >> line & 1) return line;
  return 0;
}

// Passes a cycle in which nothing retires.
void Hart::wait() {
  skipped = 0;
  pass(1, 0, csr[MCOUNTINHIBIT]);
  count(1 << CYCLES, counted(), csr[PCMR] & PCMR_SATURATES);
}

// Whether the handler of the last exception has come to `place` by the code with which it begins, or behind a jump there.
bool Hart::comes_straight(u32 place) {
  u32 from = handler;
  if (from & 1 || fetches_anew || executed - entered >= MOST_STEPS) return false;
  try {
    for (u64 step = entered; step < executed; step++) {
      const Op &op = at(from);
      from += step == entered && op.flags & JUMP ? op.operands[1] : op.length;
    }
  } catch (Status) {
    return cause = csr[MCAUSE], false;
  }
  return from == place;
}

// Enters the handler of an exception or interrupt. An instruction that traps counts as executed, but not as retired.
void Hart::enter(u32 why) {
  const u32 from = pc, vector = why & MCAUSE_INTERRUPT && csr[MTVEC] & MTVEC_VECTORED ? why & ~MCAUSE_INTERRUPT : 0;
  set_flag(MSTATUS_MPIE_BIT, flag(MSTATUS_MIE_BIT)), set_flag(MSTATUS_MIE_BIT, 0);
  csr[MEPC] = from, csr[MCAUSE] = cause = why;
  pc = (csr[MTVEC] & MTVEC_BASE) + VECTOR_BYTES * vector;
  if (why & MCAUSE_INTERRUPT) {
    interrupt = CAUSE_INTERRUPT | (why & ~MCAUSE_INTERRUPT);
  } else {
    again = comes_straight(from) ? again + 1 : 0;
    const u32 raised[] = {from, why, last_pc, jumped, address};
    if (pc != from && !again) memcpy(exception, raised, sizeof raised);
    if (pc == from || again == MOST_TRAPS) status = TRAPS;
    last_pc = from, executed++, note();
    handler = pc, entered = executed;
  }
}

// Parts of a step, for a model of the CSRs alone.
extern "C" void enter(Hart &hart, u32 why) { hart.enter(why); }
extern "C" u32 read_csr(Hart &hart, u32 address) { return hart.read_csr(address); }
extern "C" void write_csr(Hart &hart, u32 address, u32 value) { hart.write_csr(address, value); }
extern "C" void pass(Hart &hart, u64 cycles, u64 done, u32 inhibited) { hart.pass(cycles, done, inhibited); }
extern "C" bool wakes(Hart &hart) { return hart.wakes(); }
extern "C" void count(Hart &hart, u32 events, u32 enabled, bool saturates) { hart.count(events, enabled, saturates); }

// Sets time and lines of the core-local interruptor, if any. Returns the cycles until the line of the timer rises.
u64 Hart::update_lines() {
  if (!memory->mtime) return ~u64(0);
  const u64 now = executed + idle;
  u64 compare;
  memcpy(memory->mtime, &now, sizeof now), memcpy(&compare, memory->mtimecmp, sizeof compare);
  csr[MIP] = raised | (*memory->msip & 1) << SOFTWARE_LINE | u32(now >= compare) << TIMER_LINE;
  return now < compare ? compare - now : ~u64(0);
}

// Whether a hart that rests goes on: at once, or at the time that the timer is set to.
bool Hart::wakes() {
  const u64 left = update_lines();
  if (!(csr[MIP] & csr[MIE]) && left < FOREVER && csr[MIE] >> TIMER_LINE & 1) {
    idle += left, skipped = 0;
    pass(left, 0, csr[MCOUNTINHIBIT]);
    update_lines();
  }
  return asleep ? csr[MIP] & csr[MIE] : ready();
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

// Executes the instruction at pc, which it returns, or enters the handler of its exception. It has no effect if that
// cannot be done.
const Op *Hart::execute() {
  const u32 from = pc, inhibited = csr[MCOUNTINHIBIT];
  const Op *op = nullptr;
  record = {}, valid = 0, cause = ~0u, skipped = endless = retired = searched = 0, csr_read = 0, exact = 1;
  status = DONE;
  SET(pc_rdata, pc), SET(insn, 0);
  if (fetches_anew) forget(*memory, pc, 4);
  try {
    op = &at(pc);
    observe_sources(*op);
    pc = complete(*op);
    observe_results(*op);
    pass(1, 1, inhibited);
    endless = taken && pc == from && !(op->flags & REGISTER_JUMP && op->rd == op->rs1 && op->rd);
    if (op->flags & REGISTER_JUMP) jumped = from;
    last_pc = from, executed++, note();
  } catch (Status why) {
    if (why == BUS_ERROR) cause = op->flags & STORE ? STORE_ACCESS_FAULT : LOAD_ACCESS_FAULT;
    if (why != BUS_ERROR && why != TRAP) status = why;
    else enter(cause), wait(), SET(trap, 1), SET(cause, cause), SET(pc_wdata, pc);
  }
  exact = 0, retired = status == DONE || status == TRAPS;
  if (retired && interrupt) {
    if (!record.trap) SET(cause, interrupt);
    SET(intr, 1);
    interrupt = 0;
  }
  return op;
}

extern "C" u32 illegal(Hart &hart, const Op &, u32, u32) { return hart.trap(ILLEGAL_INSTRUCTION), 0; }

// Takes an interrupt, waits a cycle in wfi, or executes one instruction.
extern "C" void step(Hart &hart) {
  hart.update_lines();
  hart.status = DONE, hart.retired = hart.endless = 0, hart.cause = ~0u;
  const bool sleeps = hart.asleep && !(hart.csr[MIP] & hart.csr[MIE]);
  const u32 pending = hart.ready();
  hart.asleep = sleeps;
  if (pending) {
    const u32 line = most_urgent(pending), fallen = hart.raised & 1u << line;
    hart.csr[MIP] ^= fallen, hart.raised ^= fallen;
    hart.enter(MCAUSE_INTERRUPT | line);
  }
  if (pending || sleeps) hart.wait();
  else hart.execute();
  if (hart.status == DONE && (hart.asleep || hart.endless) && !hart.wakes()) hart.status = RESTS;
}

// Executes up to `limit` instructions, up to `until`, or until something is to be done elsewhere. Returns their number.
extern "C" u64 run(Hart &hart, u64 limit, u32 until) {
  const u64 begin = hart.executed, end = begin + (hart.path ? min(limit, PATH - hart.path_length) : limit);
  hart.halted = 0, hart.status = DONE;
  while (hart.executed < end && hart.pc != until && !hart.halted && hart.status == DONE) {
    const u64 until_line = hart.update_lines();
    if (!hart.fetches_anew && !hart.asleep && !hart.ready()) burst(hart, min(end - hart.executed, until_line), until);
    // a step repeats what a burst could not complete
    if (hart.status != RAISED && (hart.status != AGAIN || hart.memory->mtime)) hart.status = DONE;
    if (hart.status == DONE && hart.executed < end && hart.pc != until && !hart.halted) step(hart);
  }
  return hart.executed - begin;
}

struct Turns {
  Hart **harts;
  u64 count, quantum, left;  // harts, instructions of a turn, instructions up to the limit of all harts together
  u64 number, end;  // the next turn, and that before which Python must act
  u64 idle;  // turns in a row of harts that cannot go on

  // Returns whether a hart has completed its turn; a hart that cannot go on only passes the time.
  bool take(Hart &hart) {
    const bool rests = hart.waits || (hart.status == RESTS && !hart.wakes());
    idle = rests ? idle + 1 : 0;
    if (!rests) {
      left -= run(hart, min(quantum - (hart.executed - hart.begun), left), ~0u);
      const bool ends = hart.status == RESTS || (hart.status == DONE && hart.executed - hart.begun == quantum);
      if (hart.halted || !ends || !left) return false;
    }
    hart.skipped = 0;
    hart.pass(quantum - (hart.executed - hart.begun), 0, hart.csr[MCOUNTINHIBIT]);
    hart.begun = hart.executed;
    return true;
  }
};

// Lets harts take turns, up to one that is not completed, or a round in which no hart goes on.
extern "C" bool take_turns(Turns &turns) {
  for (; turns.number < turns.end && (turns.number % turns.count || turns.idle < turns.count); turns.number++)
    if (!turns.take(*turns.harts[turns.number % turns.count])) return false;
  return true;
}
