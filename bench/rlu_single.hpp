// SPDX-License-Identifier: Apache-2.0
// rlu_single.hpp: read-log-update with one copy of an object at most, as a domain for the same
// containers: what versions are compared with.
//
// Source:  Matveev, Shavit, Felber, Marlier: Read-Log-Update, SOSP 2015. A section that wrote says
//          at which time it commits, waits for all sections that began before, writes its copies
//          back, and gives up its locks. A section that begins meanwhile reads the copies.
//          With deferring (section 3.6 there) a thread keeps its copies and locks for several of
//          its sections, and only it sees them until then. It does all this for them at once: when
//          there are as many as its domain was made for, when another thread wants one of its
//          locks, and when it ends.
// Promises: with deferring a section sees what its own thread has done and one instant of what
//          others have given up; what others have just done it may not see. Without, all of it.
// Repairs: drawing the time of a commit and showing it are one step, under a lock; otherwise a
//          section that begins between them sees a half of what commits. Logs grow.
// Departs: a section that writes what its thread has a copy of from a deferred one makes a copy of
//          that, so that the deferred one stays as it is if the section is abandoned.
// Not here: sections within sections, forks, memory running out inside of a section, and freeing
//          what was made in the same section (which would begin anew forever). A thread that
//          neither ends nor begins sections keeps what it has deferred, and a thread that wants
//          that waits. So it is with the authors' own program.
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
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace bench {

class rlu_single final : private spolia::threads::listener {
  using object = spolia::rlu::detail::object;
  using access = spolia::rlu::detail::access;
  template <class T>
  using whole = spolia::rlu::detail::whole<T>;
  template <class T>
  using fixed_of = spolia::rlu::detail::fixed_of<T>;
  template <class T>
  using tail_length = spolia::rlu::detail::tail_length<T>;
  struct context;
  struct ending {
    object* of;
    void (*destroy)(object&) noexcept;
  };

  /// A copy's head; the body follows. object::lock is its address, or 0, or that of a context and
  /// 1: a new object.
  struct alignas(16) head {
    head(context& by, object& o, std::uintptr_t had) noexcept : owner(&by), of(&o), before(had) {}
    spolia::atomic<context*> owner;  // a slot that is used again has the same
    object* of;
    std::uintptr_t before;  // what the lock was: 0, or the copy of a section that is deferred
    void (*write_back)(object&, const head&) = nullptr;  // null: a lock only
    bool holds() const noexcept {
      return of->lock.load_relaxed() == reinterpret_cast<std::uintptr_t>(this);
    }
    const void* body() const noexcept { return this + 1; }
    void* body() noexcept { return this + 1; }
  };

  /// Copies that are written back together, in memory that is used again and again.
  struct log {
    static constexpr std::size_t piece_bytes = 65536;
    std::vector<std::unique_ptr<char[]>> pieces;
    std::vector<head*> written;
    std::size_t used = 0;
    // As of the beginning of the section:
    std::size_t deferred = 0;  // of `written`
    std::size_t mark = 0;      // of `used`

    /// \throws std::bad_alloc, also for a body that is larger than a piece
    head* append(std::size_t body) {
      const std::size_t bytes = sizeof(head) + (body + 15) / 16 * 16;
      if (bytes > piece_bytes) throw std::bad_alloc();
      const std::size_t in_piece = used % piece_bytes;
      if (in_piece + bytes > piece_bytes) used += piece_bytes - in_piece;
      if (used / piece_bytes == pieces.size()) {
        pieces.push_back(std::make_unique<char[]>(piece_bytes));
      }
      char* const place = pieces[used / piece_bytes].get() + used % piece_bytes;
      used += bytes;
      return written.emplace_back(reinterpret_cast<head*>(place));
    }
    void begin() noexcept {
      deferred = written.size();
      mark = used;
    }
    /// Whether the section has appended it.
    bool is_new(const head* c) const noexcept {
      const auto at = reinterpret_cast<std::uintptr_t>(c);
      const std::size_t first = mark / piece_bytes;
      for (std::size_t i = first; i < pieces.size(); ++i) {
        const std::size_t offset = at - reinterpret_cast<std::uintptr_t>(pieces[i].get());
        if (offset < piece_bytes) return i > first || offset >= mark % piece_bytes;
      }
      return false;
    }
    void clear() noexcept {
      written.clear();
      used = deferred = mark = 0;
    }
  };

  static constexpr std::uint64_t never = ~std::uint64_t{0};

  struct alignas(spolia::cache_line) context {
    spolia::atomic<std::uint64_t> run{0};  // odd: inside
    spolia::atomic<std::uint64_t> local{0};
    spolia::atomic<std::uint64_t> commits_at{never};
    spolia::atomic<bool> asked{false};  // another thread wants what is deferred
    log logs[2];  // readers may still hold the last commit's copies during the next one
    unsigned now = 0;
    bool used = false;
    bool doomed = false;
    std::uint32_t sets = 0;  // sections that are deferred
    std::uint64_t turn = 0;
    std::vector<ending> fresh;
    std::vector<ending> freed;
    std::size_t freed_before = 0;  // by sections that are deferred
    std::vector<spolia::tally*> counts;
    spolia::tally commits;
    spolia::tally conflicts;
    spolia::tally written_back;
    spolia::tally waits;  // for older sections
  };

 public:
  class reader {
   public:
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;

    template <class T, class F>
    auto get(spolia::rlu::ptr<T> p, const F& f) {
      return std::invoke(f, *read(p));
    }
    template <class T>
    const fixed_of<T>& fixed(spolia::rlu::ptr<T> p) const noexcept {
      return access::master(p)->fixed;
    }
    template <class T>
    spolia::rlu::view<T> read(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      if (o == nullptr) return {};
      // acquire ← the release of the thread that wrote the last copy back.
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
        : domain_(d), me_(me), time_(me.local.load_relaxed()) {}
    ~reader() = default;
    rlu_single& domain_;
    context& me_;
    const std::uint64_t time_;
  };

  class writer : public reader {
   public:
    template <class F>
    auto search(F&& f) {
      return f(static_cast<reader&>(*this));
    }

    template <class T>
    spolia::rlu::copy<T> try_lock(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      const std::uintptr_t seen = lock_of(*o);
      if (seen == fresh_by(me_)) return access::write(*o, o->body, me_.turn);
      head* const mine = own(seen);
      const bool copied = mine != nullptr && mine->write_back != nullptr;
      if (copied &&
          (me_.logs[me_.now].is_new(mine) || SPOLIA_FAULT("rlu_single.writes_in_place"))) {
        return access::write(*o, *static_cast<T*>(mine->body()), me_.turn);
      }
      head* const c = take(*o, seen, o->body_bytes());
      if (c == nullptr) return {};
      T& body = o->copy_to(c->body(), copied ? *static_cast<const T*>(mine->body()) : o->body);
      c->write_back = [](object& to, const head& from) {
        whole<T>& home = static_cast<whole<T>&>(to);
        const T& made = *static_cast<const T*>(from.body());
        home.body = made;
        if (home.tail.bytes() == 0) return;
        std::memcpy(whole<T>::end_of(home.body), whole<T>::end_of(made), home.tail.bytes());
      };
      return publish(*o, *c) ? access::write(*o, body, me_.turn) : spolia::rlu::copy<T>();
    }

    template <class T>
    bool free(spolia::rlu::ptr<T> p) {
      whole<T>* const o = access::master(p);
      const std::uintptr_t seen = lock_of(*o);
      if (own(seen) == nullptr) {
        head* const c = take(*o, seen, 0);
        if (c == nullptr || !publish(*o, *c)) return false;
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
    /// acquire ← the releases in give_up and publish: the master, which is copied before the lock
    /// is taken, and whose copy it is.
    static std::uintptr_t lock_of(const object& o) noexcept {
      if (SPOLIA_FAULT("rlu_single.copies_relaxed")) return o.lock.load_relaxed();
      return o.lock.load_acquire();
    }
    static head* head_of(std::uintptr_t seen) noexcept {
      return seen != 0 && (seen & 1U) == 0 ? reinterpret_cast<head*>(seen) : nullptr;
    }
    /// The head that this thread has put there, in this section or a deferred one; or null.
    head* own(std::uintptr_t seen) const noexcept {
      head* const c = head_of(seen);
      return c != nullptr && c->owner.load_relaxed() == &me_ ? c : nullptr;
    }
    /// A copy to be filled and published as the lock; null if another thread has it.
    head* take(object& o, std::uintptr_t seen, std::size_t body) {
      if (me_.doomed) return nullptr;
      if (seen != 0 && own(seen) == nullptr) {
        doom(seen);
        return nullptr;
      }
      return ::new (me_.logs[me_.now].append(body)) head(me_, o, seen);
    }
    /// An object without a lock is the newest: a thread that commits waits for this section before
    /// it unlocks.
    bool publish(object& o, head& c) {
      std::uintptr_t seen = c.before;
      // release → the acquire in read: the head. acquire ← the release of the thread that had the
      // lock.
      if (o.lock.cas_strong_acq_rel(seen, reinterpret_cast<std::uintptr_t>(&c))) return true;
      me_.logs[me_.now].written.pop_back();
      doom(seen);
      return false;
    }
    /// Another thread has the lock; it may have deferred giving it up.
    void doom(std::uintptr_t seen) noexcept {
      me_.doomed = true;
      const head* const c = head_of(seen);
      if (domain_.most_ == 1 || c == nullptr || SPOLIA_FAULT("rlu_single.asks_nobody")) return;
      context& owner = *c->owner.load_relaxed();
      if (!owner.asked.load_relaxed()) owner.asked.store_relaxed(true);
    }
  };

  /// So many sections of a thread are written back together; 1: each by itself.
  explicit rlu_single(std::uint32_t together = 1) : most_(together) {
    spolia::threads::listen(*this);
  }
  rlu_single(const rlu_single&) = delete;
  rlu_single& operator=(const rlu_single&) = delete;
  ~rlu_single() { spolia::threads::unlisten(*this); }

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
      me.logs[me.now].begin();
      me.freed_before = me.freed.size();
      writer in(*this, me);
      auto result = f(in);
      if (!me.doomed) {
        commit(me);
        return result;
      }
      me.conflicts.add(1);
      abandon(me);
    }
  }

  template <class T>
  spolia::rlu::ptr<T> make(const T& body) {
    return access::pointer<T>(spolia::rlu::detail::make_whole<T>(0, fixed_of<T>(), body));
  }
  /// With `count` values of T::tail after the body, which are zero at first.
  template <class T>
  spolia::rlu::ptr<T> make(fixed_of<T> fixed, const T& body, std::size_t count) {
    return access::pointer<T>(spolia::rlu::detail::make_whole<T>(
        0, std::move(fixed), body, spolia::rlu::detail::tail_of<T>(count)));
  }
  /// Precondition of these two: no other thread uses the object any more.
  template <class T>
  void discard(spolia::rlu::ptr<T> p) noexcept {
    if (!p) return;
    write_back(*access::master(p));
    whole<T>::destroy(*access::master(p));
  }
  template <class T>
  T& alone(spolia::rlu::ptr<T> p) noexcept {
    write_back(*access::master(p));
    return access::master(p)->body;
  }

  spolia::rlu::statistics stats() const noexcept {
    spolia::rlu::statistics sum;
    contexts_.for_each([&](std::uint32_t, const context& c) {
      sum.commits += c.commits.value();
      sum.conflicts += c.conflicts.value();
      sum.written_back += c.written_back.value();
      sum.passes += c.waits.value();
      return true;
    });
    return sum;
  }

 private:
  template <class T, class Domain>
  friend class spolia::rlu::array;
  /// What this thread has deferred may be of the object.
  void write_back(object&) noexcept {
    if (context* const c = contexts_.find(spolia::threads::number())) give_up(*c);
  }
  void wait_for_collectors() noexcept {}
  void thread_left(std::uint32_t n) noexcept override {
    context* const c = contexts_.find(n);
    if (c == nullptr) return;
    give_up(*c);
    c->used = false;
  }
  void thread_lost(std::uint32_t) noexcept override {}

  context& enter() {
    context& me = contexts_.of(spolia::threads::number());
    if (!me.used) {
      spolia::threads::watch_this_thread(*this);
      me.used = true;
    }
    if (me.asked.load_relaxed()) give_up(me);
    // release → the acquire in wait_for_older: a thread that sees us in this section need not wait
    // for what we read in the one before.
    if (SPOLIA_FAULT("rlu_single.enters_relaxed")) {
      me.run.store_relaxed(me.run.load_relaxed() + 1);
    } else {
      me.run.store_release(me.run.load_relaxed() + 1);
    }
    // ↔ the one in wait_for_older: it waits for us, or we see its time.
    if (!SPOLIA_FAULT("rlu_single.enters_unfenced")) spolia::fence::full();
    // acquire ← the release in draw. release → the acquire of `local` in wait_for_older: as with
    // `run`, for a thread that saw `run` of the section before, and now the time of this one. The
    // fence would do for that, too; but the race detector sees no fences.
    me.local.store_release(clock_.load_acquire());
    return me;
  }
  static void leave(context& me) noexcept {
    ++me.turn;
    // release → the acquire in wait_for_older: what we read.
    me.run.store_release(me.run.load_relaxed() + 1);
  }

  void commit(context& me) {
    const log& mine = me.logs[me.now];
    for (const ending& f : me.fresh) f.of->lock.store_relaxed(0);
    me.fresh.clear();
    for (spolia::tally* const c : me.counts) c->add(1);
    me.counts.clear();
    leave(me);
    if (mine.written.size() == mine.deferred) return;
    me.commits.add(1);
    if (++me.sets >= most_) give_up(me);
  }

  /// Outside of sections: others see what this thread has deferred, and may lock it.
  void give_up(context& me) noexcept {
    me.asked.store_relaxed(false);  // first: what is asked for from here on comes too late
    log& mine = me.logs[me.now];
    me.sets = 0;
    if (mine.written.empty()) return;
    const std::uint64_t time = draw(me);
    if (!SPOLIA_FAULT("rlu_single.waits_for_nobody")) wait_for_older(me, time);
    std::uint64_t copies = 0;
    for (head* const c : mine.written) {
      if (!c->holds() && !SPOLIA_FAULT("rlu_single.writes_back_all")) continue;  // there is a later
      if (c->write_back != nullptr) c->write_back(*c->of, *c);
      c->of->lock.store_release(0);  // → the acquires in read and publish: the master
      ++copies;
    }
    me.written_back.add(copies);
    // After the locks: a reader that still finds a copy may take it.
    me.commits_at.store_release(never);
    for (const ending& f : me.freed) f.destroy(*f.of);
    me.freed.clear();
    me.now ^= 1U;
    me.logs[me.now].clear();
  }

  /// The time from which on others see what `me` has written.
  std::uint64_t draw(context& me) noexcept {
    // acquire ← the release below: the clock of the thread that had the lock.
    for (spolia::backoff busy; drawing_.exchange_acquire(true);) busy.pause();
    const std::uint64_t time = clock_.load_relaxed() + 1;
    if (SPOLIA_FAULT("rlu_single.shows_late")) clock_.store_release(time);
    me.commits_at.store_release(time);  // → the acquire in read: the copies
    clock_.store_release(time);         // → the acquire in enter: commits_at
    drawing_.store_release(false);      // → the acquire above
    return time;
  }

  void wait_for_older(context& me, std::uint64_t time) noexcept {
    spolia::fence::full();  // ↔ the one in enter
    me.waits.add(1);
    contexts_.for_each([&](std::uint32_t, const context& c) {
      if (&c == &me) return true;
      // acquire, both ← the releases in leave and enter: what was read there was read before.
      const std::uint64_t run = c.run.load_acquire();
      if (run % 2 == 0) return true;
      for (spolia::backoff busy; c.run.load_acquire() == run;) {
        // acquire ← the release in enter: what was read in the section before, as with `run`.
        const std::uint64_t local = SPOLIA_FAULT("rlu_single.looks_relaxed")
                                        ? c.local.load_relaxed()
                                        : c.local.load_acquire();
        if (local >= time) break;
        busy.pause();
      }
      return true;
    });
  }

  void abandon(context& me) {
    log& mine = me.logs[me.now];
    for (std::size_t i = mine.deferred; i < mine.written.size(); ++i) {
      head* const c = mine.written[i];
      c->of->lock.store_release(c->before);  // as in give_up
    }
    mine.written.resize(mine.deferred);  // and no more: another thread may read a head
    for (const ending& f : me.fresh) f.destroy(*f.of);
    me.fresh.clear();
    me.freed.resize(me.freed_before);
    me.counts.clear();
    me.doomed = false;
    leave(me);
  }

  const std::uint32_t most_;
  alignas(spolia::cache_line) spolia::atomic<std::uint64_t> clock_{1};
  alignas(spolia::cache_line) spolia::atomic<bool> drawing_{false};
  spolia::cells<context> contexts_;
};

}  // namespace bench
