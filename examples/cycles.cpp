// SPDX-License-Identifier: Apache-2.0
// Objects that own each other never end. This program finds, names and ends them, as docs/memory.md
// says under "Cycles".
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <spolia/memory.hpp>

namespace {

int rooms = 0;

// A type takes part by naming the counted pointers in it.
struct room : spolia::traced<room> {
  explicit room(std::string n) : name(std::move(n)) { ++rooms; }
  ~room() { --rooms; }

  template <class F>
  void each_child(F&& f) {
    for (spolia::shared_ptr<room>& door : doors) f(door);
    f(stairs);
  }

  std::string name;
  std::vector<spolia::shared_ptr<room>> doors;
  spolia::atomic_shared_ptr<room> stairs;
};

spolia::shared_ptr<room> build() {
  auto hall = spolia::make_shared<room>("hall");
  auto kitchen = spolia::make_shared<room>("kitchen");
  hall->doors.push_back(kitchen);
  kitchen->doors.push_back(hall);  // the cycle: now neither ends
  hall->stairs = spolia::make_shared<room>("cellar");
  return hall;
}

bool expect(std::size_t found, std::size_t wanted, const char* when) {
  if (found != wanted) std::fprintf(stderr, "cycles: %zu rooms %s\n", found, when);
  return found == wanted;
}

}  // namespace

int main() {
  auto house = build();
  bool good = expect(spolia::counted::find_cycles().objects, 0, "while a pointer holds the house");
  house.reset();

  const auto lost = spolia::counted::find_cycles();
  for (const auto& [type, objects] : lost.types) {
    std::printf("lost: %zu of %s\n", objects, type.c_str());
  }
  good = expect(lost.objects, 3, "when no pointer holds it") && good;

  spolia::counted::end_cycles();
  good = expect(static_cast<std::size_t>(rooms), 0, "at the end") && good;
  return good ? 0 : 1;
}
