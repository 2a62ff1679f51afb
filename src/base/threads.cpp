// SPDX-License-Identifier: Apache-2.0
// threads.cpp: the process's one registry of threads.
#include <spolia/base/threads.hpp>

#include <pthread.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <spolia/base/ticks.hpp>
#include <spolia/base/trace.hpp>

// The C++ ABI's; no header of both C++ libraries declares them.
extern "C" {
int __cxa_atexit(void (*function)(void*), void* argument, void* handle) noexcept;
void __cxa_finalize(void* handle);
}

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit thread_local SPOLIA_TLS_MODEL this_thread here{};
constinit std::uint32_t forks = 0;

/// How many things the thread is making now, one for the other.
constinit thread_local std::uint32_t makings = 0;

/// Callers on whom nothing may be thrown expect to be short of memory, and of nothing else.
class no_key : public std::bad_alloc {
 public:
  const char* what() const noexcept override {
    return "spolia: the process has no pthread key left, and a thread's first call needs one: "
           "delete one that is not used (pthread_key_delete), or load fewer libraries";
  }
};

/// Never destroyed: threads may end, and thread-local destructors may run, after static
/// destructors.
class registry {
 public:
  static registry& get() noexcept {
    alignas(registry) static unsigned char place[sizeof(registry)];
    static registry* const it = new (place) registry;
    return *it;
  }

  std::uint32_t join() {
    const std::lock_guard lock(mutex_);
    make_key();
    const std::uint32_t number = take_smallest();
    if (pthread_setspecific(key_, &here) != 0) {
      set(number, false);
      throw std::bad_alloc();
    }
    here.number_plus_one = number + 1;
    here.joined = forks;
    note_os_id(number);
    return number;
  }

  void leave() noexcept {
    if (here.number_plus_one == 0) return;
    const std::uint32_t number = here.number_plus_one - 1;
    const std::lock_guard lock(mutex_);
    for (listener* l = first_; l != nullptr; l = l->next_) l->thread_left(number);
    if (is_kept(number)) {
      if (number / 64 < first_words) kept_[number / 64] |= bit_of(number);
    } else {
      set(number, false);
    }
    here = this_thread{};
  }

  void listen(listener& l) noexcept {
    const std::lock_guard lock(mutex_);
    l.next_ = first_;
    l.previous_ = nullptr;
    if (first_ != nullptr) first_->previous_ = &l;
    first_ = &l;
  }

  void unlisten(listener& l) noexcept {
    const std::lock_guard lock(mutex_);
    (l.previous_ != nullptr ? l.previous_->next_ : first_) = l.next_;
    if (l.next_ != nullptr) l.next_->previous_ = l.previous_;
  }

  bool if_free(std::uint32_t number, void (*f)(void*), void* argument) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || number >= high_water() || in_use(number)) return false;
    f(argument);
    return true;
  }

  std::uint32_t high_water() const noexcept { return high_water_.load(std::memory_order_acquire); }

  /// Of a thread from before the last fork: whether it is not the one that forked.
  bool lost(std::uint64_t identity) const noexcept {
    const auto number_plus_one = static_cast<std::uint32_t>(identity);
    return number_plus_one != forked_.number_plus_one || identity >> 32U < forked_.joined;
  }

  long os_id_of(std::uint32_t number) const noexcept {
    return number < os_ids_.size() ? os_ids_[number].load(std::memory_order_relaxed) : 0;
  }

  void begin_making() {
    if (makings++ == 0) making_.lock();
  }
  void end_making() noexcept {
    if (--makings == 0) making_.unlock();
  }

  void forget_key() noexcept {
    const std::lock_guard lock(mutex_);
    if (has_key_) pthread_key_delete(key_);
    has_key_ = false;
  }

 private:
  registry() {
    try {
      make_key();
    } catch (const no_key&) {
      // The first thread that needs it tries again, and says so.
    }
    pthread_atfork([] { registry::get().before_fork(); }, [] { registry::get().after_fork(); },
                   [] { registry::get().after_fork_in_child(); });
  }

  /// Under the mutex, or before there are threads. Without a key we would not hear that threads
  /// end.
  void make_key() {
    if (has_key_) return;
    if (pthread_key_create(&key_, [](void*) { registry::get().leave(); }) != 0) throw no_key();
    has_key_ = true;
  }

  void note_os_id(std::uint32_t number) noexcept {
    // relaxed: a number for people, which nothing follows.
    if (number < os_ids_.size()) os_ids_[number].store(os_id(), std::memory_order_relaxed);
  }

  /// In the order in which a constructor that registers a listener takes them.
  void before_fork() {
    making_.lock();
    mutex_.lock();
  }
  void after_fork() noexcept {
    mutex_.unlock();
    making_.unlock();
  }

  bool is_kept(std::uint32_t number) noexcept {
    bool kept = false;
    for (listener* l = first_; l != nullptr; l = l->next_) kept = l->keeps(number) || kept;
    return kept;
  }

  std::uint32_t take_smallest() {
    for (std::uint32_t w = 0; w < first_words; ++w) {
      for (std::uint64_t rest = kept_[w]; rest != 0; rest &= rest - 1) {
        const std::uint32_t number = w * 64 + static_cast<std::uint32_t>(std::countr_zero(rest));
        if (is_kept(number)) continue;
        kept_[w] &= ~bit_of(number);
        set(number, false);
      }
    }
    std::uint32_t w = 0;
    while (w < first_words + more_.size() && word(w) == ~std::uint64_t{0}) ++w;
    if (w == first_words + more_.size()) more_.push_back(0);
    const std::uint32_t number = w * 64 + static_cast<std::uint32_t>(std::countr_one(word(w)));
    set(number, true);
    if (number >= high_water_.load(std::memory_order_relaxed)) {
      // release → the acquire in high_water(): a thread that sees the mark may look for the new
      // thread.
      high_water_.store(number + 1, std::memory_order_release);
    }
    return number;
  }

  std::uint64_t& word(std::uint32_t w) noexcept {
    return w < first_words ? numbers_[w] : more_[w - first_words];
  }
  bool in_use(std::uint32_t n) noexcept { return (word(n / 64) >> n % 64 & 1U) != 0; }
  void set(std::uint32_t n, bool used) noexcept {
    word(n / 64) = used ? word(n / 64) | bit_of(n) : word(n / 64) & ~bit_of(n);
  }
  static std::uint64_t bit_of(std::uint32_t n) noexcept { return std::uint64_t{1} << n % 64; }

  /// Only the forking thread exists here; it holds the mutex, taken before the fork.
  void after_fork_in_child() noexcept {
    for (listener* l = first_; l != nullptr; l = l->next_) l->forked();
    for (std::uint32_t n = 0; n < high_water(); ++n) {
      if (!in_use(n) || n + 1 == here.number_plus_one) continue;
      for (listener* l = first_; l != nullptr; l = l->next_) l->thread_lost(n);
      set(n, false);
    }
    for (listener* l = first_; l != nullptr; l = l->next_) l->losses_told();
    if (here.number_plus_one != 0) note_os_id(here.number_plus_one - 1);
    here.domain = 0;  // the listeners may have reset this thread's cells
    here.cell = nullptr;
    ++forks;
    forked_ = here;
    after_fork();
  }

  std::mutex making_;  ///< held by a thread that makes what the process has one of
  std::mutex mutex_;   ///< of all below
  // One bit a number. The first thousand need no memory, which a static copy of this file in a
  // plugin could not give back when it goes: threads may still end then.
  static constexpr std::uint32_t first_words = 16;
  std::array<std::uint64_t, first_words> numbers_{};
  std::vector<std::uint64_t> more_;
  // Those of ended threads that listeners keep. Of higher ones it is not known: they stay in use.
  std::array<std::uint64_t, first_words> kept_{};
  std::atomic<std::uint32_t> high_water_{0};
  // The system's numbers of those threads that have the first numbers, or had them last. Read
  // without the mutex: reports come from listeners, too.
  std::array<std::atomic<long>, first_words * 64> os_ids_{};
  listener* first_ = nullptr;
  this_thread forked_;  ///< the thread that came through the last fork
  pthread_key_t key_{};
  bool has_key_ = false;
};

std::uint32_t join() {
  const std::uint32_t number = registry::get().join();
  if (trace_session.load(std::memory_order_relaxed) != 0) {
    const std::uint64_t now = ticks::read();
    trace_record(trace_event::thread_joined, now, now, 0);
  }
  return number;
}
std::uint32_t high_water() noexcept { return registry::get().high_water(); }
bool if_free(std::uint32_t number, void (*f)(void*), void* argument) noexcept {
  return registry::get().if_free(number, f, argument);
}
void listen(listener& l) noexcept { registry::get().listen(l); }
void unlisten(listener& l) noexcept { registry::get().unlisten(l); }
long os_id_of(std::uint32_t number) noexcept { return registry::get().os_id_of(number); }
bool lost(std::uint64_t identity) noexcept { return registry::get().lost(identity); }
void begin_making() { registry::get().begin_making(); }
void end_making() noexcept { registry::get().end_making(); }

#if defined(__linux__)
long os_id() noexcept { return syscall(SYS_gettid); }

std::string os_name(long id) {
  std::string name;
  if (id == 0) return name;
  const std::string path = "/proc/self/task/" + std::to_string(id) + "/comm";
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    for (int c = std::fgetc(file); c != EOF && c != '\n'; c = std::fgetc(file)) {
      name.push_back(static_cast<char>(c));
    }
    std::fclose(file);
  }
  return name;
}
#else
long os_id() noexcept { return 0; }
std::string os_name(long) { return {}; }
#endif

namespace {
// Made when the program is loaded, so that no fork comes while it is being made.
[[maybe_unused]] const registry& at_load = registry::get();

// The system runs an object's destructors when it is unloaded, and when the process exits. It runs
// what was registered for a handle of another object when the process exits alone, and before
// them; unless that handle is finalized, which removes it (the C++ ABI, 3.3.6).
char only_at_exit;
constinit std::atomic<bool> exiting{false};
constinit bool unloading = false;
[[gnu::constructor]] void loaded() noexcept {
  const auto note = [](void*) { exiting.store(!unloading, std::memory_order_relaxed); };
  // If there is no memory for it, an exit is taken for an unloading.
  __cxa_atexit(note, nullptr, &only_at_exit);
}

// Later thread ends must not call code that is gone. At exit the key stays: threads that go on, and
// those that come now, use what they like until the end.
[[gnu::destructor]] void unloaded() {
  if (process_exits()) return;
  registry::get().forget_key();
  unloading = true;
  __cxa_finalize(&only_at_exit);
}
}  // namespace

bool process_exits() noexcept { return exiting.load(std::memory_order_relaxed); }

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
