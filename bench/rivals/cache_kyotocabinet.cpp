// SPDX-License-Identifier: Apache-2.0
// cache_kyotocabinet.cpp: Kyoto Cabinet's cache: sixteen slots with a lock each, and in each slot a
// table of buckets, each with a search tree.
#include <kccachedb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "../numbered_cache.hpp"
#include "../plain_subject.hpp"
#include "../rlu.hpp"
#include "../trial.hpp"

namespace bench {
namespace {

namespace kc = kyotocabinet;

class kyoto_cache {
 public:
  explicit kyoto_cache(std::size_t buckets) {
    if (!store_.tune_buckets(static_cast<std::int64_t>(buckets)) ||
        !store_.open("*", kc::CacheDB::OWRITER | kc::CacheDB::OCREATE)) {
      throw std::runtime_error(std::string("Kyoto Cabinet: ") + store_.error().message());
    }
  }
  bool set(const std::string& key, const std::string& value) {
    setter put(value);
    store_.accept(key.data(), key.size(), &put, true);
    return put.is_new;
  }
  std::optional<std::string> get(const std::string& key) {
    std::string value;
    if (!store_.get(key, &value)) return std::nullopt;
    return value;
  }
  bool erase(const std::string& key) { return store_.remove(key); }

 private:
  struct setter final : kc::DB::Visitor {
    explicit setter(const std::string& to) : value(to) {}
    const char* visit_full(const char*, std::size_t, const char*, std::size_t,
                           std::size_t* bytes) override {
      *bytes = value.size();
      return value.data();
    }
    const char* visit_empty(const char*, std::size_t, std::size_t* bytes) override {
      is_new = true;
      *bytes = value.size();
      return value.data();
    }
    const std::string& value;
    bool is_new = false;
  };

  kc::CacheDB store_;
};

const bool known = [] {
  all_rlu_ways().push_back(
      {"cache", "kyotocabinet", run_trial<plain_subject<numbered_cache<kyoto_cache>>>});
  return true;
}();

}  // namespace
}  // namespace bench
