// SPDX-License-Identifier: Apache-2.0
// crash.cpp: a process that commits is killed with SIGKILL, again and again. After each kill the
// store is opened again, and every row whose commit was acknowledged has to be there.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "demo.hpp"

namespace demo {
namespace {

namespace db = spolia::db;
constexpr int rounds = 6;
constexpr int committers = 3;

db::table& find_or_make(db::database& base) {
  if (!base.tables().empty()) return base.find_table("rows");
  return base.create_table(
      {.name = "rows", .columns = {{"id", db::int64, db::primary_key}, {"twice", db::int64}}});
}

/// Starts this program as the process that commits; `from` is the end of its standard output.
pid_t start(const std::filesystem::path& directory, int& from) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  const std::string folder = directory.string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("/proc/self/exe", "spolia-demo", "--commit-for-ever", folder.c_str(), nullptr);
    ::_exit(2);
  }
  ::close(ends[1]);
  if (child < 0) throw std::system_error(errno, std::generic_category());
  from = ends[0];
  return child;
}

/// Reads acknowledged keys until the other side has gone. The kernel keeps what the process wrote
/// before it was killed.
void read_keys(int from, std::vector<std::int64_t>& keys) {
  std::int64_t some[64];
  std::size_t bytes = 0;
  for (;;) {
    const ssize_t got = ::read(from, reinterpret_cast<char*>(some) + bytes, sizeof(some) - bytes);
    if (got <= 0) break;
    bytes += static_cast<std::size_t>(got);
    const std::size_t whole = bytes / sizeof(some[0]);
    keys.insert(keys.end(), some, some + whole);
    bytes -= whole * sizeof(some[0]);
    if (bytes != 0) some[0] = some[whole];
  }
}

}  // namespace

int commit_for_ever(const std::filesystem::path& directory) {
  db::database base = db::database::open(directory);
  db::table& rows = find_or_make(base);
  spolia::atomic<std::int64_t> next{0};
  {
    const db::reader now = base.snapshot();
    std::int64_t count = 0;
    now.for_each(rows, [&](const db::row&) { ++count; });
    next.store_relaxed(count * 2);  // beyond every key that an earlier process can have used
  }
  std::vector<std::thread> threads;
  for (int n = 0; n < committers; ++n) {
    threads.emplace_back([&] {
      for (;;) {
        const std::int64_t id = next.fetch_add_relaxed(1);
        const db::status s =
            base.transact([&](db::transaction& tx) { return tx.insert(rows, {id, 2 * id}); });
        if (!s || ::write(STDOUT_FILENO, &id, sizeof(id)) != sizeof(id)) ::_exit(3);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return 0;
}

void killed_in_commits(record& to, const std::filesystem::path& scratch) {
  const std::filesystem::path directory = scratch / "store";
  std::vector<std::int64_t> acknowledged;
  std::size_t lost_in_all = 0;
  for (int round = 1; round <= rounds; ++round) {
    int from = -1;
    const pid_t child = start(directory, from);
    std::thread reader([&] { read_keys(from, acknowledged); });
    std::this_thread::sleep_for(std::chrono::milliseconds(250 + 37 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    reader.join();
    ::close(from);

    db::database base = db::database::open(directory);
    db::table& rows = find_or_make(base);
    std::set<std::int64_t> found;
    bool whole = true;
    const db::reader now = base.snapshot("count");
    now.for_each(rows, [&](const db::row& r) {
      const auto id = r.get(rows.column<std::int64_t>("id"));
      whole = whole && r.get(rows.column<std::int64_t>("twice")) == 2 * id;
      found.insert(id);
    });
    std::size_t lost = 0;
    for (const std::int64_t id : acknowledged) lost += found.count(id) == 0 ? 1 : 0;
    to.point("acknowledged commits", round, static_cast<double>(acknowledged.size()));
    to.point("rows after reopening", round, static_cast<double>(found.size()));
    to.check(lost == 0 && whole && !acknowledged.empty(),
             say("kill -9, round %d: %zu commits acknowledged, %zu lost; %zu rows found", round,
                 acknowledged.size(), lost, found.size()));
    lost_in_all += lost;
  }
  to.in_short(say("killed %d times: %zu commits acknowledged, %zu lost", rounds,
                  acknowledged.size(), lost_in_all));
}

}  // namespace demo
