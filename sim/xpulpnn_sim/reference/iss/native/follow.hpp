// Lock step: steps a hart along the records of a design, and compares both.

// Why a record is wrong, if its field alone does not tell.
enum Why : u32 { NO_WHY, DISABLED, NOT_ENABLED, NO_LINE, LESS_URGENT, OVERDUE, NOT_PENDING, UNCLAIMED, MARKED };

// Most retirements while an interrupt is pending and enabled; fewer instructions are in flight.
constexpr u32 PATIENCE = 8;

// The interrupt of the record. If its handler traps at once, the address tells; with one handler for all, any may be it.
static u32 line_of(const Hart &hart, const Record &record) {
  const u32 mtvec = hart.csr[MTVEC], enabled = hart.csr[MIE];
  if (!record.trap) return record.cause & CAUSE_CODE;
  if (mtvec & MTVEC_VECTORED) return (record.pc_rdata - u32(mtvec & MTVEC_BASE)) / VECTOR_BYTES & CAUSE_CODE;
  return enabled ? 31 - __builtin_clz(enabled) : 0;
}

struct Grant {  // an access that a data bus has granted
  u64 cycle;
  u32 hart, address, we, be, wdata, unused;
};

constexpr u32 VIEW = 1 << TEST_SET_BIT, TEST_SET = TCDM_BASE | VIEW;  // view of the TCDM that marks what it reads

static u32 canonical(u32 address) {
  return address - TCDM_ALIAS < VIEW || address - TEST_SET < VIEW ? TCDM_BASE | address % VIEW : address;
}

struct Follower {
  u64 unread;  // fields that are not compared
  Grant *next, *end;  // accesses that no instruction has made yet, or null if accesses are not compared
  u64 order;  // number of the next record, 0 for any
  u32 streams;  // whether the instructions come from a stream, in which nothing may trap
  u32 ended;  // whether the bus has answered the last access of the instruction with an error
  u32 claims;  // accesses of the next record in a cluster
  Grant claimed[16];
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
        const u32 place = __builtin_ctzll(places), wanted = (&mine.insn)[place];
        // stored data above the size of the access may have any value
        const u32 found = (&record.insn)[place] & (place == PLACE_mem_wdata ? u32(zx(-1, 8 * op->size)) : ~0u);
        if (wanted != found) return differs(place, wanted, found);
      }
      return false;
    };
    // loaded words are compared behind operands and bus, results behind loaded words
    constexpr u64 one = 1, loaded = one << PLACE_mem_rdata | one << PLACE_nn_wdata;
    constexpr u64 results = one << PLACE_rd_wdata | one << PLACE_rd2_wdata | one << PLACE_base_wdata | one << PLACE_pc_wdata;
    const u64 always = ALWAYS & ~unread, valid = hart.valid & ~unread;
    if (mine.trap != record.trap) return differs(PLACE_trap, mine.trap, record.trap);
    // an instruction that traps writes nothing; of one whose access fails the operands count
    if (mine.trap && compare(always | (fails(hart) ? valid : 0) | one << PLACE_rd_we | one << PLACE_base_we)) return true;
    if (mine.trap) return fails(hart) && accesses_differ(*op, hart, record);
    if (compare(always & ~results)) return true;
    // writes of x0 do not count; a base that is also rd may be reported or not
    const u32 rd = record.rd_we ? record.rd_addr : 0, base = record.base_we ? record.base_addr : 0;
    const bool same = base == (op->flags & UPDATES ? op->rs1 : 0) && (base == rd || (mine.rd2_we && base == rd + 1));
    if (rd != mine.rd_addr) return differs(PLACE_rd_addr, mine.rd_addr, rd);
    if (base != mine.base_addr && !same) return differs(PLACE_base_addr, mine.base_addr, base);
    if (compare(valid & ~loaded & ~results) || accesses_differ(*op, hart, record)) return true;
    return compare(valid & loaded) || compare(valid & results);
  }

  static bool fails(const Hart &hart) {
    return hart.record.trap && (hart.cause == LOAD_ACCESS_FAULT || hart.cause == STORE_ACCESS_FAULT);
  }

  // Compares an access of the instruction with the next one that the bus has granted.
  bool access_differs(const Record &record, u32 address, bool writes, u32 enables, u32 data) {
    if (next == end || next->cycle >= record.cycle) return differs(PLACE_bus_req, 1, 0);
    const Grant &grant = *next++;
    u32 bits = 0;
    for (u32 byte = 0; byte < 4; byte++) bits |= (enables >> byte & 1) * 0xFFu << 8 * byte;
    if (grant.address != address) return differs(PLACE_bus_addr, address, grant.address);
    if (grant.we != writes) return differs(PLACE_bus_we, writes, grant.we);
    // of one that several cores share the bytes are not known
    if (grant.be != enables && (writes || grant.be)) return differs(PLACE_bus_be, enables, grant.be);
    return writes && (grant.wdata ^ data) & bits && differs(PLACE_bus_wdata, data & bits, grant.wdata & bits);
  }

  // Compares the accesses to the words of some bytes. What follows one that the bus answers with an error is not
  // requested; addresses of a cluster at which nothing is are seen on no bus, and peripherals are checked elsewhere.
  bool words_differ(const Hart &hart, const Record &record, u32 address, u32 size, bool writes) {
    const Memory &memory = *hart.memory;
    const u64 enables = u64((1 << size) - 1) << address % 4, data = u64(hart.stored) << 8 * (address % 4);
    if (memory.answers && address - memory.devices < memory.device_bytes) return false;
    for (u32 word = 0; word < 2 && enables >> 4 * word; word++) {
      const u32 at = (address & ~3u) + 4 * word;
      u32 value;
      ended = hart.record.trap && memory.read(at, 4, &value) == BUS_ERROR;
      if (ended && memory.answers && (at - TCDM_ALIAS < VIEW || at - TCDM_BASE < 2 * VIEW)) return false;
      const u32 place = memory.answers ? canonical(at) : at;
      if (access_differs(record, place, writes, enables >> 4 * word & 15, data >> 32 * word)) return true;
      if (ended) return false;
    }
    return false;
  }

  bool accesses_differ(const Op &op, const Hart &hart, const Record &record) {
    ended = false;
    if (!next) return false;
    if (op.size) return words_differ(hart, record, hart.address, op.size, op.flags & STORE);
    // a search alternates between two pixels; of one whose access fails some addresses of the other are not known
    for (u32 load = 0; op.loads > 1 && load < op.loads && !ended; load++) {
      const u32 place = load % 2 * (op.loads / 2) + load / 2;
      const bool is_known = place < hart.searched;
      if (!is_known && next == end) return differs(PLACE_bus_req, 1, 0);
      const u32 address = is_known ? hart.places[place] : next->address + (next->be & 3 ? 0 : 2);
      if (words_differ(hart, record, address, 2, false)) return true;
    }
    return false;
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
    if (order && record.order != order) return differs(PLACE_order, order, record.order);
    if (streams && record.trap) return differs(PLACE_trap, 0, 1);
    order = record.order + 1;
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
    if (fails(hart)) memset(free + PCCR0_ADDRESS, 1, EVENTS);
    return lines && lines_differ(hart, record, *lines);
  }
};
