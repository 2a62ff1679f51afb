// SPDX-License-Identifier: Apache-2.0
// What a plugin offers that uses maps, snapshots, counted pointers and read-log-update of its own,
// under the name tenant_functions; and what such plugins and the program share. In each build
// variant.
#pragma once

#include <string>

#include <spolia/map.hpp>
#include <spolia/snapshot.hpp>

namespace spolia::test::inline SPOLIA_FLAVOUR {

using prices = snapshot_hash<int, std::string>;
inline constexpr int price_count = 100;

struct tenant {
  const void* (*timeline)();
  prices* (*make)();
  void (*end)(prices*);
  /// All prices become the same text, one after the other.
  void (*change)(prices&, int round);
  /// How many prices there are at that instant; -1 if not all are the same.
  long (*count)(const prices&, const snapshot&);
  /// Makes thin objects of `count` types, at most `most_kinds`, that nothing else uses.
  void (*use_kinds)(int count);
  /// Works on what all threads of the plugin share, as one of `workers` threads. Null, or what was
  /// wrong.
  const char* (*work)(int thread, int workers, int rounds);
  /// Gives up the counted objects that its work has left. They wait, and end by code of the plugin.
  void (*leave)();
  /// Makes and ends objects of every kind, one after the other.
  void (*churn)(int count);
  /// Takes a snapshot of two timelines. Whether the calling thread, which has not used the plugin
  /// before, has a number of this copy of the library's afterwards.
  bool (*announces_here)();
  /// Makes `count` blocks and objects of each kind that a domain or read-log-update ends by
  /// functions which it keeps with them. How many endings this copy's code has seen: `kinds_ended`
  /// times `count`, if all.
  int (*end_blocks)(int count);
  /// Things of all kinds that this copy of the library makes, and that it alone may use.
  void* (*make_thing)();
  /// Reads and changes the one of a kind, so often that what it gives up is gone over.
  void (*use_thing)(void* thing, int kind);
};
inline constexpr int most_kinds = 64;
inline constexpr int kinds_of_things = 5;
inline constexpr int kinds_ended = 6;

}  // namespace spolia::test::inline SPOLIA_FLAVOUR
