// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread that stops in the middle of something: the stalled reader against which a scheme's
/// bound on garbage is tested.
///
///     parked_thread reader([&](parking_spot& spot) {
///       auto guard = domain.enter();
///       spot.park();
///     });                      // the reader is inside now, and stays there
///     ...
///     reader.release();        // it goes on to its end
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace spolia::test {

/// POSIX semaphore. A signal handler may post, and may leave wait() by siglongjmp, as readers that
/// are neutralised by a signal do; std::counting_semaphore promises neither.
class posix_semaphore {
 public:
  posix_semaphore() {
    if (sem_init(&semaphore_, 0, 0) != 0) {
      throw std::system_error(errno, std::generic_category(), "sem_init");
    }
  }
  posix_semaphore(const posix_semaphore&) = delete;
  posix_semaphore& operator=(const posix_semaphore&) = delete;
  ~posix_semaphore() { sem_destroy(&semaphore_); }

  void post() noexcept { sem_post(&semaphore_); }
  void wait() noexcept {
    while (sem_wait(&semaphore_) != 0 && errno == EINTR) {
    }
  }

 private:
  sem_t semaphore_;
};

/// Where a parked thread waits.
class parking_spot {
 public:
  /// Says "parked", then waits for release(); later calls return at once. Called by the parked
  /// thread only.
  void park() noexcept {
    if (was_used_) return;
    was_used_ = true;
    parked_or_over_.post();
    release_.wait();
  }

 private:
  friend class parked_thread;

  posix_semaphore parked_or_over_;
  posix_semaphore release_;
  bool was_used_ = false;
};

/// Owned and used by one thread.
class parked_thread {
 public:
  /// Returns once `body` has parked.
  /// \throws what `body` threw instead; std::logic_error if it ended without parking
  explicit parked_thread(std::function<void(parking_spot&)> body)
      : thread_([this, work = std::move(body)] { run(work); }) {
    spot_.parked_or_over_.wait();
    if (!over_.load(std::memory_order_acquire)) return;
    thread_.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (!spot_.was_used_) throw std::logic_error("the thread ended without parking");
  }
  parked_thread(const parked_thread&) = delete;
  parked_thread& operator=(const parked_thread&) = delete;

  /// Releases and joins, if that was not done.
  ~parked_thread() { join(); }

  /// Lets the thread go on, and returns when it has ended.
  /// \throws what the body threw after it was released
  void release() {
    join();
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// For pthread_kill.
  [[nodiscard]] std::thread::native_handle_type native_handle() { return thread_.native_handle(); }

 private:
  void run(const std::function<void(parking_spot&)>& body) noexcept {
    try {
      body(spot_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    over_.store(true, std::memory_order_release);
    spot_.parked_or_over_.post();
  }

  void join() noexcept {
    if (!thread_.joinable()) return;
    spot_.release_.post();
    thread_.join();
  }

  parking_spot spot_;
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace spolia::test
