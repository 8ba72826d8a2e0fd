// Steps the harts of a core or cluster along their records, in the order in which the bus granted their accesses.

struct Walk {
  Hart **harts;
  Follower **followers;
  Record **held, **records;  // records of each hart that earlier blocks have left, and those of this block
  u32 *lines;  // interrupt lines at each record of a single hart, or null if they are not known
  Grant *grants;  // of all masters, in order, or null if accesses are not compared
  u64 hart_count, grant_count, at_end;  // at_end: the run is over
  u64 failed;  // the hart with a difference or an exception of Python; hart_count if there is none
  u64 held_counts[64], counts[64], done[64];  // records left, all records, and those that have been followed
  u32 before[64];  // the first of two words that an instruction uses, as it was at its grant

  const Record &next(u64 hart) const {
    const u64 left = held_counts[hart], number = done[hart];
    return number < left ? held[hart][number] : records[hart][number - left];
  }

  // Whether an address is in the view of the TCDM that marks what it reads, which clusters have.
  bool tests_and_sets(u32 address) const { return harts[0]->memory->answers && address - TEST_SET < VIEW; }

  // Makes an access of DMA engine or host, or one that no instruction claims before the end.
  void apply(u32 address, u32 enables, u32 value) {
    try {
      for (u32 byte = 0; byte < 4; byte++)
        if (enables >> byte & 1) harts[0]->store(address + byte, 1, value >> 8 * byte);
    } catch (Status) {
      // an access outside memory ends the run of the design
    }
  }

  // Returns the aligned word at an address; replaces it unless `content` is null.
  u32 exchange(u32 address, const u32 *content) {
    Memory &memory = *harts[0]->memory;
    u8 *bytes = memory.bytes(address, 4);
    u32 word = 0;
    if (!bytes) return 0;
    memcpy(&word, bytes, 4);
    if (content) memcpy(bytes, content, 4), forget(memory, address, 4);
    return word;
  }

  // The first of two accesses saves the word of a load, makes a store or the write of a test&set.
  void make_first(u32 hart, const Record &record, const Grant &grant) {
    before[hart] = exchange(grant.address, nullptr);
    if (grant.we) apply(grant.address, grant.be, grant.wdata);
    else if (tests_and_sets(record.mem_addr)) apply(grant.address, record.mem_rmask << record.mem_addr % 4, ~0u);
  }

  // Steps a hart through its next record, for which all accesses have been granted. Returns whether there is a difference.
  bool follow(u32 hart) {
    const Record &record = next(hart);
    Follower &follower = *followers[hart];
    const u32 first = follower.claimed[0].address;
    follower.next = grants ? follower.claimed : nullptr, follower.end = follower.next + follower.claims;
    harts[hart]->memory->answer = record.mem_rdata;
    // the instruction sees the first of two words as it was at its grant, other accesses see it as it is now
    const bool crosses = follower.claims == 2 && record.mem_rmask | record.mem_wmask;
    const u32 now = crosses ? exchange(first, before + hart) : 0;
    if (follower.follow(*harts[hart], record, lines ? lines + done[hart] : nullptr)) return true;
    if (crosses) exchange(first, &now);
    if (follower.next != follower.end) return follower.differs(PLACE_bus_req, 0, 1, UNCLAIMED);
    follower.claims = 0, done[hart]++;
    return false;
  }

  // A test&set is followed by a write of ones into the bytes it has read, before anybody reads the word.
  bool is_unmarked(u64 number, const Record &record, Follower &follower) {
    const Grant &read = grants[number];
    const u32 lanes = record.mem_rmask << record.mem_addr % 4;
    const u32 enables = (record.mem_addr ^ read.address) & 4 ? lanes >> 4 : lanes & 15;
    u64 later = number + 1;
    while (later < grant_count && (grants[later].address != read.address || grants[later].hart > NO_MASTER)) later++;
    const Grant *mark = later < grant_count ? grants + later : &read;
    if (mark->hart != NO_MASTER || !mark->we) return follower.differs(PLACE_bus_we, 1, 0, MARKED);
    if (mark->be != enables) return follower.differs(PLACE_bus_be, enables, mark->be, MARKED);
    return mark->wdata != ~0u && follower.differs(PLACE_bus_wdata, ~0u, mark->wdata, MARKED);
  }

  // An access belongs to the first instruction that retires after its grant; the last access makes the instruction.
  bool grant(u64 number) {
    const Grant &granted = grants[number];
    const u32 hart = granted.hart;
    const Record &record = next(hart);
    Follower &follower = *followers[hart];
    if (follower.claims == 16) return follower.differs(PLACE_bus_req, 0, 1, UNCLAIMED);
    follower.claimed[follower.claims++] = granted;
    if (tests_and_sets(record.mem_addr) && record.mem_rmask && is_unmarked(number, record, follower)) return true;
    for (u64 later = number + 1; later < grant_count && grants[later].cycle < record.cycle; later++)
      if (grants[later].hart == hart) return make_first(hart, record, granted), false;
    return follow(hart);
  }

  // Steps all harts through the records up to a cycle, of which the bus has granted no access.
  bool advance(u64 cycle) {
    for (failed = 0; failed < hart_count; failed++)
      while (done[failed] < counts[failed] && next(failed).cycle <= cycle)
        if (follow(failed)) return true;
    return false;
  }

  // Accesses without cycles, or of another core, are those of one hart, in the order of its instructions.
  bool go_in_order(u64 &number) {
    Follower &follower = *followers[failed = 0];
    for (; done[0] < counts[0]; done[0]++, number = follower.next - grants) {
      follower.next = grants + number, follower.end = grants + grant_count;
      if (follower.follow(*harts[0], next(0), lines ? lines + done[0] : nullptr)) return true;
    }
    return false;
  }

  // Returns whether a hart differs; `number` gets the accesses that have been made.
  bool go(u64 &number) {
    u64 now = 0;
    if (grant_count && (!grants[0].cycle || followers[0]->unread)) return go_in_order(number);
    for (; number < grant_count; number++) {
      const Grant &granted = grants[number];
      // the write of a test&set is made with its read
      if (granted.hart >= NO_MASTER) continue;
      if (granted.cycle != now && advance(now = granted.cycle)) return true;
      failed = granted.hart;
      if (failed < hart_count && done[failed] < counts[failed]) {
        if (grant(number)) return true;
      } else if (failed >= hart_count || at_end) {
        failed = 0;
        if (granted.we) apply(granted.address, granted.be, granted.wdata);
      } else {
        break;
      }
    }
    return number == grant_count && advance(~u64(0));
  }
};

// Makes accesses and follows records as far as the order is known. Returns the number of accesses made.
extern "C" u64 walk(Walk &walk) {
  u64 number = 0;
  bool differs = true;
  try {
    differs = walk.go(number);
    if (differs && walk.harts[walk.failed]->status != RAISED) walk.harts[walk.failed]->status = DIFFERS;
  } catch (Status why) {
    walk.harts[walk.failed]->status = why;
  }
  if (!differs) walk.failed = walk.hart_count;
  return number;
}
