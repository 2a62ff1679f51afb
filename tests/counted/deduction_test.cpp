// SPDX-License-Identifier: Apache-2.0
// What a pointer points to, where the program does not say it: it follows from what the pointer is
// made of.
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include <spolia/memory.hpp>

namespace spolia {
namespace {

#define EXPECT_TYPE(P, p) static_assert(std::is_same_v<P, decltype(p)>)

TEST(deduction, of_pointers_with_a_block) {
  atomic_shared_ptr<int> location(make_shared<int>(7));
  const atomic_shared_ptr<const int> fixed(make_shared<int>(8));
  const atomic_shared_ptr<int[]> row(make_shared<int[]>(3, 9));

  private_ptr p(location);
  EXPECT_TYPE(private_ptr<int>, p);
  const private_ptr q(fixed);
  EXPECT_TYPE(const private_ptr<const int>, q);
  const private_ptr r(row);
  EXPECT_TYPE(const private_ptr<int[]>, r);
  shared_ptr s(location);
  EXPECT_TYPE(shared_ptr<int>, s);
  const shared_ptr t(p);
  EXPECT_TYPE(const shared_ptr<int>, t);
  const private_ptr counts(s);
  EXPECT_TYPE(const private_ptr<int>, counts);
  const private_ptr copy = p;
  EXPECT_TYPE(const private_ptr<int>, copy);
  const private_ptr onward(std::move(p), fixed);
  EXPECT_TYPE(const private_ptr<const int>, onward);
  EXPECT_EQ(*q + r[2] + *s + *t + *counts + *copy + *onward, 8 + 9 + 7 + 7 + 7 + 7 + 8);

  const atomic_weak_ptr<int> watched(weak_ptr<int>{s});
  const weak_ptr w(watched);
  EXPECT_TYPE(const weak_ptr<int>, w);
  EXPECT_EQ(w.lock(), s);
}

TEST(deduction, of_thin_pointers) {
  atomic_thin_ptr<int> location(make_thin<int>(7));
  const atomic_thin_ptr<const int> fixed(make_thin<const int>(8));

  private_thin_ptr p(location);
  EXPECT_TYPE(private_thin_ptr<int>, p);
  thin_ptr s(location);
  EXPECT_TYPE(thin_ptr<int>, s);
  const thin_ptr t(p);
  EXPECT_TYPE(const thin_ptr<int>, t);
  const private_thin_ptr counts(s);
  EXPECT_TYPE(const private_thin_ptr<int>, counts);
  const private_thin_ptr onward(std::move(p), fixed);
  EXPECT_TYPE(const private_thin_ptr<const int>, onward);
  EXPECT_EQ(*s + *t + *counts + *onward, 7 + 7 + 7 + 8);
}

}  // namespace
}  // namespace spolia
