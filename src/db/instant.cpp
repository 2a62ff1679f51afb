// SPDX-License-Identifier: Apache-2.0
// instant.cpp: instants as text and back.
//
// Days are counted by the Gregorian calendar, also for the time before there was one. A year begins
// with March here, so that the day which some years do not have is the last one: the days of the
// months before a month then follow one formula, and so do the leap days of the years before.
// std::chrono's calendar ends with the year 32767, which is less than 64 bits of microseconds hold.
#include <spolia/db/instant.hpp>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::int64_t second = 1000000;
constexpr std::int64_t seconds_a_day = 86400;
constexpr std::int64_t days_of_400_years = 146097;
constexpr std::int64_t days_to_1970 = 719468;  // from the 1st of March of the year 0

/// What is wrong with a text.
struct no_instant {
  const char* why;
};
[[noreturn]] void refuse_instant(const char* why) { throw no_instant{why}; }

constexpr std::int64_t down(std::int64_t a, std::int64_t by) noexcept {
  return a / by - (a % by < 0 ? 1 : 0);
}

struct civil_day {
  std::int64_t year = 0;
  unsigned month = 1;
  unsigned day = 1;
};

constexpr bool leap(std::int64_t y) noexcept {
  return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}
constexpr unsigned days_of(std::int64_t year, unsigned month) noexcept {
  if (month == 2) return leap(year) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/// Since 1970.
constexpr std::int64_t days_from(const civil_day& d) noexcept {
  const std::int64_t year = d.month <= 2 ? d.year - 1 : d.year;
  const std::int64_t month = d.month <= 2 ? d.month + 9 : d.month - 3;
  const std::int64_t leap_days = down(year, 4) - down(year, 100) + down(year, 400);
  return year * 365 + leap_days + (153 * month + 2) / 5 + d.day - 1 - days_to_1970;
}

constexpr civil_day civil_from(std::int64_t days) noexcept {
  const std::int64_t since = days + days_to_1970;
  // A year too late at most, which is at the end of one.
  std::int64_t year = down(since * 400 + 399, days_of_400_years);
  const auto start = [](std::int64_t y) { return days_from({y, 3, 1}) + days_to_1970; };
  while (start(year) > since) --year;
  while (start(year + 1) <= since) ++year;
  const std::int64_t in_year = since - start(year);
  const auto month = static_cast<unsigned>((5 * in_year + 2) / 153);
  const auto day = static_cast<unsigned>(in_year - (153 * std::int64_t{month} + 2) / 5 + 1);
  return {month >= 10 ? year + 1 : year, month >= 10 ? month - 9 : month + 3, day};
}

static_assert(days_from({1970, 1, 1}) == 0 && days_from({2000, 2, 29}) == 11016);
static_assert(civil_from(-1).year == 1969 && civil_from(11017).month == 3);

void put(std::string& to, std::uint64_t v, std::size_t digits) {
  const std::string plain = std::to_string(v);
  if (plain.size() < digits) to.append(digits - plain.size(), '0');
  to += plain;
}

/// What is left to be read.
class reading {
 public:
  explicit reading(std::string_view text) noexcept : rest_(text) {}
  [[nodiscard]] bool next_is(char c) noexcept {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!next_is(c)) refuse();
  }
  /// Exactly so many digits.
  std::int64_t number(std::size_t digits) {
    std::int64_t v = 0;
    for (; digits > 0; --digits) v = v * 10 + digit();
    return v;
  }
  [[nodiscard]] bool at_digit() const noexcept {
    return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9';
  }
  std::int64_t digit() {
    if (!at_digit()) refuse();
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c - '0';
  }
  void end() const {
    if (!rest_.empty()) refuse();
  }
  [[noreturn]] static void refuse() {
    refuse_instant("is not an instant as ISO 8601 has it, as 2026-11-22T21:14:00.5Z");
  }

 private:
  std::string_view rest_;
};

std::int64_t read_day(reading& from) {
  civil_day d;
  if (from.next_is('-')) {
    d.year = -from.number(6);
  } else {
    d.year = from.number(from.next_is('+') ? 6 : 4);
  }
  from.expect('-');
  d.month = static_cast<unsigned>(from.number(2));
  from.expect('-');
  d.day = static_cast<unsigned>(from.number(2));
  if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_of(d.year, d.month)) {
    refuse_instant("has a day that there is not");
  }
  return days_from(d);
}

/// Hours and minutes, in seconds.
std::int64_t read_hours(reading& from) {
  const std::int64_t hours = from.number(2);
  from.expect(':');
  const std::int64_t minutes = from.number(2);
  if (hours > 23 || minutes > 59) refuse_instant("has a time of day that there is not");
  return (hours * 60 + minutes) * 60;
}

std::int64_t read_fraction(reading& from) {
  std::int64_t microseconds = 0;
  std::int64_t unit = second;
  do {
    const std::int64_t digit = from.digit();
    unit /= 10;
    if (unit == 0 && digit != 0)
      refuse_instant("has parts of a microsecond, which are not kept: round it before");
    microseconds += digit * unit;
  } while (from.at_digit());
  return microseconds;
}

}  // namespace

std::string to_text(instant t) {
  const std::int64_t all = microseconds_of(t);
  const std::int64_t seconds = down(all, second);
  const std::int64_t days = down(seconds, seconds_a_day);
  const civil_day d = civil_from(days);
  std::string text;
  if (d.year < 0 || d.year > 9999) text += d.year < 0 ? '-' : '+';
  put(text, static_cast<std::uint64_t>(d.year < 0 ? -d.year : d.year), text.empty() ? 4 : 6);
  put(text += '-', d.month, 2);
  put(text += '-', d.day, 2);
  const auto in_day = static_cast<std::uint64_t>(seconds - days * seconds_a_day);
  put(text += 'T', in_day / 3600, 2);
  put(text += ':', in_day / 60 % 60, 2);
  put(text += ':', in_day % 60, 2);
  if (const std::int64_t fraction = all % second + (all % second < 0 ? second : 0); fraction != 0) {
    put(text += '.', static_cast<std::uint64_t>(fraction), 6);
    text.resize(text.find_last_not_of('0') + 1);
  }
  return text += 'Z';
}

namespace {

instant parse(std::string_view text) {
  reading from(text);
  std::int64_t seconds = read_day(from) * seconds_a_day;
  if (!from.next_is(' ')) from.expect('T');
  seconds += read_hours(from);
  from.expect(':');
  const std::int64_t last = from.number(2);
  if (last > 59) refuse_instant("has a time of day that there is not");
  seconds += last;
  const std::int64_t fraction = from.next_is('.') ? read_fraction(from) : 0;
  if (from.next_is('+')) {
    seconds -= read_hours(from);
  } else if (from.next_is('-')) {
    seconds += read_hours(from);
  } else {
    from.expect('Z');
  }
  from.end();
  // Of a negative instant the fraction is taken first: the seconds alone may not fit.
  const bool early = seconds < 0 && fraction != 0;
  std::int64_t all = 0;
  if (__builtin_mul_overflow(early ? seconds + 1 : seconds, second, &all) ||
      __builtin_add_overflow(all, early ? fraction - second : fraction, &all)) {
    refuse_instant("does not fit in 64 bits: the years -290307 to 294246 do");
  }
  return instant_at(all);
}

}  // namespace

instant instant_of(std::string_view text) {
  constexpr std::size_t most_shown = 60;
  try {
    return parse(text);
  } catch (const no_instant& e) {
    throw std::invalid_argument("spolia::db: \"" + std::string(text.substr(0, most_shown)) +
                                (text.size() > most_shown ? "...\" " : "\" ") + e.why);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
