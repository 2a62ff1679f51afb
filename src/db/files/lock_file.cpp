// SPDX-License-Identifier: Apache-2.0
// lock_file.cpp: names that say which process has a directory, and whether it lives.
#include "db/files/lock_file.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

#include <spolia/db/store_status.hpp>

#include "base/entropy.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::string_view name_begins = "LOCK";

/// What a name says, in this order.
struct owner {
  std::uint64_t directory = 0;  // the number of its SPOLIA
  lock_file::process who;
  std::uint64_t opening = 0;  // a random number
};
template <class Owner, class F>
bool for_each_part(Owner& of, F&& f) {
  return f(of.directory) && f(of.who.machine) && f(of.who.boot) && f(of.who.numbers) &&
         f(of.who.number) && f(of.who.start) && f(of.opening);
}

std::string name_of(const owner& o) {
  std::ostringstream name;
  name << name_begins << std::hex;
  for_each_part(o, [&](std::uint64_t part) {
    name << '-' << part;
    return true;
  });
  return name.str();
}

std::optional<owner> parse_owner(std::string_view name) {
  owner o;
  if (!name.starts_with(name_begins)) return std::nullopt;
  name.remove_prefix(name_begins.size());
  const bool whole = for_each_part(o, [&](std::uint64_t& part) {
    if (name.empty() || name.front() != '-') return false;
    name.remove_prefix(1);
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), part, 16);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return wrong == std::errc();
  });
  if (!whole || !name.empty()) return std::nullopt;
  return o;
}

/// Of one that the system makes up; nothing: it does not say, as of a process that ends before its
/// file is read.
std::string content_of(const char* file) {
  std::ifstream in(file, std::ios::binary);
  try {
    return {std::istreambuf_iterator<char>(in), {}};
  } catch (const std::ios_base::failure&) {
    return {};
  }
}

std::uint64_t mixed(std::string_view text) noexcept {
  std::uint64_t h = 0xCBF2'9CE4'8422'2325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100'0000'01B3U;
  return h;
}

struct process_state {
  std::uint64_t start = 0;
  bool ended = false;  // and its parent has not asked for it yet
};
/// Nothing: the system does not say.
std::optional<process_state> state_of(std::uint64_t process) {
  const std::string all = content_of(("/proc/" + std::to_string(process) + "/stat").c_str());
  const std::size_t end_of_name = all.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream rest(all.substr(end_of_name + 1));
  const std::vector<std::string> fields(std::istream_iterator<std::string>(rest), {});
  // The third field of all is the first here: the state; the 20th, how many threads; the 22nd.
  if (fields.size() < 20) return std::nullopt;
  process_state s;
  s.start = std::strtoull(fields[19].c_str(), nullptr, 10);
  // Its first thread alone may have ended.
  const bool gone = fields[0] == "Z" || fields[0] == "X";
  s.ended = gone && std::strtoull(fields[17].c_str(), nullptr, 10) <= 1;
  return s;
}

enum class life : std::uint8_t { lives, ended, other_machine, other_container };

life life_of(const lock_file::process& of, const lock_file::process& mine) {
  if (of.machine != mine.machine) return life::other_machine;
  if (of.boot != mine.boot) return life::ended;
  if (of.numbers != mine.numbers) return life::other_container;
  if (::kill(static_cast<::pid_t>(of.number), 0) != 0 && errno == ESRCH) return life::ended;
  const auto state = state_of(of.number);
  if (state && (state->ended || state->start != of.start)) return life::ended;
  return life::lives;
}

std::string name_for(const file_identity& of, const lock_file::process& mine) {
  return name_of({.directory = of.number, .who = mine, .opening = core::random_bits()});
}

/// Empty: the system does not say.
std::string name_of_process(std::uint64_t process) {
  std::string name = content_of(("/proc/" + std::to_string(process) + "/comm").c_str());
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

/// /proc/locks has a line for each: "1: FLOCK  ADVISORY  WRITE 3108 fe:00:10078278 0 EOF". It does
/// not know the process of a lock that belongs to an opening (-1), nor one of another container
/// (0); and some file systems have another device there. Then this is 0. To change: only of an
/// opening that is not read_only.
std::uint64_t process_of_lock(const file_identity& locked, bool to_change) {
  std::ostringstream file;
  file << std::hex << std::setfill('0') << std::setw(2) << major(locked.device) << ':'
       << std::setw(2) << minor(locked.device) << ':' << std::dec << locked.number;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream in(line);
    const std::vector<std::string> fields(std::istream_iterator<std::string>(in), {});
    if (fields.size() < 6 || fields[5] != file.str()) continue;
    if (to_change && fields[3] != "WRITE") continue;
    const std::uint64_t process = std::strtoull(fields[4].c_str(), nullptr, 10);
    if (fields[4].front() != '-' && process != 0) return process;
  }
  return 0;
}

/// Where the file system has no locks; 0: none, or it is not known whether it lives.
std::uint64_t process_of_lock_file(const std::filesystem::path& directory,
                                   const file_identity& of) {
  const auto mine = lock_file::this_process();
  if (!mine) return 0;
  std::error_code ignored;
  const std::filesystem::directory_iterator none;
  for (std::filesystem::directory_iterator one(directory, ignored); !ignored && one != none;
       one.increment(ignored)) {
    const auto says = parse_owner(one->path().filename().string());
    if (says && says->directory == of.number && life_of(says->who, *mine) == life::lives) {
      return says->who.number;
    }
  }
  return 0;
}

}  // namespace

std::optional<store_holder> find_holder(const std::filesystem::path& directory) {
  struct stat s{};
  if (::stat((directory / "SPOLIA").c_str(), &s) != 0) return std::nullopt;
  const file_identity of{.device = static_cast<std::uint64_t>(s.st_dev),
                         .number = static_cast<std::uint64_t>(s.st_ino)};
  std::uint64_t process = process_of_lock(of, true);
  if (process == 0) process = process_of_lock_file(directory, of);
  if (process == 0) return std::nullopt;
  return store_holder{process, name_of_process(process)};
}

std::optional<lock_file::process> lock_file::this_process() {
  const std::string started = content_of("/proc/sys/kernel/random/boot_id");
  const auto self = static_cast<std::uint64_t>(::getpid());
  const auto state = state_of(self);
  struct stat space{};
  if (started.empty() || !state || ::stat("/proc/self/ns/pid", &space) != 0) return std::nullopt;
  std::string where = content_of("/etc/machine-id");
  ::utsname system{};
  if (where.empty() && ::uname(&system) == 0) where = system.nodename;
  process o;
  o.machine = mixed(where);
  o.boot = mixed(started);
  o.numbers = static_cast<std::uint64_t>(space.st_ino);
  o.number = self;
  o.start = state->start;
  return o;
}

std::string lock_file::in_words(std::uint64_t process) {
  if (process == static_cast<std::uint64_t>(::getpid())) return "in this process";
  const std::string name = name_of_process(process);
  return "in process " + std::to_string(process) + (name.empty() ? "" : " (" + name + ")");
}

std::string lock_file::holder_of(const file_identity& locked) {
  const std::uint64_t process = process_of_lock(locked, false);
  if (process != 0) return in_words(process);
  return "in this process, in another one, or in another container";
}

lock_file::lock_file(storage_directory& in, const file_identity& of, const process& mine)
    : in_(in), of_(of), mine_(mine), name_(name_for(of, mine)) {
  in_.open(name_, file_mode::write);
}

void lock_file::remove_ended() {
  for (const std::string& other : in_.list()) {
    const auto says = parse_owner(other);
    if (!says || other == name_) continue;
    if (says->directory != of_.number || life_of(says->who, mine_) == life::ended) {
      in_.remove(other);
    }
  }
}

lock_file::~lock_file() {
  if (home_ != ::getpid()) return;  // it is its parent's
  try {
    in_.remove(name_);
  } catch (const std::exception&) {
    // The next opening removes it: when the process has ended.
  }
}

std::optional<lock_file::obstacle> lock_file::in_the_way(storage_directory& in,
                                                         const file_identity& of,
                                                         const process& mine,
                                                         std::string_view but) {
  std::optional<obstacle> found;
  for (const std::string& other : in.list()) {
    const auto says = parse_owner(other);
    if (!says || other == but || says->directory != of.number) continue;
    switch (life_of(says->who, mine)) {
      case life::ended:
        continue;
      case life::lives:
        return obstacle{other, nullptr, says->who.number};
      case life::other_machine:
        found = {other, "it was made on another machine", 0};
        continue;
      case life::other_container:
        found = {other, "it was made in another container", 0};
        continue;
    }
  }
  return found;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
