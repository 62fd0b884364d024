// SPDX-License-Identifier: MIT
// A replicated log that survives the end of its leader. The leader appends by writes into the logs
// of the followers, which do not take part. An entry that a majority of the ranks has is committed.
// The leader is killed; the survivors shrink the group, elect the rank with the longest log,
// reconcile their logs by reads, and go on. No committed entry is lost.
//   replicated_log [RANKS]     starts 8 processes on this host, or RANKS, and kills one
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace {

namespace net = verbena::net;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t most_entries = 512;
constexpr std::size_t first_entries = 200;  // committed by the leader that is killed
constexpr std::size_t more_entries = 100;   // by the next leader

verbena::deadline time_limit() { return verbena::deadline::after(std::chrono::seconds(50)); }

/// One cache line. An entry is valid if its sum is right and its index is that of its place.
struct entry {
  std::uint64_t index;
  std::uint64_t term;
  std::array<char, 40> text;
  std::uint64_t sum;
};
static_assert(sizeof(entry) == 64);

std::uint64_t sum_of(const entry& of) {
  std::uint64_t sum = of.index * 0x9e3779b97f4a7c15U + of.term;
  for (const char each : of.text) sum = (sum ^ static_cast<unsigned char>(each)) * 1099511628211U;
  return sum;
}

entry make_entry(std::uint64_t index, std::uint64_t term, std::uint32_t leader) {
  entry made{.index = index, .term = term, .text = {}, .sum = 0};
  std::snprintf(made.text.data(), made.text.size(), "entry %llu of leader %u",
                static_cast<unsigned long long>(index), leader);
  made.sum = sum_of(made);
  return made;
}

/// The state that a client knows from the leaders, in memory that all processes share.
struct client {
  std::atomic<std::uint64_t> committed = 0;
  std::atomic<std::int64_t> killed_at_ns = 0;
};

std::int64_t now_ns() {
  return std::chrono::nanoseconds(clock_type::now().time_since_epoch()).count();
}

/// The log of a rank, in memory that the leader writes.
class replica {
 public:
  explicit replica(const verbena::protection_domain& pd)
      : memory_(pd.allocate(most_entries * sizeof(entry), verbena::access::local_write |
                                                              verbena::access::remote_write |
                                                              verbena::access::remote_read)
                    .value()) {}

  [[nodiscard]] entry& at(std::size_t index) {
    return reinterpret_cast<entry*>(memory_.bytes().data())[index];
  }
  [[nodiscard]] bool is_valid(std::size_t index) {
    const entry& each = at(index);
    return each.term != 0 && each.index == index && each.sum == sum_of(each);
  }
  /// Returns the number of valid entries from the first on.
  [[nodiscard]] std::size_t length() {
    std::size_t count = 0;
    while (count < most_entries && is_valid(count)) ++count;
    return count;
  }
  [[nodiscard]] const verbena::memory_region& memory() const { return memory_; }

 private:
  verbena::memory_region memory_;
};

/// Appends an entry to the own log and those of the followers. Returns how many ranks have it.
std::size_t append(net::group& group, replica& log, std::span<const net::peer_region> logs,
                   const entry& added) {
  const std::size_t offset = added.index * sizeof(entry);
  log.at(added.index) = added;
  // [append]
  std::vector<net::peer_write> writes;
  for (const std::uint32_t each : group.members())
    if (each != group.rank())
      writes.push_back({.to = logs[each].slice(offset, sizeof(entry)),
                        .data = verbena::source(log.memory(), offset, sizeof(entry))});
  // A failure concerns some followers; the others have the entry.
  static_cast<void>(group.channels().scatter(writes));
  const auto done = std::ranges::count_if(writes, [](const net::peer_write& each) {
    return each.result.delivery() == verbena::delivery::done;
  });
  // [/append]
  return 1 + static_cast<std::size_t>(done);
}

/// The first leader, until it is killed in the middle of an append.
[[noreturn]] void lead_until_killed(net::group& group, replica& log,
                                    std::span<const net::peer_region> logs, client& of) {
  const std::size_t majority = group.size() / 2 + 1;
  for (std::uint64_t index = 0; index < first_entries; ++index)
    if (append(group, log, logs, make_entry(index, 1, group.rank())) >= majority)
      of.committed = index + 1;
  // The last entry reaches only the second rank, so that it is not committed.
  const entry torn = make_entry(first_entries, 1, group.rank());
  const std::size_t offset = first_entries * sizeof(entry);
  log.at(first_entries) = torn;
  const std::uint32_t next = group.size() - 1;
  group[next]
      .write(verbena::source(log.memory(), offset, sizeof(entry)),
             logs[next].region.slice(offset, sizeof(entry)))
      .value();
  of.killed_at_ns = now_ns();
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

/// Waits for the end of the leader, and continues without it.
void follow_until_the_leader_ends(net::group& group) {
  // [shrink]
  // Followers take no part in appends. A barrier ends when the leader leaves it or is killed.
  if (const auto ended = group.barrier(time_limit()); !ended) group.shrink(time_limit()).value();
  // [/shrink]
}

/// Gives all members the longest log. Returns the leader: the lowest rank that has it.
std::uint32_t reconcile(net::group& group, replica& log, std::span<const net::peer_region> logs) {
  const std::uint64_t length = log.length();
  const auto bytes = std::as_bytes(std::span(&length, 1));
  const auto all = group.exchange("lengths", bytes, time_limit()).value();
  std::uint32_t leader = group.members().front();  // if all logs are empty, also on all ranks
  std::uint64_t most = 0;
  for (const std::uint32_t each : group.members()) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, all[each].data(), sizeof theirs);
    if (theirs > most) leader = each;
    most = std::max(most, theirs);
  }
  if (length < most) {
    const std::size_t offset = length * sizeof(entry);
    const std::size_t missing = (most - length) * sizeof(entry);
    group[leader]
        .read(verbena::sink(log.memory(), offset, missing),
              logs[leader].region.slice(offset, missing))
        .value();
  }
  group.barrier(time_limit()).value();  // no rank reads any more
  return leader;
}

int run_rank(client& of) {
  const auto who = net::membership::from_environment().value();
  const auto device = verbena::open_device().value();
  const auto pd = device.allocate_pd().value();
  auto group = net::group::join(pd, who, time_limit()).value();
  replica log(pd);
  const auto logs = group.exchange("logs", log.memory().remote(), time_limit()).value();
  if (group.rank() == 0) lead_until_killed(group, log, logs, of);
  follow_until_the_leader_ends(group);
  const std::size_t before = log.length();
  const std::uint32_t leader = reconcile(group, log, logs);
  const double took_ms = static_cast<double>(now_ns() - of.killed_at_ns) / 1e6;
  if (group.rank() == leader) {
    const std::size_t kept = log.length();
    std::printf("leader 0 committed %llu entries and was killed\n",
                static_cast<unsigned long long>(of.committed.load()));
    std::printf("leader %u of %zu survivors has %zu entries, %.1f ms after the kill\n", leader,
                group.members().size(), kept, took_ms);
    const std::size_t majority = group.size() / 2 + 1;
    for (std::uint64_t index = kept; index < kept + more_entries; ++index)
      if (append(group, log, logs, make_entry(index, 2, leader)) >= majority)
        of.committed = index + 1;
  }
  // After the barrier, the log of each member has all writes of the leader.
  group.barrier(time_limit()).value();
  const std::size_t length = log.length();
  const bool is_complete = length == of.committed && length >= first_entries + more_entries;
  const auto text = "rank " + std::to_string(group.rank()) + " had " + std::to_string(before) +
                    " entries, has " + std::to_string(length) + " of " +
                    std::to_string(of.committed) + " committed ones";
  const auto lines = group.exchange("report", std::as_bytes(std::span(text)), time_limit()).value();
  if (group.rank() == leader) {
    for (const std::uint32_t each : group.members())
      std::printf("%.*s\n", static_cast<int>(lines[each].size()),
                  reinterpret_cast<const char*>(lines[each].data()));
    std::printf("%s\n", is_complete ? "no committed entry is lost" : "an entry is lost");
  }
  group.barrier(time_limit()).value();
  return is_complete ? 0 : 1;
}

/// Starts the ranks and then the store, which outlives each of them. Returns the exit status.
int start(long count) {
  const auto port = verbena::net::store::open({.host = "127.0.0.1"}).value().local_address().port;
  setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
  setenv("VERBENA_STORE", ("127.0.0.1:" + std::to_string(port)).c_str(), 1);
  void* const shared =
      mmap(nullptr, sizeof(client), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto& reported = *new (shared) client;
  std::vector<pid_t> children;
  for (long rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      std::exit(run_rank(reported));
    }
    children.push_back(child);
  }
  const auto store = net::store::open({.host = "127.0.0.1", .port = port});
  int failed = 0;
  if (!store || children.size() != static_cast<std::size_t>(count)) {
    if (!store) verbena::print_error(store.error());
    for (const pid_t each : children) kill(each, SIGKILL);
    failed = 1;
  }
  int status = 0;
  for (pid_t ended = wait(&status); ended > 0; ended = wait(&status)) {
    const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (ended == children.front() ? !is_killed : status != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  const long count = words.size() < 2 ? 8 : std::strtol(words[1], nullptr, 10);
  if (words.size() > 2 || count < 3 || count > 64) {
    std::fprintf(stderr, "usage: %s [RANKS], 3 to 64: a majority must survive\n", words[0]);
    return 2;
  }
  try {
    return start(count);
  } catch (const verbena::exception& failed) {
    return verbena::print_error(failed.error());
  }
}
