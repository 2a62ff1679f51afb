// SPDX-License-Identifier: Apache-2.0
// trace.cpp: per-thread event rings, and the writer that drains them.
//
// A ring has one writer, its thread, and one reader at a time, the thread that holds the session
// mutex. The list of rings only grows at its head, by any thread without a lock; only the holder of
// the mutex takes rings out, and only those whose thread will never touch them again (`ended`).
#include <spolia/base/trace.hpp>

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include <spolia/base/threads.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit std::atomic<std::uint64_t> trace_session{0};

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

constexpr std::uint64_t words_per_event = 3;
constexpr unsigned event_shift = 56;

struct event_words {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t what_and_count;
};

class ring {
 public:
  /// Null if there is no memory.
  static ring* make(std::uint64_t session, std::uint32_t thread, std::uint64_t capacity,
                    std::uint64_t min_ticks) noexcept {
    std::unique_ptr<std::uint64_t[]> words(new (std::nothrow)
                                               std::uint64_t[capacity * words_per_event]);
    if (words == nullptr) return nullptr;
    return new (std::nothrow) ring(session, thread, capacity, min_ticks, std::move(words));
  }

  /// Owner only.
  void push(const event_words& e) noexcept {
    const std::uint64_t n = done_.load(relaxed);
    begun_.store(n + 1, relaxed);
    // release → the acquires in read(): a reader that sees one of these words sees begun_ above it
    // too, and so notices that the event which was here before is gone; without that it could mix
    // two events.
    word(n, 0).store(e.start, release);
    word(n, 1).store(e.end, release);
    word(n, 2).store(e.what_and_count, release);
    // release → the acquire in done(): the counted event's words are there.
    done_.store(n + 1, release);
  }

  // acquire ← the release in push().
  std::uint64_t done() const noexcept { return done_.load(acquire); }

  std::uint64_t oldest_kept(std::uint64_t done) const noexcept {
    return done > capacity_ ? done - capacity_ : 0;
  }

  /// Copies event number `n`, which must be done; false if it was, or may have been, overwritten.
  bool read(std::uint64_t n, event_words& e) noexcept {
    // acquire ← the releases in push(); see there.
    e.start = word(n, 0).load(acquire);
    e.end = word(n, 1).load(acquire);
    e.what_and_count = word(n, 2).load(acquire);
    return begun_.load(relaxed) <= n + capacity_;
  }

  const std::uint64_t session;
  const std::uint32_t thread;
  const std::uint64_t min_ticks;
  std::atomic<bool> ended{false};  ///< set by the owner as its last access
  ring* next = nullptr;            ///< written before publication, then by the mutex holder
  std::uint64_t taken = 0;         ///< events below are written or lost; mutex holder only
  std::uint64_t written_to = 0;    ///< what `taken` becomes when the file is safe; likewise

 private:
  ring(std::uint64_t s, std::uint32_t t, std::uint64_t capacity, std::uint64_t min,
       std::unique_ptr<std::uint64_t[]> words) noexcept
      : session(s), thread(t), min_ticks(min), capacity_(capacity), words_(std::move(words)) {}

  std::atomic_ref<std::uint64_t> word(std::uint64_t n, std::uint64_t i) noexcept {
    return std::atomic_ref(words_[(n & (capacity_ - 1)) * words_per_event + i]);
  }

  const std::uint64_t capacity_;  // a power of two
  std::unique_ptr<std::uint64_t[]> words_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> done_{0};
};

constinit thread_local ring* my_ring = nullptr;

constinit std::atomic<ring*> rings{nullptr};
constinit std::atomic<std::uint64_t> dropped{0};

// What the running session was started with. Atomic, because a thread that is late for the last
// session may read them while the next one starts; its ring is then of the old session and ignored.
constinit std::atomic<std::uint64_t> ring_capacity{0};
constinit std::atomic<std::uint64_t> ring_min_ticks{0};

// Guarded by session_mutex.
constinit std::mutex session_mutex;
constinit std::uint64_t newest_session = 0;
constinit std::uint64_t session_start = 0;
constinit bool process_prepared = false;

void publish(ring* r) noexcept {
  ring* head = rings.load(relaxed);
  do {
    r->next = head;
    // release → the acquire in first_ring(): the ring is constructed.
  } while (!rings.compare_exchange_weak(head, r, release, relaxed));
}

ring* first_ring() noexcept {
  // acquire ← the release in publish().
  return rings.load(acquire);
}

void leave_ring() noexcept {
  if (my_ring == nullptr) return;
  // release → the acquire in free_ended(): our last access to the ring is over.
  my_ring->ended.store(true, release);
  my_ring = nullptr;
}

/// The caller's ring of session `session`, made if need be; null if there is no memory.
ring* own_ring(std::uint64_t session) noexcept {
  if (my_ring != nullptr && my_ring->session == session) return my_ring;
  leave_ring();
  std::uint32_t number = 0;
  try {
    number = here.number_plus_one != 0 ? here.number_plus_one - 1 : join();
    if (my_ring != nullptr) return my_ring;  // joining is an event itself
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  my_ring = ring::make(session, number, ring_capacity.load(relaxed), ring_min_ticks.load(relaxed));
  if (my_ring != nullptr) publish(my_ring);
  return my_ring;
}

/// Takes `r`, which follows `before` (null: it was the first when the caller looked), off the list.
void unlink(ring* r, ring* before) noexcept {
  if (before == nullptr) {
    ring* head = r;
    // acquire ← the release in publish(): on failure we walk over the rings added before r.
    if (rings.compare_exchange_strong(head, r->next, acquire, acquire)) return;
    for (before = head; before->next != r;) before = before->next;
  }
  before->next = r->next;
}

/// Frees the rings for which `useless` holds and that no thread will touch again. Mutex held.
template <class Useless>
void free_ended(Useless&& useless) noexcept {
  ring* before = nullptr;
  for (ring* r = first_ring(); r != nullptr;) {
    ring* const next = r->next;
    // acquire ← the owner's release with `ended`: it is done with the ring.
    if (r->ended.load(acquire) && useless(*r)) {
      unlink(r, before);
      delete r;
    } else {
      before = r;
    }
    r = next;
  }
}

std::int64_t to_ns(std::uint64_t ticks, double length) noexcept {
  return static_cast<std::int64_t>(static_cast<double>(static_cast<std::int64_t>(ticks)) * length);
}

/// Writes what `r` holds and has not written; returns false on a file error.
bool write_ring(ring& r, std::FILE* to, double length) noexcept {
  const std::uint64_t done = r.done();
  const std::uint64_t first = std::max(r.taken, r.oldest_kept(done));
  std::uint64_t lost = first - r.taken;
  for (std::uint64_t n = first; n < done; ++n) {
    event_words e{};
    if (!r.read(n, e)) {
      ++lost;
      continue;
    }
    const auto what = static_cast<trace_event>(e.what_and_count >> event_shift);
    const std::uint64_t count = e.what_and_count & ((std::uint64_t{1} << event_shift) - 1);
    if (std::fprintf(to,
                     "{\"t_ns\": %" PRId64 ", \"end_ns\": %" PRId64
                     ", \"thread\": %u, \"event\": \"%s\", \"count\": %" PRIu64 "}\n",
                     to_ns(e.start - session_start, length), to_ns(e.end - session_start, length),
                     r.thread, trace_name(what), count) < 0) {
      return false;
    }
  }
  r.written_to = done;
  return lost == 0 ||
         std::fprintf(to, "{\"event\": \"overwritten\", \"thread\": %u, \"count\": %" PRIu64 "}\n",
                      r.thread, lost) >= 0;
}

/// Closes rings when their threads end, and records that they did.
class ring_closer final : public listener {
 public:
  void thread_left(std::uint32_t) noexcept override {
    const std::uint64_t now = ticks::read();
    if (trace_session.load(relaxed) != 0) trace_record(trace_event::thread_left, now, now, 0);
    leave_ring();
  }
  void thread_lost(std::uint32_t number) noexcept override {
    for (ring* r = first_ring(); r != nullptr; r = r->next) {
      if (r->thread == number) r->ended.store(true, relaxed);  // a fork's child has one thread
    }
  }
};

constinit ring_closer closer;

/// Once in a process, before its first trace. Mutex held.
void prepare_process() {
  if (process_prepared) return;
  listen(closer);
  // After listen(), which makes the thread registry ask for its own turn: prepare handlers run in
  // reverse order, so that a fork locks our mutex and then the registry's, as trace_start() does.
  if (pthread_atfork([] { session_mutex.lock(); }, [] { session_mutex.unlock(); },
                     [] { session_mutex.unlock(); }) != 0) {
    unlisten(closer);
    throw std::bad_alloc();
  }
  process_prepared = true;
}

}  // namespace

const char* trace_name(trace_event what) noexcept {
  switch (what) {
    case trace_event::batch_freed:
      return "batch_freed";
    case trace_event::single_free:
      return "single_free";
    case trace_event::epoch_advanced:
      return "epoch_advanced";
    case trace_event::grace_period:
      return "grace_period";
    case trace_event::partition_dropped:
      return "partition_dropped";
    case trace_event::thread_joined:
      return "thread_joined";
    case trace_event::thread_left:
      return "thread_left";
    case trace_event::neutralized:
      return "neutralized";
  }
  return "unknown";
}

void trace_record(trace_event what, std::uint64_t start_ticks, std::uint64_t end_ticks,
                  std::uint64_t count) noexcept {
  // acquire ← the release in trace_start(): own_ring() sees that session's capacity.
  const std::uint64_t session = trace_session.load(acquire);
  if (session == 0) return;
  ring* const r = own_ring(session);
  if (r == nullptr) {
    dropped.fetch_add(1, relaxed);
    return;
  }
  if (what == trace_event::single_free && end_ticks - start_ticks < r->min_ticks) return;
  r->push({start_ticks, end_ticks, static_cast<std::uint64_t>(what) << event_shift | count});
}

bool trace_start(const trace_options& how) {
  constexpr std::uint64_t most = std::uint64_t{1} << 32U;
  if (how.capacity_per_thread == 0 || how.capacity_per_thread > most) {
    throw std::invalid_argument("spolia::trace::start: capacity_per_thread must be 1 to 2^32");
  }
  const double length = ns_per_tick();
  const std::lock_guard lock(session_mutex);
  if (trace_session.load(relaxed) != 0) return false;
  prepare_process();
  free_ended([](const ring&) { return true; });
  dropped.store(0, relaxed);
  ring_capacity.store(std::bit_ceil(std::uint64_t{how.capacity_per_thread}), relaxed);
  ring_min_ticks.store(static_cast<std::uint64_t>(static_cast<double>(how.min_ns) / length),
                       relaxed);
  session_start = ticks::read();
  // release → the acquire in trace_record().
  trace_session.store(++newest_session, release);
  return true;
}

void trace_stop() noexcept {
  const std::lock_guard lock(session_mutex);
  trace_session.store(0, relaxed);
}

bool trace_write(std::FILE* to) noexcept {
  const std::lock_guard lock(session_mutex);
  const double length = ns_per_tick();
  const auto current = [](const ring& r) { return r.session == newest_session; };
  ring* const first = first_ring();
  const std::uint64_t missing = dropped.load(relaxed);
  for (ring* r = first; r != nullptr; r = r->next) {
    if (current(*r) && !write_ring(*r, to, length)) return false;
  }
  if (missing != 0 &&
      std::fprintf(to, "{\"event\": \"dropped\", \"count\": %" PRIu64 "}\n", missing) < 0) {
    return false;
  }
  if (std::fflush(to) != 0) return false;
  for (ring* r = first; r != nullptr; r = r->next) {
    if (current(*r)) r->taken = r->written_to;
  }
  dropped.fetch_sub(missing, relaxed);
  free_ended([&](const ring& r) { return !current(r) || r.taken == r.done(); });
  return true;
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
