// SPDX-License-Identifier: Apache-2.0
// limbo.hpp: what a retired block carries, and lists of such blocks.
//
// A block is retired by linking its own header into a list, so retiring allocates nothing. The
// header is two words; a scheme that needs birth or retirement stamps adds its own (`stamped`).
#pragma once

#include <cstddef>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class retired;

/// How blocks of one kind end. One constant object per type; never owned by a block.
struct disposer {
  /// Destroys the object and gives its memory back, wherever it came from. Must not throw. Called
  /// only if there is no `destroy`.
  void (*dispose)(retired*) noexcept;
  /// The address by which readers know the object (hazard pointers compare it).
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
  const disposer& how() const noexcept { return *how_.read(); }
  const void* address() const noexcept { return how().address(this); }
  std::size_t holds_bytes() const noexcept { return how().bytes + how().elsewhere; }

 protected:
  ~retired() = default;

 private:
  friend class limbo;
  template <class, class>
  friend class domain;

  plain<retired*> next_;
  plain<const disposer*> how_{nullptr};
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
/// constant time. It does not own the blocks: whoever drops a list that is not empty leaks them.
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

  /// Takes all of `other`, in order, behind what is here.
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

  /// Moves the `most` oldest blocks behind those of `to`.
  void split(std::size_t most, limbo& to) noexcept {
    if (most >= count()) return to.append(*this);
    for (; most > 0; --most) to.push(pop());
  }

  /// Fetches one more block ahead, behind the first one at the first call after look_from_first().
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

}  // namespace spolia::inline SPOLIA_FLAVOUR
