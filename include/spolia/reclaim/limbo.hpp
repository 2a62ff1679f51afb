// SPDX-License-Identifier: Apache-2.0
// limbo.hpp: what a retired block carries, and lists of such blocks.
//
// A block is retired by linking its own header into a list, so retiring allocates nothing. The
// header is two words; a scheme that needs birth or retirement stamps adds its own (`stamped`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/weight.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class retired;

/// How blocks of one kind end. One constant object per type; never owned by a block. Its address
/// leaves room for what a single block owns: see `retired`.
struct alignas(detail::weighing::codes) disposer {
  /// Destroys the object and gives its memory back, wherever it came from. Must not throw. Called
  /// only if there is no `destroy`.
  void (*dispose)(retired*) noexcept;
  /// The address by which readers know the object. (Hazard pointers look for names from there on.)
  const void* (*address)(const retired*) noexcept;
  /// Destroys the object and returns its memory (`bytes`, `align`), which goes back to where the
  /// domain has its blocks from.
  void* (*destroy)(retired*) noexcept;
  std::size_t bytes;  ///< of the block
  std::size_t align;
  std::size_t elsewhere = 0;  ///< bytes that go with it
};

/// The base of everything that is retired. Before that it links to itself, so that a second
/// retirement is caught at once.
class retired {
 public:
  retired() noexcept : next_(this) {}
  retired(const retired&) noexcept : next_(this) {}
  retired& operator=(const retired&) noexcept { return *this; }

  bool waiting() const noexcept { return next_.read() != this; }
  const disposer& how() const noexcept {
    return *reinterpret_cast<const disposer*>(how_.read() & ~code_mask);
  }
  const void* address() const noexcept { return how().address(this); }
  /// Of the object that readers know, as its type is known here; 0: it is not.
  std::size_t object_bytes() const noexcept {
    return how().elsewhere != 0 ? how().elsewhere : how().bytes;
  }
  /// With what it owns beyond its own size, as was said when it was retired.
  SPOLIA_ALWAYS_INLINE std::size_t holds_bytes() const noexcept {
    return code() == 0 ? plain_bytes() : plain_bytes() + bytes_said();
  }
  /// Was anything said that it owns, or is it large itself?
  bool weighed() const noexcept { return code() != 0; }
  /// All that most blocks hold: their own size.
  std::size_t plain_bytes() const noexcept { return how().bytes + how().elsewhere; }
  std::size_t bytes_said() const noexcept { return detail::weighing::bytes_of(code()); }
  /// Does it own much, or is it large itself? Most blocks do not, and are not.
  bool heavy() const noexcept { return code() >= heavy_from; }
  /// As how many ordinary blocks beyond one it counts, where it matters how much waits.
  std::size_t further_blocks() const noexcept {
    return heavy() ? holds_bytes() / bytes_of_block : 0;
  }

 protected:
  ~retired() = default;

 private:
  friend class limbo;
  template <class, class>
  friend class domain;

  static constexpr std::uintptr_t code_mask = detail::weighing::codes - 1;
  static constexpr std::size_t bytes_of_block = 256;
  static constexpr std::uint32_t heavy_from = detail::weighing::code_of(bytes_of_block);

  std::uint32_t code() const noexcept {
    return static_cast<std::uint32_t>(how_.read() & code_mask);
  }
  /// Before it is retired: how it ends, and how many bytes it owns beyond its own size.
  SPOLIA_ALWAYS_INLINE void ends_by(const disposer& how, std::size_t owned) noexcept {
    std::uint32_t code = detail::weighing::code_of(owned);
    if (code == 0 && how.bytes >= detail::weighing::large_from) {
      code = detail::weighing::large_code;
    }
    how_.write(reinterpret_cast<std::uintptr_t>(&how) + code);
  }

  plain<retired*> next_;
  // The disposer's address and, in its low bits, the code of a weight.
  plain<std::uintptr_t> how_{0};
};

/// A retired block with what its scheme keeps in it, as every block of a domain begins.
template <class Stamp>
struct stamped : retired {
  [[no_unique_address]] Stamp stamp{};
};

namespace detail::reclaim {
/// How many blocks: all of them.
inline constexpr std::size_t everything = ~std::size_t{0};
}  // namespace detail::reclaim

/// A list of retired blocks, oldest first. Owned by one thread at a time; every operation takes
/// constant time. It does not own the blocks: to drop a list that is not empty leaks them.
class limbo {
 public:
  limbo() noexcept = default;
  limbo(limbo&& other) noexcept { append(other); }
  limbo& operator=(limbo&& other) noexcept {
    append(other);
    return *this;
  }

  bool empty() const noexcept { return count_.read() == 0; }
  std::size_t count() const noexcept { return count_.read(); }

  void push(retired* r) noexcept {
    r->next_.write(nullptr);
    if (empty()) {
      head_.write(r);
    } else {
      tail_.read()->next_.write(r);
    }
    tail_.write(r);
    count_.write(count() + 1);
  }

  /// Takes all of `other`, in order, after what is here.
  void append(limbo& other) noexcept {
    if (other.empty() || &other == this) return;
    if (empty()) {
      head_.write(other.head_.read());
    } else {
      tail_.read()->next_.write(other.head_.read());
    }
    tail_.write(other.tail_.read());
    count_.write(count() + other.count());
    other.forget();
  }

  /// The oldest block; null when empty. The next one is fetched ahead, since it was last touched
  /// when it was retired, which may be long ago.
  retired* pop() noexcept {
    retired* const r = head_.read();
    if (r == nullptr) return nullptr;
    retired* const after = r->next_.read();
    if (after != nullptr) __builtin_prefetch(after, 1);
    head_.write(after);
    if (after == nullptr) tail_.write(nullptr);
    if (r == ahead_.read()) ahead_.write(after);
    count_.write(count() - 1);
    return r;
  }

  /// Moves the `most` oldest blocks to the end of `to`.
  void split(std::size_t most, limbo& to) noexcept {
    if (most >= count()) return to.append(*this);
    for (; most > 0; --most) to.push(not_null(pop()));
  }

  /// Fetches one more block ahead, after the first one at the first call after look_from_first().
  /// For lists of which a few are taken now and then: each block is where the one before it says,
  /// so they come one after the other, and should while there is something else to do.
  SPOLIA_ALWAYS_INLINE void look_ahead() noexcept {
    retired* const at = ahead_.read();
    if (at == nullptr) return;
    retired* const after = at->next_.read();
    __builtin_prefetch(after, 1);
    ahead_.write(after);
  }
  void look_from_first() noexcept { ahead_.write(head_.read()); }

  /// f(block) for each, the oldest first. Touches every block: for what happens seldom.
  template <class F>
  void for_each(F&& f) const {
    for (retired* r = head_.read(); r != nullptr; r = r->next_.read()) f(*r);
  }

  /// Forgets the blocks without touching them: for lists that a fork caught half-written.
  void forget() noexcept {
    head_.write(nullptr);
    tail_.write(nullptr);
    ahead_.write(nullptr);
    count_.write(0);
  }

 private:
  plain<retired*> head_{nullptr};
  plain<retired*> tail_{nullptr};
  plain<retired*> ahead_{nullptr};  // in this list, or null
  plain<std::size_t> count_{0};
};

namespace detail::reclaim {

// Epoch bags: the three limbo bags of an epoch scheme, one for each of the last three epochs.

/// Blocks retired by one thread, kept by the epoch in which they were retired.
///
/// The scheme promises: what was put in with tag t is out of reach once the epoch is t + `age`, age
/// <= 3.
///
/// The tag must be read after the block was unlinked, inside the operation, and so after its
/// announcement and light fence. The epoch that the thread saw when the operation began will not
/// do. A thread that was preempted between that look and its announcement holds up no epoch: the
/// epoch may run ahead, and a block unlinked in epoch 9 would carry a tag of 4 and be freed at
/// once. Read after the fence, the tag t is at least the last epoch e that ended while the thread
/// was taken for being between two operations, since the thread that ended it issued a heavy fence
/// and knew e. The epoch e + 1 may begin then, but cannot end before the operation does; so the
/// block was unlinked at e + 1 <= t + 1 at the latest.
class epoch_bags {
 public:
  /// The epoch seen at the last tick: what the thread announces.
  std::uint64_t seen() const noexcept { return seen_; }

  void put(retired* block, std::uint64_t tag) noexcept { bag_for(tag).push(block); }

  /// The thread has seen epoch `now`, by an acquire load: hands what is safe by then to `sink`.
  template <class Sink>
  void catch_up(std::uint64_t now, std::uint64_t age, Sink&& sink) noexcept {
    seen_ = now;  // first: a deleter that the sink calls may begin operations of its own
    limbo safe;
    safe.append(overdue_);
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      if (tags_[i] + age <= now) safe.append(bags_[i]);
    }
    if (!safe.empty()) sink(safe);
  }

  /// Takes over another thread's blocks. `tag` is the epoch read after that thread's part was
  /// acquired.
  void adopt(epoch_bags& other, std::uint64_t tag) noexcept {
    overdue_.append(other.overdue_);
    limbo& bag = bag_for(tag);
    for (limbo& b : other.bags_) bag.append(b);
  }

  void abandon(limbo& all) noexcept {
    all.append(overdue_);
    for (limbo& bag : bags_) all.append(bag);
  }

  /// f(list) for each list.
  template <class F>
  void lists(F&& f) {
    f(overdue_);
    for (limbo& bag : bags_) f(bag);
  }

  std::size_t count() const noexcept {
    return overdue_.count() + bags_[0].count() + bags_[1].count() + bags_[2].count();
  }

 private:
  limbo& bag_for(std::uint64_t tag) noexcept {
    const std::size_t i = tag % bags_.size();
    if (tags_[i] != tag) {
      // What lies here is three epochs old at least, so it is safe: the next catch_up hands it out.
      overdue_.append(bags_[i]);
      tags_[i] = tag;
    }
    return bags_[i];
  }

  std::uint64_t seen_ = 0;
  std::array<limbo, 3> bags_;
  std::array<std::uint64_t, 3> tags_{};
  limbo overdue_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
