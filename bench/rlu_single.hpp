// SPDX-License-Identifier: Apache-2.0
// rlu_single.hpp: read-log-update with one copy of an object at most, as a domain for the same
// containers: what versions are compared with.
//
// Source:  Matveev, Shavit, Felber, Marlier: Read-Log-Update, SOSP 2015. A section that wrote says
//          at which time it commits, waits for all sections that began before, writes its copies
//          back, and gives up its locks. Who begins meanwhile reads the copies.
// Repairs: drawing the time of a commit and showing it are one step, under a lock; otherwise a
//          section that begins between them sees a half of what commits. Logs grow.
// Not here: sections within sections, and memory running out inside of one.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/rlu/array.hpp>
#include <spolia/rlu/object.hpp>
#include <spolia/rlu/options.hpp>
#include <spolia/rlu/pointers.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace bench {

class rlu_single {
  using object = spolia::rlu::detail::object;
  using access = spolia::rlu::detail::access;
  template <class T>
  using whole = spolia::rlu::detail::whole<T>;
  template <class T>
  using fixed_of = spolia::rlu::detail::fixed_of<T>;
  struct context;
  struct ending {
    object* of;
    void (*destroy)(object&) noexcept;
  };

  /// A copy's head; the body follows. object::lock is its address, or 0, or that of a context and
  /// 1: a new object.
  struct alignas(16) head {
    head(context& by, object& o) noexcept : owner(&by), of(&o) {}
    spolia::atomic<context*> owner;  // a slot that is used again has the same
    object* of;
    void (*write_back)(object&, const head&) = nullptr;  // null: a lock only
    const void* body() const noexcept { return this + 1; }
    void* body() noexcept { return this + 1; }
  };

  /// Copies of one commit, in memory that is used again and again.
  struct log {
    static constexpr std::size_t piece_bytes = 65536;
    std::vector<std::unique_ptr<char[]>> pieces;
    std::vector<head*> written;
    std::size_t used = 0;

    head* append(std::size_t body) {
      const std::size_t bytes = sizeof(head) + (body + 15) / 16 * 16;
      const std::size_t in_piece = used % piece_bytes;
      if (in_piece + bytes > piece_bytes) used += piece_bytes - in_piece;
      if (used / piece_bytes == pieces.size()) {
        pieces.push_back(std::make_unique<char[]>(piece_bytes));
      }
      char* const place = pieces[used / piece_bytes].get() + used % piece_bytes;
      used += bytes;
      return written.emplace_back(reinterpret_cast<head*>(place));
    }
    void clear() noexcept {
      written.clear();
      used = 0;
    }
  };

  static constexpr std::uint64_t never = ~std::uint64_t{0};

  struct alignas(spolia::cache_line) context {
    spolia::atomic<std::uint64_t> run{0};  // odd: inside
    spolia::atomic<std::uint64_t> local{0};
    spolia::atomic<std::uint64_t> commits_at{never};
    log logs[2];  // readers may still hold the last commit's copies during the next one
    unsigned now = 0;
    bool doomed = false;
    std::uint64_t turn = 0;
    std::vector<ending> fresh;
    std::vector<ending> freed;
    std::vector<spolia::tally*> counts;
    spolia::tally written_back;
  };

 public:
  class reader {
   public:
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;

    template <class T>
    spolia::rlu::view<T> read(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      if (o == nullptr) return {};
      // acquire ← the release of who has written the last copy back.
      const std::uintptr_t seen = o->lock.load_acquire();
      if (seen == 0 || (seen & 1U) != 0) return access::look(*o, o->body, me_.turn);
      const head& c = *reinterpret_cast<const head*>(seen);
      context* const owner = c.owner.load_relaxed();
      // acquire ← the release in commit: the copy is whole.
      const bool mine = owner == &me_ || owner->commits_at.load_acquire() <= time_;
      if (!mine || c.write_back == nullptr) return access::look(*o, o->body, me_.turn);
      return access::look(*o, *static_cast<const T*>(c.body()), me_.turn);
    }

   protected:
    friend rlu_single;
    reader(rlu_single& d, context& me) noexcept
        : home_(d), me_(me), time_(me.local.load_relaxed()) {}
    ~reader() = default;
    rlu_single& home_;
    context& me_;
    const std::uint64_t time_;
  };

  class writer : public reader {
   public:
    template <class T>
    spolia::rlu::copy<T> try_lock(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      const std::uintptr_t seen = o->lock.load_relaxed();
      if (seen == fresh_by(me_)) return access::write(*o, o->body, me_.turn);
      if (seen != 0 && (seen & 1U) == 0) {
        head* const c = reinterpret_cast<head*>(seen);
        if (c->owner.load_relaxed() == &me_ && c->write_back != nullptr) {
          return access::write(*o, *static_cast<T*>(c->body()), me_.turn);
        }
      }
      head* const c = take(*o, sizeof(T));
      if (c == nullptr) return {};
      T* const body = ::new (c->body()) T(o->body);
      c->write_back = [](object& to, const head& from) {
        static_cast<whole<T>&>(to).body = *static_cast<const T*>(from.body());
      };
      publish(*o, *c);
      return access::write(*o, *body, me_.turn);
    }

    template <class T>
    bool free(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      const std::uintptr_t seen = o->lock.load_relaxed();
      const bool locked = seen != 0 && (seen & 1U) == 0 &&
                          reinterpret_cast<head*>(seen)->owner.load_relaxed() == &me_;
      if (!locked) {
        head* const c = take(*o, 0);
        if (c == nullptr) return false;
        publish(*o, *c);
      }
      me_.freed.push_back({o, &whole<T>::destroy});
      return true;
    }

    template <class T>
    spolia::rlu::copy<T> make(fixed_of<T> fixed, const T& body) {
      whole<T>* const o = spolia::rlu::detail::make_whole<T>(fresh_by(me_), std::move(fixed), body);
      me_.fresh.push_back({o, &whole<T>::destroy});
      return access::write(*o, o->body, me_.turn);
    }

    void count(spolia::tally& to) { me_.counts.push_back(&to); }

   private:
    friend rlu_single;
    using reader::me_;
    using reader::reader;
    ~writer() = default;

    static std::uintptr_t fresh_by(const context& c) noexcept {
      return reinterpret_cast<std::uintptr_t>(&c) | 1U;
    }
    /// A copy to be filled and published as the lock; null if another thread has it.
    head* take(object& o, std::size_t body) {
      if (me_.doomed || o.lock.load_relaxed() != 0) {
        me_.doomed = true;
        return nullptr;
      }
      return ::new (me_.logs[me_.now].append(body)) head(me_, o);
    }
    /// What is unlocked is the newest: whoever commits waits for us before it unlocks.
    void publish(object& o, head& c) {
      std::uintptr_t none = 0;
      // release → the acquire in read: the head. acquire ← the release of who had the lock.
      if (o.lock.cas_strong_acq_rel(none, reinterpret_cast<std::uintptr_t>(&c))) return;
      me_.logs[me_.now].written.pop_back();
      me_.doomed = true;
    }
  };

  rlu_single() = default;
  rlu_single(const rlu_single&) = delete;
  rlu_single& operator=(const rlu_single&) = delete;

  template <class F>
  auto read(F&& f) {
    return read(nullptr, std::forward<F>(f));
  }
  template <class F>
  auto read(const char*, F&& f) {
    context& me = enter();
    struct leaving {
      context& of;
      ~leaving() { leave(of); }
    } const at_end{me};
    reader in(*this, me);
    return f(in);
  }

  template <class F>
  auto update(F&& f) {
    for (spolia::backoff busy;; busy.pause()) {
      context& me = enter();
      writer in(*this, me);
      auto result = f(in);
      if (!me.doomed) {
        commit(me);
        return result;
      }
      abandon(me);
    }
  }

  template <class T>
  spolia::rlu::ptr<T> make(const T& body) {
    return access::pointer<T>(spolia::rlu::detail::make_whole<T>(0, fixed_of<T>(), body));
  }
  template <class T>
  void discard(spolia::rlu::ptr<T> p) noexcept {
    if (p) whole<T>::destroy(*access::master(p));
  }
  template <class T>
  T& alone(spolia::rlu::ptr<T> p) noexcept {
    return access::master(p)->body;
  }

  spolia::rlu::statistics stats() const noexcept {
    spolia::rlu::statistics sum;
    contexts_.for_each([&](std::uint32_t, const context& c) {
      sum.written_back += c.written_back.value();
      return true;
    });
    return sum;
  }

 private:
  template <class T, class Domain>
  friend class spolia::rlu::array;
  void bring_home(object&) noexcept {}
  void wait_for_collectors() noexcept {}

  context& enter() {
    context& me = contexts_.of(spolia::threads::number());
    me.run.store_relaxed(me.run.load_relaxed() + 1);
    spolia::fence::full();  // ↔ the one in commit: it waits for us, or we see its time
    me.local.store_relaxed(clock_.load_acquire());  // ← the release in commit
    return me;
  }
  static void leave(context& me) noexcept {
    ++me.turn;
    me.run.store_release(me.run.load_relaxed() + 1);  // → the acquire in commit: what we read
  }

  void commit(context& me) {
    log& mine = me.logs[me.now];
    for (const ending& f : me.fresh) f.of->lock.store_relaxed(0);
    me.fresh.clear();
    for (spolia::tally* const c : me.counts) c->add(1);
    me.counts.clear();
    leave(me);
    if (mine.written.empty()) return;
    std::uint64_t time = 0;
    {
      const std::lock_guard one(drawing_);
      time = clock_.load_relaxed() + 1;
      me.commits_at.store_release(time);  // → the acquire in read: the copies
      clock_.store_release(time);         // → the acquire in enter: who sees it sees commits_at
    }
    wait_for_older(me, time);
    for (head* const c : mine.written) {
      if (c->write_back != nullptr) c->write_back(*c->of, *c);
      c->of->lock.store_release(0);  // → the acquires in read and publish: the master
    }
    me.written_back.add(mine.written.size());
    me.commits_at.store_release(never);  // after the locks: who still finds a copy may take it
    for (const ending& f : me.freed) f.destroy(*f.of);
    me.freed.clear();
    me.now ^= 1U;
    me.logs[me.now].clear();
  }

  void wait_for_older(const context& me, std::uint64_t time) {
    spolia::fence::full();  // ↔ the one in enter
    contexts_.for_each([&](std::uint32_t, const context& c) {
      if (&c == &me) return true;
      // acquire, both ← the release in leave: what was read there was read before.
      const std::uint64_t run = c.run.load_acquire();
      if (run % 2 == 0) return true;
      for (spolia::backoff busy; c.run.load_acquire() == run;) {
        if (c.local.load_relaxed() >= time) break;
        busy.pause();
      }
      return true;
    });
  }

  void abandon(context& me) {
    for (head* const c : me.logs[me.now].written) c->of->lock.store_release(0);  // as in commit
    me.logs[me.now].written.clear();  // and no more: somebody may look at a head
    for (const ending& f : me.fresh) f.destroy(*f.of);
    me.fresh.clear();
    me.freed.clear();
    me.counts.clear();
    me.doomed = false;
    leave(me);
  }

  alignas(spolia::cache_line) spolia::atomic<std::uint64_t> clock_{1};
  alignas(spolia::cache_line) std::mutex drawing_;
  spolia::cells<context> contexts_;
};

}  // namespace bench
