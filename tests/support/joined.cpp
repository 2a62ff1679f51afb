// SPDX-License-Identifier: Apache-2.0
#include "support/joined.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace spolia::test {
namespace {

struct part {
  std::string test;
  std::string source;
};

struct parts {
  std::vector<part> all;
  std::map<const testing::TestInfo*, std::string> owners;
};

parts& known() {
  static parts p;
  return p;
}

template <class Body>
void for_each_case(Body body) {
  const testing::UnitTest& cases = *testing::UnitTest::GetInstance();
  for (int s = 0; s < cases.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *cases.GetTestSuite(s);
    for (int c = 0; c < suite.total_test_count(); ++c) body(*suite.GetTestInfo(c));
  }
}

/// What has been registered since the last part began is that part's.
void close_last_part() {
  if (known().all.empty()) return;
  for_each_case([](const testing::TestInfo& one) {
    known().owners.try_emplace(&one, known().all.back().test);
  });
}

/// Of a case with parameters, which GoogleTest makes when main() is under way.
std::string owner_by_source(const testing::TestInfo& one) {
  for (const part& p : known().all) {
    if (p.source == one.file()) return p.test;
  }
  return {};
}

/// GoogleTest's filter with all cases left out that are another test's. Empty: no case is this
/// test's, or a case is no test's.
std::string filter_of(const std::string& test, std::string filter) {
  bool found = false;
  bool lost = false;
  char before = filter.find('-') == std::string::npos ? '-' : ':';
  for_each_case([&](const testing::TestInfo& one) {
    const auto known_owner = known().owners.find(&one);
    const std::string owner =
        known_owner != known().owners.end() ? known_owner->second : owner_by_source(one);
    const std::string name = std::string(one.test_suite_name()) + "." + one.name();
    if (owner.empty()) {
      std::fprintf(stderr, "%s belongs to no test of this program\n", name.c_str());
      lost = true;
    } else if (owner == test) {
      found = true;
    } else {
      filter += before + name;
      before = ':';
    }
  });
  if (!found) std::fprintf(stderr, "no case of this program belongs to %s\n", test.c_str());
  return found && !lost ? filter : std::string();
}

}  // namespace

begins::begins(const char* test, const char* source) {
  close_last_part();
  known().all.push_back({test, source});
}

}  // namespace spolia::test

int main(int argc, char** argv) {
  spolia::test::close_last_part();
  testing::InitGoogleTest(&argc, argv);
  if (const char* const test = std::getenv("SPOLIA_TEST")) {
    const std::string filter = spolia::test::filter_of(test, GTEST_FLAG_GET(filter));
    if (filter.empty()) return 1;
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
