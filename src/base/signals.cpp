// SPDX-License-Identifier: Apache-2.0
// signals.cpp: the process's one signal by which threads interrupt each other.
#include <spolia/base/signals.hpp>

#include <stdexcept>

#if defined(__linux__)
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include <spolia/base/cells.hpp>
#include <spolia/base/threads.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit thread_local SPOLIA_TLS_MODEL restart_point* restart_here = nullptr;

#if defined(__linux__)
namespace {

extern "C" void spolia_restart_signal(int) {
  const int saved = errno;
  restart_point* const point = restart_here;
  if (point != nullptr && point->leave(*point)) siglongjmp(point->where, 1);
  errno = saved;
}

constinit std::atomic<int> signal_number{0};

bool handler_is_ours() noexcept {
  struct sigaction now{};
  return sigaction(signal_number.load(std::memory_order_relaxed), nullptr, &now) == 0 &&
         (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == &spolia_restart_signal;
}

/// What the process knows of its threads' kernel ids. Never destroyed, as the registry of threads.
class post final : private listener {
 public:
  static post& get() {
    alignas(post) static unsigned char place[sizeof(post)];
    static post* const it = new (place) post;
    return *it;
  }

  void leave() noexcept { unlisten(*this); }

  int claim(int wanted) {
    const std::lock_guard lock(mutex_);
    const int had = signal_number.load(std::memory_order_relaxed);
    if (had != 0) {
      if (wanted != 0 && wanted != had) {
        throw std::invalid_argument("neutralization: this process uses another signal already");
      }
      return had;
    }
    const int chosen = choose(wanted);
    struct sigaction ours{};
    ours.sa_handler = &spolia_restart_signal;
    sigemptyset(&ours.sa_mask);
    // SA_ONSTACK: threads of another language's runtime may have stacks that are too small for a
    // handler, and another one for signals (Go's, for one). Its jump leaves that stack again.
    ours.sa_flags = SA_RESTART | SA_ONSTACK;
    if (sigaction(chosen, &ours, nullptr) != 0) {
      throw std::runtime_error("neutralization: the signal's handler could not be installed");
    }
    signal_number.store(chosen, std::memory_order_relaxed);
    return chosen;
  }

  void answer(std::uint32_t number) {
    // release → the acquire in send(): a sender that knows the number finds the id of its thread.
    ids_.of(number).id.store(own_id(), std::memory_order_release);
    unblock();
  }

  void unblock() const noexcept {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number.load(std::memory_order_relaxed));
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  }

  /// False if the signal can reach no thread.
  bool send(std::uint32_t number) noexcept {
    const pid_t id = id_of(number);
    // A signal without a handler would end the process: so look first.
    if (id == 0 || !handler_is_ours()) return false;
    const int saved = errno;
    const int signal = signal_number.load(std::memory_order_relaxed);
    // EAGAIN: the system's queue of signals is full, for now.
    const bool there = syscall(SYS_tgkill, getpid(), id, signal) == 0 || errno == EAGAIN;
    errno = saved;
    return there;
  }

  bool blocked(std::uint32_t number) const noexcept {
    char path[48];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/status", static_cast<int>(id_of(number)));
    std::FILE* const file = std::fopen(path, "re");
    if (file == nullptr) return false;  // not known
    unsigned long long mask = 0;
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      if (std::sscanf(line, "SigBlk: %llx", &mask) == 1) break;
    }
    std::fclose(file);
    return (mask >> (signal_number.load(std::memory_order_relaxed) - 1) & 1U) != 0;
  }

 private:
  struct entry {
    std::atomic<pid_t> id{0};
  };

  post() {
    listen(*this);
    pthread_atfork(nullptr, nullptr, [] {
      // The one thread that lives in the child has another id there.
      if (here.number_plus_one == 0) return;
      entry* const own = post::get().ids_.find(here.number_plus_one - 1);
      if (own != nullptr && own->id.load(std::memory_order_relaxed) != 0) {
        own->id.store(own_id(), std::memory_order_relaxed);
      }
    });
  }

  static pid_t own_id() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

  pid_t id_of(std::uint32_t number) const noexcept {
    const entry* const found = ids_.find(number);
    return found == nullptr ? 0 : found->id.load(std::memory_order_acquire);
  }

  static int choose(int wanted) {
    if (wanted == 0) {
      if (const char* const named = std::getenv("SPOLIA_RESTART_SIGNAL")) wanted = std::atoi(named);
    }
    if (wanted != 0) {
      if (wanted < SIGRTMIN || wanted > SIGRTMAX) {
        throw std::invalid_argument("neutralization: the signal must be a real-time signal");
      }
      if (!is_free(wanted)) {
        throw std::runtime_error("neutralization: the signal wanted has a handler already");
      }
      return wanted;
    }
    for (int s = SIGRTMIN + 1; s <= SIGRTMAX; ++s) {
      if (is_free(s)) return s;
    }
    // What most programs take that take one; but Go's runtime leaves it alone, and no other.
    if (is_free(SIGRTMIN)) return SIGRTMIN;
    throw std::runtime_error("neutralization: all real-time signals have handlers");
  }

  static bool is_free(int signal) noexcept {
    struct sigaction now{};
    return sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
           now.sa_handler == SIG_DFL;
  }

  void thread_left(std::uint32_t number) noexcept override {
    if (entry* const gone = ids_.find(number)) gone->id.store(0, std::memory_order_relaxed);
  }
  void thread_lost(std::uint32_t number) noexcept override { thread_left(number); }

  std::mutex mutex_;
  cells<entry> ids_;
};

// When a plugin that holds a static copy of this file is unloaded: a signal that is still under way
// must find no code that is gone, and not the default action either. At exit the handler stays, for
// the threads that go on reading.
[[gnu::destructor]] void post_unloaded() {
  if (threads::process_exits()) return;
  // In a plugin that uses the program's copy of all else, that is the program's list.
  post::get().leave();
  const int ours = signal_number.load(std::memory_order_relaxed);
  if (ours != 0 && handler_is_ours()) ::signal(ours, SIG_IGN);
}

// As the registry of threads.
[[maybe_unused]] const post& made_at_load = post::get();

}  // namespace

int claim_restart_signal(int wanted) { return post::get().claim(wanted); }
void answer_restart_signal(std::uint32_t number) { post::get().answer(number); }
void unblock_restart_signal() noexcept { post::get().unblock(); }
void send_restart_signal(std::uint32_t number) noexcept { post::get().send(number); }
bool deaf_to_restart_signal(std::uint32_t number) noexcept {
  return !post::get().send(number) || post::get().blocked(number);
}

#else

int claim_restart_signal(int) {
  throw std::runtime_error("neutralization: needs Linux, where a thread can be sent a signal");
}
void answer_restart_signal(std::uint32_t) {}
void unblock_restart_signal() noexcept {}
void send_restart_signal(std::uint32_t) noexcept {}
bool deaf_to_restart_signal(std::uint32_t) noexcept { return true; }

#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
