// Lock step of a cluster: steps harts along their records, in the order in which the bus granted their accesses.

constexpr u32 VIEW = 1 << TEST_SET_BIT, TEST_SET = TCDM_BASE | VIEW;  // view of the TCDM that marks what it reads

struct Grant { u64 cycle; u32 hart, address, we, be, wdata, unused; };
// The next record of a hart takes effect, or an access without one; of a hart that does not exist for DMA and host.
struct Action { u64 hart; I position, access; };

struct Walk {
  Hart **harts;
  Follower **followers;
  Record **records;
  Grant *grants;
  u64 hart_count, failed;  // the hart at which the walk ended
  u64 done[64];  // records of each hart that have been followed
  u32 halves[64], before[64], after[64];  // the first of two words that an instruction uses, before and after its access

  void apply(u32 address, u32 enables, u32 value) {
    for (u32 byte = 0; byte < 4; byte++)
      if (enables >> byte & 1) harts[0]->store(address + byte, 1, value >> 8 * byte);
  }
  static bool tests_and_sets(u32 address) { return address - TEST_SET < TCDM_SPACE; }

  // Returns the aligned word at an address; replaces it unless `content` is null.
  u32 exchange(u32 address, const u32 *content) {
    Memory &memory = *harts[0]->memory;
    const u32 place = (tests_and_sets(address) ? address - VIEW : address) & ~3u;
    u8 *bytes = memory.bytes(place, 4);
    u32 word = 0;
    if (!bytes) return 0;
    memcpy(&word, bytes, 4);
    if (content) memcpy(bytes, content, 4), forget(memory, place, 4);
    return word;
  }

  // The first of two accesses saves the word of a load, makes a store or the write of a test&set.
  void make_first_half(u32 hart, const Grant &grant) {
    before[hart] = exchange(grant.address, nullptr);
    if (grant.we) apply(grant.address, grant.be, grant.wdata);
    else if (tests_and_sets(records[hart][done[hart]].mem_addr)) apply(grant.address, grant.be, ~0u);
    after[hart] = exchange(grant.address, nullptr), halves[hart] = 1;
  }

  // Steps a hart through an instruction whose only or second access the bus grants now.
  bool follow_access(u32 hart, const Record &record, bool granted) {
    Follower &follower = *followers[hart];
    const u32 address = record.mem_addr, half = halves[hart];
    const bool crosses = address % 4 + __builtin_popcount(record.mem_rmask | record.mem_wmask) > 4;
    halves[hart] = 0;
    if (!granted || crosses != half) return follower.differs(PLACE_grants, 1 + crosses, granted + half, GRANTS);
    if (!half) return follower.follow(*harts[hart], record, nullptr);
    // the instruction sees the first word as it was at its grant, other accesses see it as it is now
    const u32 now = exchange(address, before + hart);
    if (follower.follow(*harts[hart], record, nullptr)) return true;
    const u32 left = exchange(address, &now);
    return left != after[hart] && follower.differs(PLACE_mem_wdata, left, after[hart], FIRST_WORD);
  }

  bool act(const Action &action) {
    const u32 hart = action.hart;
    if (action.position < 0) {
      const Grant &grant = grants[action.access];
      if (hart == hart_count) apply(grant.address, grant.be, grant.wdata);
      else make_first_half(hart, grant);
      return false;
    }
    const Record &record = records[hart][action.position];
    done[hart] = action.position;
    const u32 address = record.mem_addr;
    bool differs;
    if (record.mem_rmask | record.mem_wmask) {
      Memory &memory = *harts[hart]->memory;
      memory.answer = record.mem_rdata;
      differs = follow_access(hart, record, action.access >= 0 || address - memory.devices < memory.device_bytes);
    } else {
      // an instruction that traps may have made the first of two accesses
      halves[hart] = 0;
      differs = followers[hart]->follow(*harts[hart], record, nullptr);
    }
    done[hart] += !differs;
    return differs;
  }
};

// Returns whether all actions have been made without a difference or an exception of Python.
extern "C" bool walk(Walk &walk, const Action *actions, u64 count) {
  for (const Action *action = actions; action < actions + count; action++) {
    walk.failed = min(action->hart, walk.hart_count - 1);
    Hart &hart = *walk.harts[walk.failed];
    try {
      if (walk.act(*action)) {
        if (hart.status != RAISED) hart.status = DIFFERS;
        return false;
      }
    } catch (Status why) {
      hart.status = why;
      return false;
    }
  }
  return true;
}
