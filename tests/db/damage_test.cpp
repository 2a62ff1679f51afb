// SPDX-License-Identifier: Apache-2.0
// Databases whose files were cut, flipped and made up: what opens is the state after some commit,
// or nothing opens.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/db/salvage.hpp>

#include "db/log/log_format.hpp"

#include "db/durable.hpp"
#include "db/ledger_files.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// What opening gives: the number of commits, or why it was refused.
struct outcome_of_opening {
  std::optional<std::int64_t> commits;
  std::string refused;
  recovery_report report{};
};
outcome_of_opening try_to_open(const disk& files, bool read_only = false) {
  options o = over(files);
  o.read_only = read_only;
  try {
    database base = database::open(place, o);
    return {commits_in(base), {}, base.recovered()};
  } catch (const storage_error& e) {
    EXPECT_FALSE(e.file().empty());
    EXPECT_FALSE(e.problem().empty());
    // A SPOLIA without data files beside it may be any file.
    EXPECT_TRUE(e.fault() != storage_fault::other || e.file().filename() == "SPOLIA") << e.what();
    return {std::nullopt, e.what(), {}};
  }
}

/// Tries `change` on each byte of a file. `allowed` are the commits that may be found.
void at_every_byte(const disk& whole, const std::string& name, std::int64_t least,
                   std::int64_t most, const std::function<bool(bytes&, std::size_t)>& change) {
  const std::size_t size = whole->content(name).size();
  for (std::size_t at = 0; at < size; ++at) {
    SCOPED_TRACE(name + " at " + std::to_string(at));
    const disk damaged = whole->copy();
    if (!change(damaged->content(name), at)) continue;
    const auto got = try_to_open(damaged);
    if (!got.refused.empty()) continue;
    ASSERT_TRUE(got.commits.has_value());
    ASSERT_GE(*got.commits, least);
    ASSERT_LE(*got.commits, most);
    // And it goes on from there.
    database base = database::open(place, over(damaged));
    if (base.tables().empty()) continue;
    ASSERT_TRUE(write_down(base, base.find_table("ledger"), *got.commits + 1));
  }
}

bool flip(bytes& content, std::size_t at) {
  content[at] ^= static_cast<std::byte>(1U << at % 8);
  return true;
}
bool cut_off(bytes& content, std::size_t at) {
  content.resize(at);
  return true;
}

TEST(damage, the_log_is_what_the_guide_says) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 3);
  const bytes& log = files->content(log_name(1));
  EXPECT_EQ(std::memcmp(log.data(), "SPOLIALG", 8), 0);
  EXPECT_EQ(number_at<std::uint32_t>(log, 8), plain_crc(std::span(log).subspan(12, 52)));
  EXPECT_EQ(number_at<std::uint32_t>(log, 12), 6U) << "the format";
  EXPECT_EQ(number_at<std::uint64_t>(log, 32), 1U) << "the first record";
  EXPECT_EQ(number_at<std::uint32_t>(log, 40), 1U) << "the epoch";
  std::uint32_t chain = 0;
  std::uint64_t sequence = 0;
  for (std::size_t at = file_head; at < log.size();) {
    const auto length = number_at<std::uint32_t>(log, at + 8);
    ASSERT_LE(at + record_head + length, log.size());
    EXPECT_EQ(std::memcmp(log.data() + at, "SPLR", 4), 0);
    EXPECT_EQ(number_at<std::uint32_t>(log, at + 12), chain);
    EXPECT_EQ(number_at<std::uint64_t>(log, at + 16), ++sequence);
    EXPECT_EQ(number_at<std::uint64_t>(log, at + 24), sequence - 1) << "known to be durable";
    EXPECT_EQ(number_at<std::uint32_t>(log, at + 32), 1U) << "the epoch";
    EXPECT_EQ(number_at<std::uint32_t>(log, at + 36), sequence == 1 ? 2U : 1U) << "the kind";
    chain = plain_crc(std::span(log).subspan(at + 8, record_head - 8 + length));
    EXPECT_EQ(number_at<std::uint32_t>(log, at + 4), chain);
    at += record_head + length;
  }
  EXPECT_EQ(sequence, 4U);
}

/// The bodies of a log's records.
std::vector<bytes> bodies_of(const bytes& log) {
  std::vector<bytes> all;
  for (std::size_t at = file_head; at < log.size();) {
    const auto length = number_at<std::uint32_t>(log, at + 8);
    const auto body = std::span(log).subspan(at + record_head, length);
    all.emplace_back(body.begin(), body.end());
    at += record_head + length;
  }
  return all;
}
bytes bytes_of(std::initializer_list<unsigned> numbers) {
  bytes all;
  for (const unsigned n : numbers) all.push_back(static_cast<std::byte>(n));
  return all;
}

TEST(damage, a_change_of_a_row_is_the_columns_that_are_set) {
  const auto files = std::make_shared<memory_files>();
  {
    database base = database::open(place, over(files));
    table& t = base.create_table({.name = "t",
                                  .columns = {{"k", int64, primary_key},
                                              {"small", int64},
                                              {"real", float64, nullable},
                                              {"large", int64},
                                              {"word", text(4)}}});
    const auto set = [&](std::initializer_list<assignment> to) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {7}, to); }));
    };
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.insert(t, {7, 1, 2.0, 3, "four"}); }));
    set({{"small", -3}, {"real", 0.5}});
    set({{"real", nullptr}, {"word", "ab"}});
    set({{"large", std::numeric_limits<std::int64_t>::min()}});
  }
  const std::vector<bytes> bodies = bodies_of(files->content(log_name(1)));
  ASSERT_EQ(bodies.size(), 5U);
  // set, table 0, length 14, the key, columns 1 and 2, no nulls, -3, 0.5
  EXPECT_EQ(bodies[2],
            bytes_of({3, 0x01, 0x1d, 7, 0, 0, 0, 0, 0, 0, 0, 0x0d, 0x01, 0x0b, 0xfc, 0x01, 0x07}));
  // columns 2 and 4, column 2 is null, and text
  EXPECT_EQ(bodies[3],
            bytes_of({3, 0x01, 0x1d, 7, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x09, 2, 0, 'a', 'b'}));
  EXPECT_EQ(bodies[4], bytes_of({3,    0x01, 0x27, 7,    0,    0,    0,    0,    0,    0,   0, 0x11,
                                 0x01, 0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
}

TEST(damage, a_log_that_was_cut_anywhere) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 6);
  const std::string name = log_name(1);
  const std::size_t size = files->content(name).size();
  std::int64_t before = -1;
  for (std::size_t at = size - (size - file_head) / stride * stride; at <= size; at += stride) {
    const disk damaged = files->copy();
    damaged->content(name).resize(at);
    const auto looked = try_to_open(damaged, true);
    EXPECT_EQ(damaged->content(name).size(), at) << "who reads changes nothing";
    const auto got = try_to_open(damaged);
    ASSERT_EQ(got.refused, "") << at;
    ASSERT_TRUE(got.commits.has_value());
    EXPECT_EQ(got.commits, looked.commits);
    EXPECT_GE(*got.commits, before) << "a longer log has no fewer commits";
    before = *got.commits;
    EXPECT_EQ(damaged->content(name).size(), at - got.report.cut_bytes);
    EXPECT_EQ(got.report.cut_bytes != 0, !got.report.cut_why.empty());
    EXPECT_EQ(try_to_open(damaged).report.cut_bytes, 0U) << "it is cut once";
  }
  EXPECT_EQ(before, 6);
  at_every_byte(files, name, 0, 6, [](bytes& content, std::size_t at) {
    return at < file_head && cut_off(content, at);
  });
}

TEST(damage, a_flipped_bit_in_the_log) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 6);
  // Whatever was followed by a commit is known to have been durable: only the last may be missing.
  at_every_byte(files, log_name(1), 5, 5, flip);
  at_every_byte(files, std::string(place) + "/SPOLIA", 6, 6, flip);
}

TEST(damage, zeros_behind_the_last_record_are_room_and_no_damage) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 3);
  const std::size_t size = files->content(log_name(1)).size();
  files->content(log_name(1)).resize(size + 100);
  const auto looked = try_to_open(files, true);
  EXPECT_EQ(looked.commits, 3) << looked.refused;
  EXPECT_EQ(files->content(log_name(1)).size(), size + 100) << "who reads changes nothing";
  const auto got = try_to_open(files);
  EXPECT_EQ(got.commits, 3) << got.refused;
  EXPECT_EQ(got.report.cut_bytes, 0U) << "nothing was lost";
  EXPECT_EQ(files->content(log_name(1)).size(), size);
  // The record of a later one behind zeros: they were a record once.
  work(files, 4, 5);
  const disk with_hole = files->copy();
  bytes& log = with_hole->content(log_name(5));
  const auto length = number_at<std::uint32_t>(log, file_head + 8);
  std::fill_n(log.begin() + file_head, record_head + length, std::byte{0});
  EXPECT_NE(try_to_open(with_hole).refused, "");
  // An older segment may have them too: what follows says that it ends there.
  files->content(log_name(1)).resize(size + 100);
  EXPECT_EQ(try_to_open(files).commits, 5);
  files->content(log_name(1)).back() = std::byte{1};
  EXPECT_NE(try_to_open(files).refused, "");
}

TEST(damage, one_bit_in_zeros_is_found_wherever_it_is) {
  EXPECT_TRUE(only_zeros({}));
  bytes zeros(70);
  for (std::size_t size = 1; size <= zeros.size(); ++size) {
    const std::span some(zeros.data(), size);
    EXPECT_TRUE(only_zeros(some));
    for (std::size_t at = 0; at < size; ++at) {
      zeros[at] = std::byte{0x80};
      EXPECT_FALSE(only_zeros(some)) << at << " of " << size;
      zeros[at] = std::byte{0};
    }
  }
  const bytes ones(70, std::byte{1});
  EXPECT_FALSE(only_zeros(ones));
}

TEST(damage, older_segments_are_not_cut) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 3);
  work(files, 4, 5);  // each opening begins a segment
  ASSERT_TRUE(files->has(log_name(5)));
  const auto refused = [&](const std::function<bool(bytes&, std::size_t)>& change) {
    at_every_byte(files, log_name(1), 99, 99, change);
  };
  refused(flip);
  refused(cut_off);
  const disk gone = files->copy();
  gone->remove(log_name(1));
  EXPECT_NE(try_to_open(gone).refused.find("missing"), std::string::npos);
}

TEST(damage, a_damaged_checkpoint) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 5, true);
  work(files, 6, 6);
  const std::string name = checkpoint_name(7);  // the table, five commits, the cut
  ASSERT_TRUE(files->has(name));
  ASSERT_FALSE(files->has(log_name(1)));
  at_every_byte(files, name, 99, 99, flip);
  at_every_byte(files, name, 99, 99, cut_off);
  const disk longer = files->copy();
  longer->content(name).push_back(std::byte{0});
  EXPECT_NE(try_to_open(longer).refused, "");
  const disk without_log = files->copy();
  without_log->remove(log_name(8));
  EXPECT_NE(try_to_open(without_log).refused.find("missing"), std::string::npos);
}

TEST(damage, an_older_checkpoint_will_do_if_the_log_goes_on) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 5, true);
  const disk old = files->copy();
  work(files, 6, 8, true);
  // The process has died before it removed what the second checkpoint has made superfluous.
  const std::string second = checkpoint_name(11);
  ASSERT_TRUE(files->has(second));
  const disk both = files->copy();
  both->put(checkpoint_name(7), old->content(checkpoint_name(7)));
  EXPECT_EQ(try_to_open(both).commits, 8);
  flip(both->content(second), 200);
  EXPECT_NE(try_to_open(both).refused, "") << "what lies between is lost";
}

TEST(damage, another_version_is_named_as_such) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 2);
  const disk newer = files->copy();
  bytes& identity = newer->content(std::string(place) + "/SPOLIA");
  identity[16 + 7] = std::byte{'7'};
  EXPECT_NE(try_to_open(newer).refused.find("format"), std::string::npos);
  bytes& log = files->content(log_name(1));
  for (const std::uint32_t format : {0U, 7U}) {
    put_at(log, 12, format);
    put_at(log, 8, plain_crc(std::span(log).subspan(12, 52)));
    EXPECT_NE(try_to_open(files).refused.find("format"), std::string::npos);
  }
}

TEST(damage, an_identity_says_what_is_wrong_with_it) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 2);
  const std::string name = std::string(place) + "/SPOLIA";
  const bytes whole = files->content(name);
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(whole.data()), whole.size());
  }();
  constexpr std::size_t format_at = 16 + 7;
  constexpr std::size_t id_at = format_at + 2 + 3;
  struct {
    std::size_t at;
    std::size_t length;
    std::string_view by;
    std::string_view why;
  } constexpr wrong[] = {{0, 1, "S", "is damaged"},
                         {16, 1, "F", "is damaged"},
                         {format_at, 1, "=", "is damaged"},
                         {format_at, 1, "0", "format"},
                         {format_at, 1, "7", "format"},
                         {format_at, 1, "52", "format"},
                         {format_at, 1, "", "format"},
                         {id_at - 3, 1, "I", "no whole number"},
                         {id_at, 1, "g", "no whole number"},
                         {id_at + 1, 1, "g", "no whole number"},
                         {id_at + 31, 1, "", "no whole number"},
                         {id_at + 32, 0, "0", "no whole number"},
                         {id_at + 32, 1, "0", "no whole number"},
                         {id_at + 32, 1, "", "no whole number"}};
  for (const auto& [at, length, by, why] : wrong) {
    std::string changed = text;
    changed.replace(at, length, by);
    SCOPED_TRACE(changed);
    const disk damaged = files->copy();
    const auto content = std::as_bytes(std::span(changed));
    damaged->put(name, bytes(content.begin(), content.end()));
    const auto got = try_to_open(damaged);
    EXPECT_NE(got.refused.find(why), std::string::npos) << got.refused;
    EXPECT_EQ(damaged->content(name).size(), changed.size());
  }
  EXPECT_EQ(try_to_open(files).refused, "");
  const disk alone = new_disk();
  alone->put(name, bytes(61, std::byte{'x'}));
  const std::string why = try_to_open(alone).refused;
  EXPECT_NE(why.find("not the file of a database"), std::string::npos) << why;
}

/// The computer lost power while a database was made: the name and the length were on the disk, and
/// what was written was not.
TEST(damage, an_identity_of_zeros_alone_is_that_of_a_database_to_be_made) {
  const disk sample = new_disk();
  {
    database base = database::open(place, over(sample));
  }
  const std::string name = std::string(place) + "/SPOLIA";
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sample->content(name).size()}) {
    SCOPED_TRACE(size);
    const disk files = new_disk();
    files->put(name, bytes(size));
    options reading = over(files);
    reading.read_only = true;
    try {
      database::open(place, reading);
      ADD_FAILURE() << "there is nothing to be read";
    } catch (const storage_error& e) {
      EXPECT_NE(std::string(e.what()).find("or an empty one"), std::string::npos) << e.what();
    }
    EXPECT_EQ(files->content(name), bytes(size)) << "it was read only";
    {
      database base = database::open(place, over(files));
    }
    EXPECT_EQ(try_to_open(files).refused, "");
    EXPECT_EQ(files->content(name).size(), sample->content(name).size());
  }
}

/// The file is as if written by an older version.
void make_older(bytes& file, std::uint32_t format) {
  put_at(file, 12, format);
  put_at(file, 8, plain_crc(std::span(file).subspan(12, 52)));
}

/// Three commits as the last version of format 3 has logged them: rows as a whole.
constexpr std::string_view log_of_format_3 =
    "53504f4c49414c47933bfa6003000000bcebc0c376dca24a943cddcc8b2c6bc10100000000000000010000000000"
    "00000000000000000000000000000000000053504c52dd61a3335000000000000000010000000000000000000000"
    "00000000010000000200000006006c65646765720005000200696400000000000101006e00000000000004006e6f"
    "7465030c0000000204006576656e02000000000004006d656d6f0600000000020100040062795f6e00010001006e"
    "53504c528c3ef8c66a000000dd61a333020000000000000001000000000000000100000001000000010000000030"
    "000000010000000000000000000000000000000a0000000000000006006e6f74652031000b000000626262626262"
    "6262626262010000000028000000000000000000000004000000000000000100000000000000000b000000626262"
    "626262626262626253504c52daf200b5800000008c3ef8c603000000000000000200000000000000010000000100"
    "000001000000003b00000002000000000000000000000000000000140000000000000006006e6f74652032011600"
    "00006363636363636363636363636363636363636363636301000000003300000000000000000000000400000000"
    "000000020000000000000000160000006363636363636363636363636363636363636363636353504c524df9e646"
    "44000000daf200b50400000000000000030000000000000001000000010000000100000000190000000300000000"
    "00000014000000000000001e00000000000000000100000000190000000000000000000000140000000000000003"
    "0000000000000000";

TEST(damage, whole_rows_of_an_older_log_are_read) {
  const auto files = std::make_shared<memory_files>();
  const auto from_hex = [](std::string_view digits) {
    bytes made;
    for (std::size_t at = 0; at < digits.size(); at += 2) {
      made.push_back(
          static_cast<std::byte>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16)));
    }
    return made;
  };
  const bytes log = from_hex(log_of_format_3);
  std::string identity = "spolia database\nformat 3\nid ";
  identity += log_of_format_3.substr(32, 32);
  identity += "\n";
  const auto text = std::as_bytes(std::span(identity));
  files->put(std::string(place) + "/SPOLIA", bytes(text.begin(), text.end()));
  files->put(log_name(1), log);
  EXPECT_EQ(try_to_open(files, true).commits, 3);
  work(files, 4, 5);
  EXPECT_EQ(try_to_open(files).commits, 5);
  EXPECT_EQ(files->content(log_name(1)), log);
  EXPECT_EQ(number_at<std::uint32_t>(files->content(log_name(5)), 12), 6U);
}

TEST(damage, older_formats_are_read_and_gone_on_with) {
  for (const std::uint32_t format : {1U, 2U, 3U, 4U, 5U}) {
    const auto files = std::make_shared<memory_files>();
    work(files, 1, 3);
    files->content(std::string(place) + "/SPOLIA")[16 + 7] = static_cast<std::byte>('0' + format);
    make_older(files->content(log_name(1)), format);
    EXPECT_EQ(try_to_open(files).commits, 3);
    work(files, 4, 5, true);
    EXPECT_EQ(try_to_open(files).commits, 5);
    database base = database::open(place, over(files));
    table& more = base.create_table({.name = "more", .columns = {{"k", int64, primary_key}}});
    ASSERT_TRUE(base.drop_table(more));
    base.checkpoint();
    EXPECT_EQ(try_to_open(files->copy()).commits, 5);
  }
}

/// What a change of columns in the log may not say, with right checksums.
TEST(damage, made_up_changes_of_columns) {
  const auto files = std::make_shared<memory_files>();
  {
    database base = database::open(place, over(files));
    table& t = base.create_table(
        {.name = "t",
         .columns = {{"k", int64, primary_key}, {"a", int64}, {"b", int64, nullable}}});
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {7, 1, 2}); }));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {7}, {{"b", 3}}); }));
  }
  // Of the last record: set, table 0, length 11, the key, column 2, no nulls, 3
  const auto refused = [&](std::size_t at, unsigned to) {
    const disk damaged = files->copy();
    seal_again(damaged->content(log_name(1)), true, [&](std::span<std::byte> body) {
      if (body[0] == std::byte{3}) body[at] = static_cast<std::byte>(to);
    });
    try {
      database::open(place, over(damaged));
      return std::string();
    } catch (const storage_error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(refused(13, 0x0f), "") << "another number will do";
  EXPECT_NE(refused(0, 4).find("unknown kind"), std::string::npos);
  EXPECT_NE(refused(1, 3).find("unknown table"), std::string::npos);
  EXPECT_NE(refused(2, 0x19).find("too early"), std::string::npos);
  EXPECT_NE(refused(3, 8).find("does not exist"), std::string::npos) << "no such row";
  EXPECT_NE(refused(11, 0x03).find("of the key"), std::string::npos);
  EXPECT_NE(refused(11, 0x11).find("does not exist"), std::string::npos) << "no such column";
  EXPECT_NE(refused(12, 0x05).find("not set"), std::string::npos);
  EXPECT_NE(refused(12, 0x09).find("longer than its row"), std::string::npos);
  EXPECT_NE(refused(13, 0x02).find("too early"), std::string::npos);
}

TEST(damage, files_of_another_database_are_refused) {
  const auto one = std::make_shared<memory_files>();
  const auto two = std::make_shared<memory_files>();
  work(one, 1, 2);
  work(two, 1, 3);
  one->content(log_name(1)) = two->content(log_name(1));
  EXPECT_NE(try_to_open(one).refused.find("another database"), std::string::npos);
}

TEST(damage, rows_with_one_key_of_a_unique_index) {
  for (const index_kind kind : {index_kind::ordered, index_kind::hash}) {
    const auto files = std::make_shared<memory_files>();
    {
      database base = database::open(place, over(files));
      table& t = base.create_table({.name = "people",
                                    .columns = {{"id", text(8), primary_key}, {"badge", int64}},
                                    .indexes = {{"by_badge", {"badge"}, true, kind}}});
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {"Ada", 0x1111}); }));
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {"Bob", 0x2222}); }));
    }
    EXPECT_NO_THROW(database::open(place, over(files->copy())));
    bytes& log = files->content(log_name(1));
    const std::array<std::byte, 2> badge{std::byte{0x22}, std::byte{0x22}};
    seal_again(log, true, [&](std::span<std::byte> body) {
      const auto at = std::search(body.begin(), body.end(), badge.begin(), badge.end());
      if (at != body.end()) std::fill_n(at, badge.size(), std::byte{0x11});
    });
    for (const std::uint32_t threads : {1U, 2U}) {
      options o = over(files->copy());
      o.recovery_threads = threads;
      std::string refused;
      try {
        database base = database::open(place, o);
      } catch (const storage_error& e) {
        refused = e.what();
        EXPECT_EQ(e.file(), place);
      }
      const char* const why =
          R"(rows ("Ada") and ("Bob") of table people have the same key of the unique index by_)";
      EXPECT_NE(refused.find(why), std::string::npos) << refused;
    }
  }
}

TEST(damage, a_checkpoint_in_which_a_key_comes_twice) {
  const auto keys = {std::pair(int64, index_kind::hash), std::pair(int64, index_kind::ordered),
                     std::pair(text(16), index_kind::hash)};
  for (const auto& [type, kind] : keys) {
    const auto files = std::make_shared<memory_files>();
    {
      database base = database::open(place, over(files));
      table& t = base.create_table(
          {.name = "t", .columns = {{"k", type, primary_key}, {"v", int64}}, .primary = kind});
      for (std::int64_t n = 1; n <= 20; ++n) {
        const std::string text = "AAAAAAA" + std::string(1, static_cast<char>(n));
        const value key = type == int64 ? value(0x4141414141414100 + n) : value(text);
        ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {key, n}); }));
      }
      base.checkpoint();
    }
    const std::string name = checkpoint_name(22);  // the table, the rows, the cut
    // The fifth key becomes the twelfth.
    bytes fifth(8, std::byte{'A'});
    fifth[type == int64 ? 0 : 7] = std::byte{5};
    std::size_t changed = 0;
    bytes& content = files->content(name);
    seal_again(content, false, [&](std::span<std::byte> body) {
      const auto at = std::search(body.begin(), body.end(), fifth.begin(), fifth.end());
      if (at == body.end()) return;
      at[type == int64 ? 0 : 7] = std::byte{12};
      changed = static_cast<std::size_t>(body.data() - content.data()) - 32;
    });
    ASSERT_NE(changed, 0U);
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      options o = over(files->copy());
      o.recovery_threads = threads;
      if (threads == 3) o.hash_indexes = hash_kind::cuckoo;
      try {
        database base = database::open(place, o);
        ADD_FAILURE() << "it is opened with " << threads << " threads";
      } catch (const storage_error& e) {
        EXPECT_NE(std::string(e.what()).find("a key comes twice"), std::string::npos) << e.what();
        EXPECT_EQ(e.file(), name);
        EXPECT_EQ(e.offset(), changed);
      }
    }
  }
}

/// Random damage, also such that the checksums are right again.
TEST(damage, made_up_records) {
  const auto files = std::make_shared<memory_files>();
  work(files, 1, 5, true);
  {
    database base = database::open(place, over(files));
    table& ledger = base.find_table("ledger");
    for (std::int64_t n = 6; n <= 8; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    table& more = base.create_table({.name = "more", .columns = {{"k", int64, primary_key}}});
    ASSERT_TRUE(base.create_index(ledger, {.name = "x", .columns = {"n"}}));
    ASSERT_TRUE(base.drop_index(ledger, "by_n"));
    ASSERT_TRUE(base.drop_table(more));
  }
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int opened = 0;
  for (int round = 0; round < tries(400); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const disk damaged = files->copy();
    const bool in_log = round % 2 == 0;
    bytes& content = damaged->content(in_log ? log_name(8) : checkpoint_name(7));
    // Of some records or blocks a few bytes.
    seal_again(content, in_log, [&](std::span<std::byte> body) {
      if (body.empty() || random() % 3 != 0) return;
      for (std::uint64_t i = random() % 3 + 1; i > 0; --i) {
        body[random() % body.size()] = static_cast<std::byte>(random());
      }
    });
    // Anything but a crash, and what opens can be read.
    try {
      database base = database::open(place, over(damaged));
      ++opened;
      for (const table* t : base.tables()) base.snapshot().for_each(*t, [](const row&) {});
    } catch (const storage_error&) {
      continue;
    }
  }
  EXPECT_GT(opened, 0) << "some of it makes sense";
}

/// Bytes that look like as many long records as there is room for, all up to the end.
bytes look_alikes(std::size_t count) {
  bytes all(count * record_head);
  for (std::size_t at = 0; at < all.size(); at += record_head) {
    put_at(all, at, std::uint32_t{0x524C5053});  // SPLR
    put_at(all, at + 8, static_cast<std::uint32_t>(all.size() - at - record_head));
    put_at(all, at + 16, std::uint64_t{100});
    put_at(all, at + 24, std::uint64_t{99});
    put_at(all, at + 32, std::uint32_t{1});
    put_at(all, at + 36, std::uint32_t{1});
  }
  return all;
}

/// A program's rows are what its users write. If each of what looks like a record were read to its
/// end, this would be some hundred gigabytes.
TEST(damage, many_bytes_that_look_like_long_records_take_a_short_time) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const std::clock_t start = std::clock();  // what the processor does, and no wait for it
  const auto whole = std::make_shared<memory_files>();
  work(whole, 1, 3);
  for (const bool proof : {false, true}) {
    const disk damaged = whole->copy();
    bytes& log = damaged->content(log_name(1));
    bytes more = look_alikes(100000);
    // The last but a few of them is a record.
    const std::size_t at = more.size() - 1000 * record_head;
    if (proof) put_at(more, at + 4, plain_crc(std::span(more).subspan(at + 8)));
    log.insert(log.end(), more.begin(), more.end());
    salvage_options o;
    o.store.files = damaged;
    EXPECT_EQ(salvage(place, "new", o).sequence == 100, proof);
    const auto got = try_to_open(damaged);
    if (proof) {
      EXPECT_NE(got.refused.find("proves that it was durable"), std::string::npos) << got.refused;
    } else {
      EXPECT_EQ(got.commits, 3) << got.refused;
    }
  }
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, sanitized ? 60 : 20) << "seconds";
}

}  // namespace
