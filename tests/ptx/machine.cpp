// Executes the instructions of one kernel for all threads of a grid. `__init__.py` says what it models, and
// `program.py` makes the structures of the first part. CASES and FAULTS are inserted there.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

// --- what Python passes; the order of the fields is that of program.py ---

enum Kind { LANE, BRANCH, RETURN, BARRIER, COUNT_BARRIER, WARP_BARRIER, SHUFFLE, VOTE, MATCH, LOAD, STORE, ATOMIC, FENCE, ACTIVE_MASK, NOTHING };
enum Space { GLOBAL, SHARED };
enum ShuffleMode { UP, DOWN, BUTTERFLY, INDEX };
enum VoteMode { BALLOT, ANY, ALL };
enum AtomicMode { ADD, ADD_FLOAT, ADD_DOUBLE, COMPARE_AND_SWAP, EXCHANGE, AND, OR, MIN, MAX };
enum Fault { FAULTS };

struct Instruction {
  int32_t kind, opcode;            // the opcode: of an operation of one lane
  int32_t guard, negated;          // the predicate's register or -1
  int32_t targets[4], sources[6];  // registers
  int32_t offset, branch;
  int32_t space, size, count, is_signed;  // an access: bytes of a number, numbers
  int32_t mode, mask;              // which of the sources is the mask of a warp operation
};
struct Range { uint64_t start, bytes, unit; };  // memory that the kernel may use; unit: bytes of a number
struct Finding { int32_t fault, at, other, space, block, thread, other_block, other_thread; int64_t address, times; };
// How often an instruction ran, for a warp and for lanes; of accesses the requests, the sectors of 32 bytes and the least
// possible number of them, and the passes over the banks of shared memory and the least possible number of them.
struct Count { int64_t warps, lanes, requests, sectors, least_sectors, passes, least_passes; };
struct Launch {
  const Instruction* code;
  int64_t n_registers;
  const int32_t* constant_registers; const uint64_t* constants; int64_t n_constants;
  int32_t specials[8];  // registers of tid, ctaid, ntid, nctaid, laneid, warpid, dynamic_smem_size; -1: not used
  int64_t blocks, threads, static_shared, dynamic_at, dynamic_shared;
  int64_t resident, longest_turn, explore, most_steps, seed;
  const Range* ranges; int64_t n_ranges;
  Count* counts;
  Finding* findings; int64_t most_findings, n_findings;
};

// --- numbers ---

template <class T> static inline T get(uint64_t word) { T value; memcpy(&value, &word, sizeof value); return value; }
template <> inline bool get<bool>(uint64_t word) { return word & 1; }
template <class T> static inline uint64_t bits(T value) { uint64_t word = 0; memcpy(&word, &value, sizeof value); return word; }

template <class T> static inline T reversed(T value) {
  T result = 0;
  for (int i = 0; i < 8 * (int)sizeof(T); i++) result = result << 1 | (value >> i & 1);
  return result;
}
// `base` with the lowest `length` bits of `field` at a position.
template <class T> static inline T inserted(T field, T base, uint64_t position, uint64_t length) {
  const uint64_t width = 8 * sizeof(T);
  if (position >= width || !length) return base;
  const T mask = (length >= width ? ~(T)0 : ((T)1 << length) - 1) << position;
  return (base & ~mask) | (field << position & mask);
}
static inline double upper_half(double x) { return get<double>(bits(x) & 0xffffffff00000000ull); }
static inline float without_subnormals(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; }
template <class T> __attribute__((noinline)) static T fma_down(T a, T b, T c) {
  fesetround(FE_DOWNWARD);
  volatile T result = std::fma(a, b, c);
  fesetround(FE_TONEAREST);
  return result;
}
// A whole number as an integer: the nearest one that fits. NaN becomes zero, and of 64 bits the highest bit.
template <class T, class Float> static inline T saturated(Float x) {
  const int width = 8 * sizeof(T);
  const bool is_signed = (T)-1 < 0;
  if (std::isnan(x)) return width == 64 ? (T)(1ull << 63) : 0;
  const Float end = std::ldexp((Float)1, is_signed ? width - 1 : width);
  const T largest = is_signed ? (T)(~0ull >> (65 - width)) : (T)~0ull;
  if (x >= end) return largest;
  if (is_signed) return x < -end ? (T)(-largest - 1) : (T)(int64_t)x;
  return x <= 0 ? 0 : (T)(uint64_t)x;
}

// --- threads ---

struct Register { uint64_t lanes[32]; uint64_t& operator[](int lane) { return lanes[lane]; } };

struct Warp {
  Register* registers;
  int index;
  uint32_t alive, at_barrier, at_operation;  // lanes; the latter wait for others of the warp
  uint32_t active;                           // lanes that run now, all at `pc`; the pc of the others is in `pcs`
  int32_t pc, rejoin;                        // lanes that wait at `rejoin` run before any active lane passes it
  int32_t pcs[32];
  uint32_t epoch;                            // barriers of the warp and of the block so far
  bool alone;                                // lanes wait for some that cannot come
};

// What a thread's fence has published of a block: accesses before the epoch, and those of the thread in it.
struct Published { uint32_t epoch, thread; };
using Snapshot = std::map<int64_t, Published>;  // by block
// What a block has acquired: for the thread at once, for its other threads after the next barrier.
struct Acquired { Published what; uint32_t thread, epoch; };

// One access to a place: who, and when. Thread 0: nobody.
struct Access { int64_t block; uint32_t thread, epoch, warp_epoch; int32_t at; bool atomic; };
// The last write, and the last reads of two warps.
struct Place { Access write, read, other_read; uint64_t issue; bool written; };

struct Block {
  int64_t number = -1;
  bool live = false;
  std::vector<uint8_t> shared;
  std::vector<Place> places;
  std::vector<Warp> warps;
  std::vector<Register> registers;
  uint32_t epoch;  // barriers so far
  int waiting, alive;
  uint32_t counted;
  std::map<int64_t, Acquired> acquired;                   // by block
  std::unordered_map<uint32_t, Snapshot> fenced, observed;  // by thread
};

static inline bool has(uint32_t lanes, int lane) { return lanes >> lane & 1; }
static inline int size_of(uint32_t lanes) { return __builtin_popcount(lanes); }
static inline int first_of(uint32_t lanes) { return __builtin_ctz(lanes); }
#define FOR_LANES(lanes) for (int lane = 0; lane < 32; lane++) if (has(lanes, lane))
static const int32_t NEVER = 1 << 30;

static void merge(Snapshot& into, const Snapshot& from) {
  for (auto& [block, published] : from) {
    auto& old = into[block];
    if (old.epoch <= published.epoch) old = published;
  }
}

struct Machine {
  Launch& launch;
  std::vector<Block> blocks;
  std::vector<std::vector<Place>> places;  // of each range
  std::unordered_map<uint64_t, Snapshot> published;  // by the address of an atomic operation
  std::unordered_map<uint64_t, int64_t> found;       // number of a finding by its fault and its two instructions
  uint64_t random_state, issue = 0;
  int64_t steps = 0, last_range = 0;
  bool failed = false;

  explicit Machine(Launch& launch) : launch(launch), places(launch.n_ranges), random_state(launch.seed * 2 + 1) {}

  uint32_t random() {
    random_state ^= random_state << 13; random_state ^= random_state >> 7; random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
  }

  void report(Fault fault, Block& b, int thread, int at, int other = -1, int space = GLOBAL, uint64_t address = 0, const Access* earlier = nullptr) {
    const uint64_t key = (uint64_t)fault << 56 | (uint64_t)at << 28 | (uint64_t)(other + 1);
    if (auto old = found.find(key); old != found.end()) { launch.findings[old->second].times++; return; }
    if (launch.n_findings == launch.most_findings) return;
    found[key] = launch.n_findings;
    launch.findings[launch.n_findings++] = Finding{fault, at, other, space, (int32_t)b.number, thread,
        earlier ? (int32_t)earlier->block : -1, earlier ? (int32_t)earlier->thread - 1 : -1, (int64_t)address, 1};
  }

  int64_t shared_bytes() { return std::max(launch.static_shared, launch.dynamic_at + launch.dynamic_shared); }

  void start(Block& b, int64_t number) {
    b.number = number; b.live = true; b.epoch = 1; b.waiting = 0; b.alive = (int)launch.threads; b.counted = 0;
    b.acquired.clear(); b.fenced.clear(); b.observed.clear();
    b.shared.assign(shared_bytes() + 16, 0xA5);
    b.places.assign(shared_bytes() / 4 + 4, Place{});
    const int n_warps = (int)((launch.threads + 31) / 32);
    b.registers.resize(n_warps * launch.n_registers);
    memset((void*)b.registers.data(), 0xEE, b.registers.size() * sizeof(Register));
    b.warps.assign(n_warps, Warp{});
    for (int w = 0; w < n_warps; w++) {
      Warp& warp = b.warps[w];
      const int lanes = (int)std::min<int64_t>(32, launch.threads - 32 * w);
      warp.registers = b.registers.data() + w * launch.n_registers;
      warp.index = w; warp.epoch = 1; warp.rejoin = NEVER;
      warp.alive = warp.active = lanes == 32 ? ~0u : (1u << lanes) - 1;
      for (int64_t c = 0; c < launch.n_constants; c++)
        std::fill_n(warp.registers[launch.constant_registers[c]].lanes, 32, launch.constants[c]);
      for (int lane = 0; lane < 32; lane++) {
        const int64_t values[7] = {32 * w + lane, number, launch.threads, launch.blocks, lane, w, launch.dynamic_shared};
        for (int k = 0; k < 7; k++) if (launch.specials[k] >= 0) warp.registers[launch.specials[k]][lane] = values[k];
      }
    }
  }

  // --- which lanes run ---

  // Choose the lanes that run next. Returns false if all wait.
  bool choose(Block& b, Warp& w) {
    FOR_LANES(w.active) w.pcs[lane] = w.pc;
    w.active = 0;
    uint32_t ready = w.alive & ~w.at_barrier & ~w.at_operation;
    if (!ready) return w.at_operation && run_without_missing(b, w);
    int32_t chosen = NEVER;
    FOR_LANES(ready) chosen = std::min(chosen, w.pcs[lane]);
    if (launch.explore && random() % 100 < launch.explore) {
      int skipped = random() % size_of(ready);
      FOR_LANES(ready) if (!skipped--) chosen = w.pcs[lane];
    }
    w.pc = chosen; w.rejoin = NEVER;
    FOR_LANES(ready) {
      if (w.pcs[lane] == chosen) w.active |= 1u << lane;
      else if (w.pcs[lane] > chosen) w.rejoin = std::min(w.rejoin, w.pcs[lane]);
    }
    return true;
  }

  // All lanes wait, and some of them for lanes that cannot come. `exchange` reports it, and they go on. Those that they
  // waited for may also have ended since: then all is well.
  bool run_without_missing(Block& b, Warp& w) {
    int32_t lowest = NEVER;
    FOR_LANES(w.at_operation) lowest = std::min(lowest, w.pcs[lane]);
    w.pc = lowest; w.rejoin = NEVER; w.alone = true;
    FOR_LANES(w.at_operation) if (w.pcs[lane] == lowest) w.active |= 1u << lane;
    w.at_operation &= ~w.active;
    return true;
  }

  // --- accesses ---

  int64_t range_of(uint64_t address) {
    auto contains = [&](int64_t i) { return address - launch.ranges[i].start < launch.ranges[i].bytes; };
    if (last_range < launch.n_ranges && contains(last_range)) return last_range;
    const Range* end = launch.ranges + launch.n_ranges;
    const Range* after = std::upper_bound(launch.ranges, end, address, [](uint64_t a, const Range& r) { return a < r.start; });
    const int64_t i = after - launch.ranges - 1;
    return i >= 0 && contains(i) ? last_range = i : -1;
  }

  // Whether an earlier access is ordered before those that a thread makes now.
  bool is_ordered(const Access& earlier, Block& b, const Access& now) {
    if (earlier.block != b.number) {
      auto known = b.acquired.find(earlier.block);
      return known != b.acquired.end() && is_visible(known->second, now) && covers(known->second.what, earlier);
    }
    if (earlier.thread == now.thread || earlier.epoch != now.epoch) return true;
    return (earlier.thread - 1) / 32 == (now.thread - 1) / 32 && earlier.warp_epoch != now.warp_epoch;
  }
  static bool covers(const Published& what, const Access& a) { return a.epoch < what.epoch || (a.epoch == what.epoch && a.thread == what.thread); }
  static bool is_visible(const Acquired& a, const Access& now) { return now.thread == a.thread || now.epoch > a.epoch; }

  void check(Block& b, Warp& w, int lane, int at, int space, uint64_t address, int size, bool writes, bool atomic, bool changes) {
    const Access now{b.number, (uint32_t)(32 * w.index + lane) + 1, b.epoch, w.epoch, at, atomic};
    std::vector<Place>* all = &b.places;
    uint64_t first = address, unit = 4;
    if (space == GLOBAL) {
      const int64_t r = range_of(address);
      unit = launch.ranges[r].unit; first = address - launch.ranges[r].start; all = &places[r];
      if (all->empty()) all->assign(launch.ranges[r].bytes / unit + 2, Place{});
    }
    for (uint64_t u = first / unit; u <= (first + size - 1) / unit; u++) {
      Place& place = (*all)[u];
      auto compare = [&](const Access& earlier) {
        if (!earlier.thread || (atomic && earlier.atomic) || is_ordered(earlier, b, now)) return;
        const bool same_warp = earlier.block == b.number && (earlier.thread - 1) / 32 == (now.thread - 1) / 32;
        const Fault fault = earlier.block != b.number ? RACE_OF_BLOCKS : same_warp ? RACE_IN_A_WARP : RACE_OF_WARPS;
        report(fault, b, now.thread - 1, at, earlier.at, space, address, &earlier);
      };
      if (writes && changes) {
        if (!atomic && place.issue == issue && place.write.thread != now.thread) report(RACE_OF_LANES, b, now.thread - 1, at, at, space, address, &place.write);
        else compare(place.write);
        compare(place.read);
        compare(place.other_read);
      } else if (!writes || atomic) {
        compare(place.write);
      }
      if (space == SHARED && !place.written && !(writes && !atomic)) report(READ_OF_NOTHING, b, now.thread - 1, at, -1, space, address);
      if (writes) place.written = true;
      if (writes && changes) { place.write = now; place.issue = issue; }
      else if (!writes || atomic) {
        if (place.read.thread && (place.read.block != now.block || (place.read.thread - 1) / 32 != (now.thread - 1) / 32)) place.other_read = place.read;
        place.read = now;
      }
    }
  }

  // A fence orders what the thread has observed by atomic operations before what it does next, and publishes what it did.
  void fence(Block& b, uint32_t thread) {
    const Access now{b.number, thread, b.epoch, 0, 0, false};
    for (auto& [block, what] : b.observed[thread]) if (block != b.number) {
      auto& old = b.acquired[block];
      if (old.what.epoch <= what.epoch) old = Acquired{what, thread, b.epoch};
    }
    Snapshot all;
    for (auto& [block, acquired] : b.acquired) if (is_visible(acquired, now)) all[block] = acquired.what;
    all[b.number] = Published{b.epoch, thread};
    b.fenced[thread] = all;
  }

  void publish_and_observe(Block& b, uint32_t thread, uint64_t address) {
    if (auto known = published.find(address); known != published.end()) merge(b.observed[thread], known->second);
    if (auto fenced = b.fenced.find(thread); fenced != b.fenced.end()) merge(published[address], fenced->second);
  }

  static uint64_t changed(const Instruction& in, uint64_t old, uint64_t x, uint64_t y) {
    const uint64_t mask = in.size == 8 ? ~0ull : (1ull << 8 * in.size) - 1;
    auto less = [&](uint64_t a, uint64_t b) { return in.is_signed ? (in.size == 4 ? get<int32_t>(a) < get<int32_t>(b) : (int64_t)a < (int64_t)b) : (a & mask) < (b & mask); };
    switch (in.mode) {
      case ADD: return old + x;
      case ADD_FLOAT: return bits(get<float>(old) + get<float>(x));
      case ADD_DOUBLE: return bits(get<double>(old) + get<double>(x));
      case COMPARE_AND_SWAP: return (old & mask) == (x & mask) ? y : old;
      case AND: return old & x;
      case OR: return old | x;
      case MIN: return less(x, old) ? x : old;
      case MAX: return less(old, x) ? x : old;
      default: return x;
    }
  }

  void access(Block& b, Warp& w, const Instruction& in, uint32_t lanes) {
    Register* r = w.registers;
    const int at = w.pc, size = in.size * in.count;
    uint64_t addresses[32];
    uint32_t valid = 0;
    issue++;
    FOR_LANES(lanes) {
      const uint64_t address = r[in.sources[0]][lane] + (int64_t)in.offset;
      const int thread = 32 * w.index + lane;
      uint8_t* memory = nullptr;
      if (in.space == SHARED) {
        const uint64_t end = shared_bytes();
        if (address <= end && address + size <= end) memory = b.shared.data() + address;
      } else if (const int64_t i = range_of(address); i >= 0 && address + size <= launch.ranges[i].start + launch.ranges[i].bytes) {
        memory = (uint8_t*)address;
      }
      addresses[lane] = address;
      if (!memory || address % size) {
        report(memory ? MISALIGNED : OUT_OF_BOUNDS, b, thread, at, -1, in.space, address);
        failed = true;
        continue;
      }
      valid |= 1u << lane;
      bool changes = false;
      if (in.kind == LOAD) {
        for (int k = 0; k < in.count; k++) {
          uint64_t value = 0;
          memcpy(&value, memory + k * in.size, in.size);
          const int unused = 64 - 8 * in.size;
          r[in.targets[k]][lane] = in.is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
        }
      } else if (in.kind == STORE) {
        for (int k = 0; k < in.count; k++) {
          const void* value = &r[in.sources[1 + k]][lane];
          changes |= memcmp(memory + k * in.size, value, in.size) != 0;
          memcpy(memory + k * in.size, value, in.size);
        }
      } else {
        uint64_t old = 0;
        memcpy(&old, memory, in.size);
        const uint64_t value = changed(in, old, r[in.sources[1]][lane], in.mode == COMPARE_AND_SWAP ? r[in.sources[2]][lane] : 0);
        changes = memcmp(&old, &value, in.size) != 0;
        memcpy(memory, &value, in.size);
        if (in.targets[0] >= 0) r[in.targets[0]][lane] = old;
        if (in.space == GLOBAL) publish_and_observe(b, thread + 1, address);
      }
      check(b, w, lane, at, in.space, address, size, in.kind != LOAD, in.kind == ATOMIC, changes);
    }
    if (valid) count_traffic(launch.counts[at], in.space, addresses, valid, size);
  }

  void count_traffic(Count& count, int space, const uint64_t* addresses, uint32_t lanes, int size) {
    uint64_t touched[256];
    auto distinct = [&](int n) { std::sort(touched, touched + n); return (int)(std::unique(touched, touched + n) - touched); };
    count.requests++;
    if (space == GLOBAL) {
      int n = 0;
      FOR_LANES(lanes) touched[n++] = addresses[lane] / 32;
      n = distinct(n);
      count.sectors += n;
      count.least_sectors += std::min(n, (size_of(lanes) * size + 31) / 32);
      return;
    }
    // A pass serves 128 bytes: all lanes with 4 bytes, half of them with 8, a quarter with 16.
    const int group = size <= 4 ? 32 : size == 8 ? 16 : 8;
    for (int first = 0; first < 32; first += group) {
      int n = 0, banks[32] = {}, most = 0;
      for (int lane = first; lane < first + group; lane++)
        if (has(lanes, lane)) for (int k = 0; k < std::max(1, size / 4); k++) touched[n++] = addresses[lane] / 4 + k;
      if (!n) continue;
      n = distinct(n);
      for (int i = 0; i < n; i++) most = std::max(most, ++banks[touched[i] % 32]);
      count.passes += most;
      count.least_passes++;
    }
  }

  // --- barriers and operations of a warp ---

  void open_barrier(Block& b) {
    for (auto& w : b.warps) if (w.at_barrier) {
      // Warps may wait at different barriers of the text. Lanes of one warp may not.
      const int at = w.pcs[first_of(w.at_barrier)];
      if (b.alive != launch.threads) report(BARRIER_AFTER_END, b, 32 * w.index, at);
      FOR_LANES(w.at_barrier) {
        if (w.pcs[lane] != at) report(DIVERGENT_BARRIER, b, 32 * w.index + lane, w.pcs[lane], at);
        const Instruction& in = launch.code[w.pcs[lane]];
        if (in.kind == COUNT_BARRIER) w.registers[in.targets[0]][lane] = b.counted;
        w.pcs[lane]++;
      }
    }
    b.epoch++; b.waiting = 0; b.counted = 0;
    for (auto& w : b.warps) { w.at_barrier = 0; w.epoch++; w.active = 0; if (w.alive) choose(b, w); }
  }

  // Run an operation of a warp, or let the lanes wait for the others that it names. Returns false if they wait.
  bool exchange(Block& b, Warp& w, const Instruction& in, uint32_t lanes) {
    Register* r = w.registers;
    const int at = w.pc, caller = first_of(lanes);
    const uint32_t mask = (uint32_t)r[in.sources[in.mask]][caller];
    uint32_t here = lanes;
    FOR_LANES(w.at_operation) if (w.pcs[lane] == at) here |= 1u << lane;
    FOR_LANES(lanes) if (!has((uint32_t)r[in.sources[in.mask]][lane], lane)) report(LANE_NOT_IN_MASK, b, 32 * w.index + lane, at);
    if (mask & w.alive & ~here) {
      if (!w.alone) {
        FOR_LANES(lanes) w.pcs[lane] = at;
        w.at_operation |= lanes; w.active = 0;
        return false;
      }
      report(LANES_MISSING, b, 32 * w.index + caller, at);
    }
    w.alone = false;
    w.at_operation &= ~here;
    w.active = here;
    if (in.kind == WARP_BARRIER) { w.epoch++; return true; }
    uint64_t brought[32];
    memcpy(brought, r[in.sources[0]].lanes, sizeof brought);
    uint32_t votes = 0;
    if (in.kind == VOTE) FOR_LANES(here) votes |= (uint32_t)(brought[lane] & 1) << lane;
    FOR_LANES(here) {
      uint64_t& target = r[in.targets[0]][lane];
      if (in.kind == VOTE) {
        target = in.mode == BALLOT ? votes : in.mode == ANY ? votes != 0 : votes == here;
      } else if (in.kind == MATCH) {
        uint32_t equal = 0;
        for (int other = 0; other < 32; other++) if (has(here, other) && (uint32_t)brought[other] == (uint32_t)brought[lane]) equal |= 1u << other;
        target = equal;
      } else {
        shuffle(b, w, in, lane, here, brought);
      }
    }
    return true;
  }

  void shuffle(Block& b, Warp& w, const Instruction& in, int lane, uint32_t here, const uint64_t* brought) {
    Register* r = w.registers;
    const int operand = r[in.sources[1]][lane] & 31, control = (uint32_t)r[in.sources[2]][lane];
    const int segment = control >> 8 & 31, clamp = control & 31;
    const int last = (lane & segment) | (clamp & ~segment);
    int source = lane;
    bool in_segment;
    switch (in.mode) {
      case UP: source = lane - operand; in_segment = source >= last; break;
      case DOWN: source = lane + operand; in_segment = source <= last; break;
      case BUTTERFLY: source = lane ^ operand; in_segment = source <= last; break;
      default: source = (lane & segment) | (operand & ~segment); in_segment = source <= last;
    }
    if (!in_segment) source = lane;
    if (!has(here, source)) report(LANE_NOT_IN_MASK, b, 32 * w.index + lane, w.pc);
    r[in.targets[0]][lane] = (uint32_t)brought[source];
    if (in.targets[1] >= 0) r[in.targets[1]][lane] = in_segment;
  }

  // --- execution ---

  // Run a warp for some instructions. Returns false if it could do nothing.
  bool run(Block& b, Warp& w, int64_t turn) {
    if (!w.active && !choose(b, w)) return false;
    while (turn-- > 0 && !failed) {
      if (!w.active && !choose(b, w)) return true;
      const Instruction& in = launch.code[w.pc];
      uint32_t lanes = w.active;
      if (in.guard >= 0) FOR_LANES(w.active) if ((w.registers[in.guard][lane] & 1) == (uint64_t)in.negated) lanes &= ~(1u << lane);
      Count& count = launch.counts[w.pc];
      steps++; count.warps++; count.lanes += size_of(lanes);
      if (in.kind >= BARRIER && in.kind <= MATCH && lanes != w.active) {
        // Lanes whose guard is false pass by.
        FOR_LANES(w.active & ~lanes) w.pcs[lane] = w.pc + 1;
        w.active = lanes;
        w.rejoin = std::min(w.rejoin, w.pc + 1);
        if (!lanes) continue;
      }
      switch (in.kind) {
        case BRANCH: branch(b, w, in, lanes); continue;
        case RETURN:
          w.alive &= ~lanes; w.active &= ~lanes; b.alive -= size_of(lanes);
          if (b.alive && b.waiting == b.alive) open_barrier(b);
          if (!b.alive) { b.live = false; return true; }
          if (w.active) w.pc++;
          continue;
        case BARRIER: case COUNT_BARRIER:
          FOR_LANES(lanes) {
            w.pcs[lane] = w.pc;
            if (in.kind == COUNT_BARRIER) b.counted += w.registers[in.sources[1]][lane] & 1;
          }
          w.at_barrier |= lanes; w.active = 0; b.waiting += size_of(lanes);
          if (b.waiting == b.alive) open_barrier(b);
          continue;
        case WARP_BARRIER: case SHUFFLE: case VOTE: case MATCH:
          if (!exchange(b, w, in, lanes)) continue;
          break;
        case LOAD: case STORE: case ATOMIC: access(b, w, in, lanes); break;
        case FENCE: FOR_LANES(lanes) fence(b, 32 * w.index + lane + 1); break;
        case ACTIVE_MASK: FOR_LANES(lanes) w.registers[in.targets[0]][lane] = w.active; break;
        case NOTHING: break;
        default: execute(b, w, in, lanes);
      }
      if (++w.pc >= w.rejoin) choose(b, w);
    }
    return true;
  }

  void branch(Block& b, Warp& w, const Instruction& in, uint32_t lanes) {
    if (lanes && lanes != w.active) {
      FOR_LANES(w.active) w.pcs[lane] = has(lanes, lane) ? in.branch : w.pc + 1;
      w.active = 0;
      return;
    }
    const bool backwards = lanes && in.branch <= w.pc;
    w.pc = lanes ? in.branch : w.pc + 1;
    if ((w.pc >= w.rejoin || backwards) && w.active != w.alive) choose(b, w);
  }

#define EACH_LANE(code) if (lanes == ~0u) for (int lane = 0; lane < 32; lane++) { code } else FOR_LANES(lanes) { code }
#define S0 r[in.sources[0]][lane]
#define S1 r[in.sources[1]][lane]
#define S2 r[in.sources[2]][lane]
#define S3 r[in.sources[3]][lane]
#define D0 r[in.targets[0]][lane]
#define D1 r[in.targets[1]][lane]
#define division_by_zero() report(DIVISION_BY_ZERO, b, 32 * w.index + lane, w.pc)
  void execute(Block& b, Warp& w, const Instruction& in, uint32_t lanes) {
    Register* r = w.registers;
    switch (in.opcode) {
CASES
    }
  }

  void run_all() {
    const int64_t resident = std::min(launch.resident, launch.blocks);
    int64_t next = 0, done = 0, idle = 0;
    blocks.resize(resident);
    for (auto& b : blocks) start(b, next++);
    while (done < launch.blocks && !failed) {
      Block& b = blocks[random() % resident];
      if (!b.live) continue;
      Warp& w = b.warps[random() % b.warps.size()];
      if (!w.alive) continue;
      const int64_t before = steps;
      run(b, w, 1 + random() % launch.longest_turn);
      idle = steps == before ? idle + 1 : 0;
      if (idle > 10'000'000 || steps > launch.most_steps) { report(HANG, b, 32 * w.index, w.active ? w.pc : w.pcs[first_of(w.alive)]); failed = true; }
      if (!b.live) { done++; if (next < launch.blocks) start(b, next++); else b.number = -1; }
    }
  }
};

extern "C" void run_grid(Launch* launch) { Machine machine(*launch); machine.run_all(); }
extern "C" int64_t launch_bytes() { return sizeof(Launch); }
