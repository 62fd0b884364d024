// SPDX-License-Identifier: MIT
// A paired process writes garbage to every word that it shares with this one: its public segment,
// its pair segments with their rings and lanes, and the doorbell pages. This process and the
// traffic with a third process must not be affected.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t page_words = 512;
constexpr std::size_t line_words = 8;

/// Writable memory of the device that other processes map, in the address space of its process.
struct shared_range {
  std::uint64_t first = 0;
  std::uint64_t words = 0;
};

struct hostile_report {
  std::array<shared_range, 64> ranges{};
  std::size_t count = 0;
  std::atomic<bool> ready{false};
};

/// Finds the shared mappings of this process, except the memory of the program.
void find_shared_ranges(hostile_report& report) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), maps) != nullptr) {
    unsigned long first = 0;
    unsigned long end = 0;
    std::array<char, 8> flags{};
    if (std::sscanf(line.data(), "%lx-%lx %7s", &first, &end, flags.data()) != 3) continue;
    if (std::strcmp(flags.data(), "rw-s") != 0 ||
        std::strstr(line.data(), "memfd:verbena-") == nullptr ||
        std::strstr(line.data(), "memfd:verbena-memory") != nullptr)
      continue;
    if (report.count < report.ranges.size())
      report.ranges[report.count++] = {first, (end - first) / sizeof(std::uint64_t)};
  }
  std::fclose(maps);
}

enum class attack_kind : std::uint8_t {
  each_word,  ///< one word after the other, each restored, while the process transfers data
  anywhere,   ///< all words at random; the process itself is stopped
};

/// Pairs, transfers, and then goes on or stops, whatever happens to its memory.
int run_hostile(stream& parent, hostile_report& report, std::uint32_t seed, attack_kind kind) {
  traffic_end mine(2);
  parent.put(mine.card());
  mine.connect(parent.take<end_card>());
  parent.meet();
  alarm(60);
  for (const auto each : {traffic_kind::send, traffic_kind::write, traffic_kind::write_shareable,
                          traffic_kind::atomic})
    if (mine.transfer(each) != IBV_WC_SUCCESS) return 3;
  find_shared_ranges(report);
  report.ready = true;
  if (kind == attack_kind::anywhere) raise(SIGSTOP);
  std::minstd_rand random(seed);
  ibv_wc done{};
  for (;;) {
    static_cast<void>(mine.post(static_cast<traffic_kind>(random() % traffic_kinds), 1));
    for (int turn = 0; turn < 3; ++turn) static_cast<void>(mine.poll(done));
    std::this_thread::yield();
  }
}

/// Writes garbage to the shared memory of the hostile process, which alone may map it writable. By
/// process_vm_writev(2), so that the process can be stopped.
class garbage_writer {
 public:
  garbage_writer(const hostile_report& report, pid_t hostile, std::uint32_t seed, attack_kind kind)
      : report_(report), hostile_(hostile), random_(seed), kind_(kind) {
    thread_ = std::thread([this] { run(); });
  }
  garbage_writer(const garbage_writer&) = delete;
  garbage_writer& operator=(const garbage_writer&) = delete;
  ~garbage_writer() { stop(); }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::size_t words() const { return words_; }

 private:
  bool read(std::uint64_t from, std::span<std::uint64_t> out) const {
    const iovec mine{out.data(), out.size_bytes()};
    const iovec its{reinterpret_cast<void*>(from), out.size_bytes()};
    return process_vm_readv(hostile_, &mine, 1, &its, 1, 0) ==
           static_cast<ssize_t>(out.size_bytes());
  }
  void write(std::uint64_t to, std::uint64_t value) {
    const iovec mine{&value, sizeof value};
    const iovec its{reinterpret_cast<void*>(to), sizeof value};
    if (process_vm_writev(hostile_, &mine, 1, &its, 1, 0) == sizeof value) ++written_;
  }

  /// Finds the lines that are not zero, and the line behind each of them.
  void find_words() {
    std::array<std::uint64_t, page_words> page{};
    for (std::size_t i = 0; i < report_.count; ++i) {
      const shared_range& range = report_.ranges[i];
      for (std::uint64_t at = 0; at < range.words; at += page_words) {
        const std::uint64_t first = range.first + at * sizeof(std::uint64_t);
        if (!read(first, page)) return;
        bool before = at == 0;  // of a segment, always the first line
        for (std::size_t line = 0; line < page_words; line += line_words) {
          const auto* const words = page.data() + line;
          const bool used =
              std::any_of(words, words + line_words, [](std::uint64_t word) { return word != 0; });
          for (std::size_t word = line; (used || before) && word < line + line_words; ++word)
            in_use_.push_back(first + word * sizeof(std::uint64_t));
          before = used;
        }
      }
    }
  }
  /// Values that mean something here and there: small numbers, numbers near the old one, random.
  std::uint64_t garbage(std::uint64_t before) {
    switch (random_() % 6) {
      case 0:
        return before + 1;
      case 1:
        return before ^ (std::uint64_t{1} << (random_() % 64));
      case 2:
        return random_() % 8;
      case 3:
        return ~std::uint64_t{0} << (random_() % 64);
      case 4:
        return before << 32U | before >> 32U;
      default:
        return random_();
    }
  }
  void run() {
    while (!report_.ready && !stopped_) std::this_thread::yield();
    find_words();
    words_ = in_use_.size();
    if (in_use_.empty()) return;
    for (std::uint64_t at = random_() % in_use_.size(); !stopped_; ++at) {
      const bool in_order = kind_ == attack_kind::each_word;
      const std::uint64_t where = in_use_[(in_order ? at : random_()) % in_use_.size()];
      std::uint64_t before = 0;
      if (!read(where, {&before, 1})) return;
      write(where, garbage(before));
      if (in_order) {
        for (int turn = 0; turn < 4; ++turn) std::this_thread::yield();
        write(where, before);
      } else if (at % 64 == 0) {
        const shared_range& range = report_.ranges[random_() % report_.count];
        write(range.first + random_() % range.words * sizeof(std::uint64_t), random_());
        std::this_thread::yield();
      }
    }
  }

  const hostile_report& report_;
  pid_t hostile_;
  std::mt19937_64 random_;
  attack_kind kind_;
  std::vector<std::uint64_t> in_use_;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::size_t> words_{0};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// Uses the peer in all ways while it writes garbage. Requests may fail.
class attacked_process {
 public:
  explicit attacked_process(child_process& hostile) : hostile_(hostile) {
    const auto peer = hostile.to().take<end_card>();
    hostile.to().put(mine_.card());
    mine_.connect(peer, {.timeout = 10, .retry_count = 1});
    hostile.to().meet();
  }

  void endure(std::chrono::milliseconds time, third_process& third, std::uint32_t seed) {
    std::minstd_rand random(seed);
    const auto before = pattern(3, traffic_end::half);
    const auto end = std::chrono::steady_clock::now() + time;
    int rounds = 0;
    while (std::chrono::steady_clock::now() < end && !has_ended(hostile_.pid())) {
      for (std::size_t which : {0U, 1U}) {
        if (mine_.post(static_cast<traffic_kind>(random() % traffic_kinds), which) != 0)
          static_cast<void>(mine_.post_receive(which));
      }
      ibv_wc done{};
      for (int i = 0; i < 10; ++i) static_cast<void>(mine_.poll(done));
      // Registration and its end, which waits for peers, and arming.
      if (++rounds % 8 == 0) const buffer other(mine_.device.pd, 64);
      if (rounds % 8 == 4) {
        EXPECT_EQ(ibv_req_notify_cq(mine_.device.cq, 0), 0);
      }
      if (rounds % 4 == 0) third.check();
      if (rounds % 16 == 0) connect_again();
      if (::testing::Test::HasFailure()) return;
    }
    third.check();
  }
  /// The data that no request of the peer may reach: what it sends from its own half.
  [[nodiscard]] int failures() const { return failures_; }
  [[nodiscard]] bool private_half_is_intact() {
    return std::memcmp(untouched_.data(), pattern(99, 4096).data(), 4096) == 0;
  }

 private:
  /// The hostile process may answer nothing: the second queue pair is always connected again, the
  /// first if it has failed. This pairs with the hostile process again.
  void connect_again() {
    for (std::size_t i = 0; i < 2; ++i) {
      const bool failed = mine_.queue_pairs[i]->state() == IBV_QPS_ERR;
      if (failed) ++failures_;
      if (i == 0 && !failed) continue;
      EXPECT_EQ(mine_.queue_pairs[i]->to_state(IBV_QPS_RESET), 0);
      mine_.queue_pairs[i]->connect(mine_.peer.qpns[i], {.timeout = 10, .retry_count = 1});
    }
  }

  child_process& hostile_;
  int failures_ = 0;
  traffic_end mine_{2};
  buffer untouched_{mine_.device.pd, 4096, 99, IBV_ACCESS_LOCAL_WRITE};
};

class hostile_words : public ::testing::Test {
 protected:
  void attack(std::uint32_t seed, attack_kind kind) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const shared_page<hostile_report> report;
    child_process hostile([&](stream& parent) { return run_hostile(parent, *report, seed, kind); });
    {
      attacked_process attacked(hostile);
      garbage_writer writer(*report, hostile.pid(), seed, kind);
      EXPECT_TRUE(eventually([&] {
        attacked.endure(std::chrono::milliseconds(2), third_, seed);
        return writer.written() > 0 || has_ended(hostile.pid()) || HasFailure();
      }));
      attacked.endure(std::chrono::milliseconds(test::campaign_size(60, 250)), third_, seed);
      writer.stop();
      hostile.kill_it();
      EXPECT_TRUE(attacked.private_half_is_intact());
      failures_ += attacked.failures();
      words_ = std::max<std::uint64_t>(words_, writer.words());
      written_ += writer.written();
    }
    static_cast<void>(hostile.join());
  }

  void attack_again_and_again(std::uint32_t seed, attack_kind kind) {
    const int attacks = test::campaign_size(4, 40);
    third_.check();  // it is paired
    const std::size_t descriptors = count_descriptors();
    const std::string before = list_descriptors();
    std::mt19937 random(seed);
    for (int i = 0; i < attacks && !HasFailure(); ++i) attack(random(), kind);
    EXPECT_GT(words_, 100U);
    EXPECT_TRUE(eventually([&] { return count_descriptors() <= descriptors; }))
        << "descriptors before:\n"
        << before << "and now:\n"
        << list_descriptors();
    std::printf("%d attacks on %llu words in use: %llu garbage words, %d failed queue pairs\n",
                attacks, static_cast<unsigned long long>(words_),
                static_cast<unsigned long long>(written_), failures_);
  }

  third_process third_;
  std::uint64_t words_ = 0;
  std::uint64_t written_ = 0;
  int failures_ = 0;
};

TEST_F(hostile_words, garbage_in_each_word_does_not_affect_a_third_process) {
  attack_again_and_again(test::campaign_seed(51), attack_kind::each_word);
}

TEST_F(hostile_words, garbage_anywhere_does_not_affect_a_third_process) {
  attack_again_and_again(test::campaign_seed(52), attack_kind::anywhere);
}

}  // namespace
}  // namespace verbena::softdev::testing
