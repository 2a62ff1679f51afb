// SPDX-License-Identifier: Apache-2.0
// detector.hpp: a thread that collects the logs of a domain, so that the program's own sections
// need not do it.
//
// Source:      MV-RLU, section 3.7 (the grace period detector).
//
//     spolia::rlu::domain home;
//     spolia::rlu::detector upkeep(home);            // as long as it lives
//
// While a domain has a detector, sections collect logs only from the high watermark on, which a log
// reaches where the detector does not keep up. The detector also collects the logs of threads that
// do nothing more. Without it, these wait for the next section of any thread.
// Progress:    the detector never waits for a section, and no section waits for the detector.
// Errors:      std::bad_alloc; std::system_error if the system gives it no thread.
// Fork:        the child has no such thread. Its sections collect logs from the high watermark on.
//
// Departure from the paper: the detector tells no other thread about grace periods, since each
// thread that sweeps a log asks the census itself.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include <spolia/base/at_home.hpp>
#include <spolia/base/config.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

template <class Domain = domain>
class detector {
 public:
  /// Looks at the logs every `nap`, and less often while nothing is written. `of` must outlive the
  /// detector.
  /// \throws std::bad_alloc, std::system_error
  explicit detector(Domain& of, std::chrono::microseconds nap = std::chrono::microseconds(500))
      : of_(of), nap_(nap), worker_(*this) {
    of_.detectors_.fetch_add_relaxed(1);
  }
  detector(const detector&) = delete;
  detector& operator=(const detector&) = delete;
  ~detector() { of_.detectors_.fetch_sub_relaxed(1); }

 private:
  static constexpr int most_naps = 32;  // at once

  /// The thread, and what ends it. (std::jthread is not in every standard library.)
  class worker {
   public:
    explicit worker(detector& of) : thread_([this, &of] { run(of); }) {}
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;
    ~worker() {
      {
        const std::lock_guard lock(mine_);
        ended_ = true;
        bell_.notify_one();  // with the lock, as helgrind asks for where functions are inlined
      }
      thread_.join();
    }

   private:
    void run(detector& of) {
      std::unique_lock lock(mine_);
      for (int naps = 1; !ended_;) {
        // Once, and not until the time is over by a clock that may stand or be set back.
        bell_.wait_for(lock, naps * of.nap_);
        if (ended_) break;
        lock.unlock();
        try {
          naps = of.of_.tend_all() ? 1 : (std::min)(2 * naps, most_naps);
        } catch (const std::bad_alloc&) {
          naps = most_naps;  // its first call: later, perhaps
        }
        lock.lock();
      }
    }

    std::mutex mine_;
    std::condition_variable bell_;
    bool ended_ = false;
    std::thread thread_;  // last: it reads the others
  };

  Domain& of_;
  const std::chrono::microseconds nap_;
  at_home<worker> worker_;  // goes first
};

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR
