// SPDX-License-Identifier: Apache-2.0
#include "support/isolation.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace spolia::test {
namespace {

using version = std::pair<std::uint64_t, std::uint64_t>;  // key, number

/// Each transaction is two nodes: 2i, to which a dependency or a dependency and an rw edge after it
/// lead, and 2i + 1, to which a dependency leads and from which an rw edge goes on. If rw edges
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

using makers = std::map<version, std::size_t>;

enum class dependencies : std::uint8_t { ww, ww_and_wr, all_but_rw_pairs, all };

/// What is wrong with a history, apart from cycles; and which transactions made and replaced each
/// version.
std::string misread(const std::vector<transaction_log>& all, makers& maker, makers& replacer) {
  makers aborted;
  makers passed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& p : all[i].passed) passed[{p.key, p.version}] = i;
    for (const auto& w : all[i].writes) {
      (all[i].rolled_back ? aborted : maker)[{w.key, w.made}] = i;
      if (all[i].rolled_back) continue;
      const auto [at, fresh] = replacer.insert({{w.key, w.replaced}, i});
      if (!fresh) return "lost update: two transactions replaced " + name(at->first);
    }
  }
  for (const transaction_log& t : all) {
    if (t.rolled_back) continue;
    for (const auto& w : t.writes) {
      if (w.replaced != 0 && !maker.contains({w.key, w.replaced})) {
        return "dirty write: no transaction committed " + name({w.key, w.replaced});
      }
    }
    std::map<std::uint64_t, std::uint64_t> seen;
    for (const auto& r : t.reads) {
      const version v{r.key, r.version};
      if (seen.insert(v).first->second != r.version) {
        return "not repeatable: a transaction read two versions of key " + std::to_string(r.key);
      }
      if (r.version == 0 || maker.contains(v)) continue;
      const char* const kind = aborted.contains(v)  ? " (G1a: it was rolled back)"
                               : passed.contains(v) ? " (G1b: it was replaced at once)"
                                                    : "";
      return "dirty read: no transaction committed " + name(v) + kind;
    }
  }
  return {};
}

graph graph_of(const std::vector<transaction_log>& all, const makers& maker, const makers& replacer,
               dependencies of) {
  graph g(all.size(), of == dependencies::all);
  std::map<unsigned, std::size_t> before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].rolled_back) continue;
    for (const auto& w : all[i].writes) {
      if (w.replaced != 0) g.depends(maker.at({w.key, w.replaced}), i);
    }
    if (of == dependencies::ww) continue;
    for (const auto& r : all[i].reads) {
      if (r.version != 0) g.depends(maker.at({r.key, r.version}), i);
    }
    if (of == dependencies::ww_and_wr) continue;
    for (const auto& r : all[i].reads) {
      if (const auto n = replacer.find({r.key, r.version}); n != replacer.end()) {
        g.replaces(i, n->second);
      }
    }
    for (const auto& m : all[i].missed) {
      if (const auto n = maker.find({m.key, m.version}); n != maker.end()) {
        g.replaces(i, n->second);
      }
    }
    const auto last = before.find(all[i].thread);
    if (last != before.end()) g.depends(last->second, i);
    before[all[i].thread] = i;
  }
  return g;
}

std::string broken(const std::vector<transaction_log>& all, dependencies most) {
  makers maker;
  makers replacer;
  if (std::string wrong = misread(all, maker, replacer); !wrong.empty()) return wrong;
  for (const auto& [of, kind] :
       {std::pair(dependencies::ww, "G0"), std::pair(dependencies::ww_and_wr, "G1c"),
        std::pair(most, "G2")}) {
    const auto cycle = graph_of(all, maker, replacer, of).cycle();
    if (cycle.empty()) continue;
    std::string text = "a cycle of dependencies (" + std::string(kind) + "):";
    for (const std::size_t t : cycle) text += " " + std::to_string(t);
    return text;
  }
  return {};
}

}  // namespace

std::string snapshot_isolation_broken(const std::vector<transaction_log>& all) {
  return broken(all, dependencies::all_but_rw_pairs);
}

std::string serializability_broken(const std::vector<transaction_log>& all) {
  return broken(all, dependencies::all);
}

}  // namespace spolia::test
