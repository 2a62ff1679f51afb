// SPDX-License-Identifier: Apache-2.0
#include "support/isolation.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spolia::test {
namespace {

using version = std::pair<std::uint64_t, std::uint64_t>;  // key, number

/// Each transaction is two nodes: 2i, to which a dependency or a dependency and an rw edge behind
/// it lead, and 2i + 1, to which a dependency leads and from which an rw edge goes on. If rw edges
/// count as dependencies, all are between the first ones.
class graph {
 public:
  graph(std::size_t transactions, bool rw_depends)
      : rw_depends_(rw_depends), next_(2 * transactions) {}

  void depends(std::size_t from, std::size_t to) {
    if (from == to) return;
    next_[2 * from].push_back(2 * to);
    next_[2 * from].push_back(2 * to + 1);
  }
  void replaces(std::size_t reader, std::size_t writer) {
    if (rw_depends_) return depends(reader, writer);
    if (reader != writer) next_[2 * reader + 1].push_back(2 * writer);
  }

  /// The transactions of a cycle; empty if there is none.
  [[nodiscard]] std::vector<std::size_t> cycle() const {
    enum : std::uint8_t { unseen, open, closed };
    std::vector<std::uint8_t> state(next_.size(), unseen);
    std::vector<std::pair<std::size_t, std::size_t>> way;  // node, edges followed
    for (std::size_t root = 0; root < next_.size(); ++root) {
      if (state[root] != unseen) continue;
      way.emplace_back(root, 0);
      state[root] = open;
      while (!way.empty()) {
        auto& [node, edge] = way.back();
        if (edge == next_[node].size()) {
          state[node] = closed;
          way.pop_back();
          continue;
        }
        const std::size_t to = next_[node][edge++];
        if (state[to] == open) return round(way, to);
        if (state[to] == unseen) {
          state[to] = open;
          way.emplace_back(to, 0);
        }
      }
    }
    return {};
  }

 private:
  static std::vector<std::size_t> round(const std::vector<std::pair<std::size_t, std::size_t>>& way,
                                        std::size_t first) {
    std::vector<std::size_t> found;
    for (auto i = way.rbegin(); i != way.rend(); ++i) {
      found.push_back(i->first / 2);
      if (i->first == first) break;
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  const bool rw_depends_;
  std::vector<std::vector<std::size_t>> next_;
};

std::string name(const version& v) {
  return "version " + std::to_string(v.second) + " of key " + std::to_string(v.first);
}

std::string broken(const std::vector<transaction_log>& all, bool rw_depends) {
  std::map<version, std::size_t> maker;
  std::map<version, std::size_t> replacer;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& w : all[i].writes) {
      maker[{w.key, w.made}] = i;
      const auto [at, fresh] = replacer.insert({{w.key, w.replaced}, i});
      if (!fresh) return "lost update: two transactions replaced " + name(at->first);
    }
  }
  graph g(all.size(), rw_depends);
  std::map<unsigned, std::size_t> before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto last = before.find(all[i].thread);
    if (last != before.end()) g.depends(last->second, i);
    before[all[i].thread] = i;
    for (const auto& w : all[i].writes) {
      if (w.replaced == 0) continue;
      const auto m = maker.find({w.key, w.replaced});
      if (m == maker.end()) return "dirty write: nobody committed " + name({w.key, w.replaced});
      g.depends(m->second, i);
    }
    std::map<std::uint64_t, std::uint64_t> seen;
    for (const auto& r : all[i].reads) {
      const version v{r.key, r.version};
      if (seen.insert(v).first->second != r.version) {
        return "not repeatable: a transaction read two versions of key " + std::to_string(r.key);
      }
      if (r.version != 0) {
        const auto m = maker.find(v);
        if (m == maker.end()) return "dirty read: nobody committed " + name(v);
        g.depends(m->second, i);
      }
      if (const auto n = replacer.find(v); n != replacer.end()) g.replaces(i, n->second);
    }
  }
  const auto cycle = g.cycle();
  if (cycle.empty()) return {};
  std::string text = "a cycle of dependencies:";
  for (const std::size_t t : cycle) text += " " + std::to_string(t);
  return text;
}

}  // namespace

std::string snapshot_isolation_broken(const std::vector<transaction_log>& all) {
  return broken(all, false);
}

std::string serializability_broken(const std::vector<transaction_log>& all) {
  return broken(all, true);
}

}  // namespace spolia::test
