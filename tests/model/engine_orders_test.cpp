// SPDX-License-Identifier: Apache-2.0
// Each operation of spolia::atomic does what its name says with the order that its name says. The
// names are shared by all build variants, so this holds for the product too; only here can it be
// seen.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/model/engine.hpp>

namespace {

namespace model = spolia::model;
using word = spolia::atomic<int>;

// The line or lines that the operation leaves in a trace; the object holds 5 before.
std::string trace_of(const std::function<void(word&)>& operation) {
  const model::outcome got = model::explore({}, [&](model::scenario& run) {
    auto object = std::make_shared<word>(5);
    run.name(*object, "word");
    run.thread([=] { operation(*object); });
    run.finally([] { model::check(false, "to get a trace"); });
  });
  std::string lines;
  std::size_t at = 0;
  while ((at = got.trace.find("T0      ", at)) != std::string::npos) {
    at += 8;
    lines += got.trace.substr(at, got.trace.find('\n', at) - at) + ";";
  }
  return lines;
}

TEST(orders, loads_and_stores) {
  EXPECT_EQ(trace_of([](word& w) { w.load_relaxed(); }), "load relaxed word = 5;");
  EXPECT_EQ(trace_of([](word& w) { w.load_acquire(); }), "load acquire word = 5;");
  EXPECT_EQ(trace_of([](word& w) { w.load_seq_cst(); }), "load seq_cst word = 5;");
  EXPECT_EQ(trace_of([](word& w) { w.store_relaxed(6); }), "store relaxed word := 6;");
  EXPECT_EQ(trace_of([](word& w) { w.store_release(6); }), "store release word := 6;");
  EXPECT_EQ(trace_of([](word& w) { w.store_seq_cst(6); }), "store seq_cst word := 6;");
}

std::string read_then_write(const std::string& operation, const std::string& order, int result) {
  return operation + " " + order + " word = 5;" + operation + " " + order +
         " word := " + std::to_string(result) + ";";
}

template <class Operation>
std::string swapped(Operation operation) {
  return trace_of([=](word& w) {
    int expected = 5;
    model::check(operation(w, expected), "swapped");
    model::check(expected == 5, "expected is left alone");
  });
}

template <class Operation>
std::string refused(Operation operation) {
  return trace_of([=](word& w) {
    int expected = 4;
    model::check(!operation(w, expected), "refused");
    model::check(expected == 5, "expected is brought up to date");
  });
}

#define SPOLIA_CHECK_ORDER(order, on_failure)                                               \
  TEST(orders, order##_read_modify_write) {                                                 \
    EXPECT_EQ(trace_of([](word& w) { w.exchange_##order(6); }),                             \
              read_then_write("exchange", #order, 6));                                      \
    EXPECT_EQ(trace_of([](word& w) { w.fetch_add_##order(3); }),                            \
              read_then_write("fetch_add", #order, 8));                                     \
    EXPECT_EQ(trace_of([](word& w) { w.fetch_sub_##order(3); }),                            \
              read_then_write("fetch_sub", #order, 2));                                     \
    EXPECT_EQ(trace_of([](word& w) { w.fetch_or_##order(2); }),                             \
              read_then_write("fetch_or", #order, 7));                                      \
    EXPECT_EQ(trace_of([](word& w) { w.fetch_and_##order(6); }),                            \
              read_then_write("fetch_and", #order, 4));                                     \
    auto strong = [](word& w, int& expected) { return w.cas_strong_##order(expected, 9); }; \
    auto weak = [](word& w, int& expected) { return w.cas_weak_##order(expected, 9); };     \
    EXPECT_EQ(swapped(strong), read_then_write("cas", #order, 9));                          \
    EXPECT_EQ(swapped(weak), read_then_write("cas", #order, 9));                            \
    EXPECT_EQ(refused(strong), "cas fails: " #on_failure " word = 5;");                     \
    EXPECT_EQ(refused(weak), "cas fails: " #on_failure " word = 5;");                       \
  }

SPOLIA_CHECK_ORDER(relaxed, relaxed)
SPOLIA_CHECK_ORDER(acquire, acquire)
SPOLIA_CHECK_ORDER(release, relaxed)
SPOLIA_CHECK_ORDER(acq_rel, acquire)
SPOLIA_CHECK_ORDER(seq_cst, seq_cst)

#undef SPOLIA_CHECK_ORDER

}  // namespace
