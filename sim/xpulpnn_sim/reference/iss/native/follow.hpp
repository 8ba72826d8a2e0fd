// Lock step: steps a hart along the records of a design, and compares both.

// Why a record is wrong, if its field alone does not tell.
enum Why : u32 { NO_WHY, DISABLED, NOT_ENABLED, NO_LINE, LESS_URGENT, OVERDUE, NOT_PENDING, GRANTS, FIRST_WORD };

// Most retirements while an interrupt is pending and enabled; fewer instructions are in flight.
constexpr u32 PATIENCE = 8;

// The interrupt of the record. If its handler traps at once, the address tells; with one handler for all, any may be it.
static u32 line_of(const Hart &hart, const Record &record) {
  const u32 mtvec = hart.csr[MTVEC], enabled = hart.csr[MIE];
  if (!record.trap) return record.cause & CAUSE_CODE;
  if (mtvec & MTVEC_VECTORED) return (record.pc_rdata - u32(mtvec & MTVEC_BASE)) / VECTOR_BYTES & CAUSE_CODE;
  return enabled ? 31 - __builtin_clz(enabled) : 0;
}

struct Follower {
  u64 unread;  // fields that are not compared
  u8 free[CSR_ADDRESSES];  // CSRs, by address, whose values come from the design
  u32 waiting;  // retirements while an interrupt has been pending and enabled
  u32 high_before, high_last;  // lines at the last two records; 0 when an interrupt is taken
  u32 place, expected, got, why, detail;  // the difference; detail is the number of a line or of retirements

  bool differs(u32 field, u32 wanted, u32 found, Why reason = NO_WHY, u32 more = 0) {
    place = field, expected = wanted, got = found, why = reason, detail = more;
    return true;
  }

  // Takes the interrupt of a record, which must be enabled and the most urgent one of the lines, if they are known.
  bool takes_wrongly(Hart &hart, const Record &record, const u32 *lines) {
    const u32 line = line_of(hart, record), enabled = hart.csr[MIE];
    if (lines && !(*lines & enabled)) return differs(PLACE_intr, 0, 1, NO_LINE);
    const u32 urgent = lines ? most_urgent(*lines & enabled) : line;
    if (line != urgent && !record.trap)
      return differs(PLACE_cause, CAUSE_INTERRUPT | urgent, record.cause, LESS_URGENT, line);
    if (!hart.flag(MSTATUS_MIE_BIT)) return differs(PLACE_intr, 0, 1, DISABLED);
    if (!(enabled >> line & 1)) return differs(PLACE_intr, 0, 1, NOT_ENABLED, line);
    hart.enter(MCAUSE_INTERRUPT | line);
    waiting = 0;
    return false;
  }

  bool has_difference(const Op *op, const Hart &hart, const Record &record) {
    const Record &mine = hart.record;
    const auto compare = [&](u64 places) {
      for (; places; places &= places - 1) {
        const u32 place = __builtin_ctzll(places), wanted = (&mine.insn)[place], found = (&record.insn)[place];
        // stored data above the size of the access may have any value
        const u32 mask = place == PLACE_mem_wdata ? u32(zx(-1, 8 * op->size)) : ~0u;
        if (wanted != (found & mask)) return differs(place, wanted, found);
      }
      return false;
    };
    // an instruction that traps writes nothing
    if (mine.trap) return compare(ALWAYS | u64(1) << PLACE_rd_we | u64(1) << PLACE_base_we);
    if (compare(ALWAYS)) return true;
    // writes of x0 do not count; a base that is also rd may be reported or not
    const u32 rd = record.rd_we ? record.rd_addr : 0, base = record.base_we ? record.base_addr : 0;
    const bool same = base == (op->flags & UPDATES ? op->rs1 : 0) && (base == rd || (mine.rd2_we && base == rd + 1));
    if (rd != mine.rd_addr) return differs(PLACE_rd_addr, mine.rd_addr, rd);
    if (base != mine.base_addr && !same) return differs(PLACE_base_addr, mine.base_addr, base);
    return compare(hart.valid & ~unread);
  }

  // Interrupts must be taken soon. Of a word read from mip, lines that were high before must be set, and lines that are
  // low now must not.
  bool lines_differ(const Hart &hart, const Record &record, u32 level) {
    const u32 pending = hart.flag(MSTATUS_MIE_BIT) ? level & hart.csr[MIE] : 0;
    // single steps of a debugger may disable interrupts
    if (record.halt >> DEBUG_WAIT & 1) waiting = 0;
    waiting = pending ? waiting + 1 : 0;
    if (waiting > PATIENCE) return differs(PLACE_interrupt, 1, 0, OVERDUE, 31 - __builtin_clz(pending));
    const u32 before = high_before, shown = record.rd_wdata;
    high_before = record.intr ? 0 : high_last, high_last = record.intr ? 0 : level;
    if (hart.csr_read != MIP_ADDRESS || !record.rd_we || !record.rd_addr) return false;
    return (before & ~shown || shown & ~level) && differs(PLACE_rd_wdata, before | (shown & level), shown, NOT_PENDING);
  }

  // Executes the instruction of a record. Returns whether there is a difference, or an exception of Python.
  bool follow(Hart &hart, const Record &record, const u32 *lines) {
    hart.asleep = 0;
    if (record.intr && takes_wrongly(hart, record, lines)) return true;
    if (record.pc_rdata != hart.pc) return differs(PLACE_pc_rdata, hart.pc, record.pc_rdata);
    // the time of a core-local interruptor comes from the design
    for (u32 byte = 0; hart.memory->mtime && byte < 4; byte++)
      if (const u32 at = record.mem_addr + byte - MTIME_ADDRESS; record.mem_rmask >> byte & 1 && at < 8)
        hart.memory->mtime[at] = record.mem_rdata >> 8 * byte;
    const Op *op = hart.execute();
    if (hart.status == RAISED) return true;
    const u32 rd = hart.record.rd_we ? hart.record.rd_addr : 0;
    if (rd && hart.csr_read && free[hart.csr_read]) hart.record.rd_wdata = hart.regs[rd] = record.rd_wdata;
    if (has_difference(op, hart, record)) return true;
    // the instruction dropped behind a faulting access may have been counted
    if (hart.record.trap && (hart.cause == LOAD_ACCESS_FAULT || hart.cause == STORE_ACCESS_FAULT))
      memset(free + PCCR0_ADDRESS, 1, EVENTS);
    return lines && lines_differ(hart, record, *lines);
  }
};

// Follows records up to one that differs or an exception of Python. Returns the number of those before; the status of
// the hart tells what ended it.
extern "C" u64 follow(Hart &hart, Follower &follower, const Record *records, const u32 *lines, u64 count) {
  hart.status = DONE;
  for (u64 done = 0; done < count; done++)
    if (follower.follow(hart, records[done], lines ? lines + done : nullptr)) {
      if (hart.status != RAISED) hart.status = DIFFERS;
      return done;
    }
  return count;
}
