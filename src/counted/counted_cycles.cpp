// SPDX-License-Identifier: Apache-2.0
// counted_cycles.cpp: the list of all traced objects, and the search for cycles among them.
#include <spolia/counted/cycles.hpp>
#include <spolia/counted/home.hpp>

#include <cxxabi.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// In parts, by the objects' addresses. Never destroyed: objects may end after static destructors.
class traced_list {
 public:
  static traced_list& get() noexcept {
    alignas(traced_list) static unsigned char place[sizeof(traced_list)];
    static traced_list* const it = new (place) traced_list;
    return *it;
  }

  void add(traced_object& o) noexcept {
    part& p = part_of(o);
    const std::lock_guard lock(p.mutex);
    o.next_ = p.first;
    if (p.first != nullptr) p.first->previous_ = &o;
    p.first = &o;
  }
  void remove(traced_object& o) noexcept {
    part& p = part_of(o);
    const std::lock_guard lock(p.mutex);
    (o.previous_ != nullptr ? o.previous_->next_ : p.first) = o.next_;
    if (o.next_ != nullptr) o.next_->previous_ = o.previous_;
  }

  template <class F>
  void for_each(F&& f) {
    for (part& p : parts_) {
      const std::lock_guard lock(p.mutex);
      for (traced_object* o = p.first; o != nullptr; o = o->next_) f(*o);
    }
  }

 private:
  struct alignas(cache_line) part {
    std::mutex mutex;
    traced_object* first = nullptr;
  };

  traced_list() {
    // So that a forked child finds the lists whole, and nothing locked. The registry of threads
    // asks for its turn first: then a fork locks our mutexes, and after them the registry's.
    high_water();
    const auto unlock = [] {
      for (part& p : get().parts_) p.mutex.unlock();
    };
    pthread_atfork(
        [] {
          for (part& p : get().parts_) p.mutex.lock();
        },
        unlock, unlock);
  }
  part& part_of(const traced_object& o) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(&o) >> 4U;
    return parts_[(bits ^ (bits >> 6U)) % parts_.size()];
  }

  std::array<part, 16> parts_;  // a fork locks all, and tools count only so many locks
};

// As the registry of threads.
[[maybe_unused]] static const traced_list& at_load = traced_list::get();

void traced_object::enlist() noexcept { traced_list::get().add(*this); }
void traced_object::leave() noexcept { traced_list::get().remove(*this); }

namespace {

using counted::detail::entry;
using counted::detail::name;

std::uint64_t units_of(entry e) noexcept {
  return counted::detail::is_thin(e) ? counted::detail::head_of_entry(e)->units.load_relaxed()
                                     : counted::detail::block_of_entry(e)->strong();
}
void drop_unit(entry e) noexcept {
  counted::detail::is_thin(e) ? counted::detail::release(counted::detail::head_of_entry(e))
                              : counted::detail::release(counted::detail::block_of_entry(e));
}

std::string readable(const std::type_info* type) {
  if (type == nullptr) return "(a type without RTTI)";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return text != nullptr ? text.get() : type->name();
}

class search {
 public:
  search() {
    traced_list::get().for_each([&](traced_object& o) {
      // One that is ending is in the list until its members have ended: only a forked child can see
      // that, of a thread that is not there.
      if (o.owner() != 0 && units_of(o.owner()) != 0) all_.push_back({&o});
    });
    for (std::size_t i = 0; i < all_.size(); ++i) by_name_.emplace(name_at(i), i);
    for (const object& o : all_) {
      each_child(*o.at, [&](std::size_t child) {
        ++all_[child].inner;
        return false;
      });
    }
    reach_all();
  }

  [[nodiscard]] cycle_report report() const {
    cycle_report r;
    std::map<std::string, std::size_t> types;
    for (const object& o : all_) {
      if (o.held) continue;
      ++r.objects;
      r.bytes += o.at->kind().bytes;
      ++types[readable(o.at->kind().type)];
    }
    r.types.assign(types.begin(), types.end());
    std::stable_sort(r.types.begin(), r.types.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return r;
  }

  /// The objects that are not held: first a unit of each is ours, so that none ends while the
  /// pointers between them become null.
  void end() {
    units ours;
    ours.all.reserve(all_.size());
    for (const object& o : all_) {
      if (o.held) continue;
      counted::detail::add_units(o.at->owner(), 1);
      ours.all.push_back(o.at->owner());
    }
    for (const object& o : all_) {
      if (!o.held) each_child(*o.at, [&](std::size_t child) { return !all_[child].held; });
    }
  }

 private:
  struct object {
    traced_object* at;
    std::uint64_t inner = 0;  // units that lie in traced objects
    bool held = false;
  };
  struct units {
    units() = default;
    units(const units&) = delete;
    units& operator=(const units&) = delete;
    ~units() {
      for (const entry e : all) drop_unit(e);
    }
    std::vector<entry> all;
  };

  /// Calls f(index) for each traced child.
  template <class F>
  void each_child(traced_object& of, F f) {
    struct visitor final : child_visitor {
      visitor(search& s, F& f) noexcept : all(s), call(f) {}
      bool child(std::uintptr_t e, std::uintptr_t pinned_as) override {
        const auto at = all.by_name_.find(counted::detail::name_of_entry(e));
        if (at == all.by_name_.end()) return false;
        const std::size_t found = at->second;
        // What pins name is not looked into: it need not be alive.
        if (pinned_as != 0) all.by_name_.try_emplace(pinned_as, found);
        return call(found);
      }
      search& all;
      F& call;
    };
    visitor v(*this, f);
    of.kind().children(of, v);
  }

  void reach_all() {
    std::vector<std::size_t> way;
    const auto reach = [&](std::size_t i) {
      if (!std::exchange(all_[i].held, true)) way.push_back(i);
    };
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (units_of(all_[i].at->owner()) != all_[i].inner) reach(i);
    }
    for (const std::uintptr_t pinned : names_of_counted_pins()) {
      if (const auto at = by_name_.find(pinned); at != by_name_.end()) reach(at->second);
    }
    while (!way.empty()) {
      const std::size_t i = way.back();
      way.pop_back();
      each_child(*all_[i].at, [&](std::size_t child) {
        reach(child);
        return false;
      });
    }
  }

  [[nodiscard]] name name_at(std::size_t i) const noexcept {
    return counted::detail::name_of_entry(all_[i].at->owner());
  }

  std::vector<object> all_;
  std::unordered_map<name, std::size_t> by_name_;
};

}  // namespace

cycle_report look_for_cycles(bool end) {
  drain_counted();
  search s;
  cycle_report r = s.report();
  if (end && r.objects > 0) {
    s.end();
    drain_counted();
  }
  return r;
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
