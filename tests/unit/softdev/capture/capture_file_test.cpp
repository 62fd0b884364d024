// SPDX-License-Identifier: MIT
#include "softdev/capture/capture_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace verbena::softdev::capture {
namespace {

constexpr std::size_t header_bytes = 72;
constexpr std::size_t empty_block_bytes = 32;

class softdev_capture_file : public testing::Test {
 protected:
  softdev_capture_file() {
    std::string folder = "/tmp/verbena-test-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~softdev_capture_file() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name = "packets") const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::string content() const {
    std::ifstream from(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
  }
  static std::uint32_t word(const std::string& text, std::size_t at) {
    std::uint32_t value = 0;
    if (at + sizeof value <= text.size()) std::memcpy(&value, text.data() + at, sizeof value);
    return value;
  }

  std::filesystem::path folder_;
  const std::array<std::byte, 5> frame_{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                        std::byte{5}};
};

TEST_F(softdev_capture_file, packet_is_a_block_with_its_time_and_both_lengths) {
  auto file = capture_file::open(path()).value();
  file.add(0x1122'3344'5566'7788, frame_, 900);
  file.flush();
  const std::string all = content();
  ASSERT_EQ(all.size(), header_bytes + empty_block_bytes + 8);
  EXPECT_EQ(word(all, 0), 0x0a0d'0d0aU);
  EXPECT_EQ(word(all, header_bytes), 6U);
  EXPECT_EQ(word(all, header_bytes + 4), 40U);
  EXPECT_EQ(word(all, header_bytes + 12), 0x1122'3344U);
  EXPECT_EQ(word(all, header_bytes + 16), 0x5566'7788U);
  EXPECT_EQ(word(all, header_bytes + 20), 5U);
  EXPECT_EQ(word(all, header_bytes + 24), 900U);
  EXPECT_EQ(all.substr(header_bytes + 28, 8), (std::string{1, 2, 3, 4, 5, 0, 0, 0}));
  struct stat status{};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(softdev_capture_file, two_writers_continue_one_file) {
  auto first = capture_file::open(path()).value();
  auto second = capture_file::open(path()).value();
  for (int i = 0; i < 3; ++i) {
    first.add(1, frame_, 5);
    first.flush();
    second.add(2, frame_, 5);
    second.flush();
  }
  EXPECT_EQ(content().size(), header_bytes + std::size_t{6} * 40);
}

TEST_F(softdev_capture_file, more_packets_than_fit_the_buffer_are_written_in_order) {
  auto file = capture_file::open(path()).value();
  const std::vector<std::byte> large(4000);
  for (std::uint64_t i = 0; i < 100; ++i) file.add(i, large, large.size());
  file.flush();
  const std::string all = content();
  ASSERT_EQ(all.size(), header_bytes + 100 * (empty_block_bytes + 4000));
  for (std::uint32_t i = 0; i < 100; ++i)
    EXPECT_EQ(word(all, header_bytes + i * (empty_block_bytes + 4000) + 16), i);
}

TEST_F(softdev_capture_file, file_that_is_no_capture_is_refused_and_kept) {
  for (const auto& other : {std::string(200, 'x'), std::string("\n")}) {
    std::ofstream(path()) << other;
    const auto refused = capture_file::open(path());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EINVAL);
    EXPECT_EQ(content(), other);
  }
}

TEST_F(softdev_capture_file, special_files_and_links_are_refused) {
  EXPECT_FALSE(capture_file::open("/dev/null"));
  EXPECT_FALSE(capture_file::open(folder_.string()));
  EXPECT_FALSE(capture_file::open(path("absent/file")));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(capture_file::open(path("fifo")));
  std::filesystem::create_symlink("target", path("link"));
  EXPECT_FALSE(capture_file::open(path("link")));
  EXPECT_FALSE(std::filesystem::exists(path("target")));
}

TEST_F(softdev_capture_file, packets_that_cannot_be_written_are_counted_in_the_next_one) {
  auto file = capture_file::open(path()).value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = header_bytes;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 3; ++i) {
    file.add(1, frame_, 5);
    file.flush();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(content().size(), header_bytes);
  file.add(2, frame_, 5);
  file.add(3, frame_, 5);
  file.flush();
  std::signal(SIGXFSZ, old);
  const std::string all = content();
  ASSERT_EQ(all.size(), header_bytes + 56 + 40);
  EXPECT_EQ(word(all, header_bytes + 36), 8U << 16U | 4U);  // epb_dropcount
  EXPECT_EQ(word(all, header_bytes + 40), 3U);
}

TEST_F(softdev_capture_file,
       packet_that_is_written_in_part_is_removed_and_counted_in_the_next_one) {
  auto file = capture_file::open(path()).value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = header_bytes + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  file.add(1, frame_, 5);
  file.flush();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(content().size(), header_bytes);
  file.add(2, frame_, 5);
  file.flush();
  std::signal(SIGXFSZ, old);
  const std::string all = content();
  ASSERT_EQ(all.size(), header_bytes + 56);
  EXPECT_EQ(word(all, header_bytes + 40), 1U);
}

TEST_F(softdev_capture_file, part_of_a_block_of_a_killed_process_is_removed) {
  auto first = capture_file::open(path()).value();
  auto second = capture_file::open(path()).value();
  first.add(1, frame_, 5);
  first.flush();
  const std::string block = content().substr(header_bytes);
  for (const std::size_t part : {std::size_t{1}, std::size_t{8}, block.size() - 1}) {
    const std::string whole = content();
    // A second whole block, because a process writes several blocks with one call.
    std::ofstream(path(), std::ios::binary | std::ios::app) << block << block.substr(0, part);
    second.add(2, frame_, 5);
    second.flush();
    ASSERT_EQ(content().size(), whole.size() + 2 * block.size()) << part;
    EXPECT_EQ(content().substr(0, whole.size() + block.size()), whole + block);
    EXPECT_EQ(word(content(), whole.size() + block.size() + 16), 2U);
  }
}

TEST_F(softdev_capture_file, part_of_a_block_is_removed_when_a_capture_is_continued) {
  for (const std::size_t part : {std::size_t{4}, std::size_t{30}, header_bytes - 1}) {
    std::filesystem::remove(path());
    auto file = capture_file::open(path()).value();
    file.add(1, frame_, 5);
    file.flush();
    const std::string all = content();
    const bool is_header = part == header_bytes - 1;
    std::filesystem::resize_file(path(), is_header ? part : header_bytes + part);
    EXPECT_TRUE(capture_file::open(path()));
    EXPECT_EQ(content(), all.substr(0, header_bytes)) << part;
  }
}

TEST_F(softdev_capture_file, stopped_writer_costs_others_packets_after_a_bounded_wait) {
  auto file = capture_file::open(path()).value();
  std::array<int, 2> held{};
  std::array<int, 2> release{};
  ASSERT_EQ(::pipe(held.data()), 0);
  ASSERT_EQ(::pipe(release.data()), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    char byte = 0;
    struct flock whole{};
    whole.l_type = F_WRLCK;
    const int fd = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
    const bool is_held = ::fcntl(fd, F_SETLK, &whole) == 0;
    ::close(release[1]);
    const bool was_released = ::write(held[1], &byte, 1) == 1 && ::read(release[0], &byte, 1) == 0;
    ::_exit(is_held && was_released ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(held[0], &byte, 1), 1);
  // The second call does not wait.
  for (int i = 0; i < 2; ++i) {
    file.add(1, frame_, 5);
    file.flush();
  }
  EXPECT_EQ(content().size(), header_bytes);
  for (const int each : {held[0], held[1], release[0], release[1]}) ::close(each);
  int status = -1;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  EXPECT_EQ(status, 0);
  file.add(2, frame_, 5);
  file.flush();
  ASSERT_EQ(content().size(), header_bytes + 56);
  EXPECT_EQ(word(content(), header_bytes + 40), 2U);
}

TEST_F(softdev_capture_file, socket_gets_the_header_and_whole_blocks) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path().c_str(), sizeof name.sun_path - 1);
  const int reader = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(reader, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  auto file = capture_file::open(path()).value();
  file.add(1, frame_, 5);
  file.add(2, frame_, 5);
  file.flush();
  std::array<char, 4096> message{};
  EXPECT_EQ(::recv(reader, message.data(), message.size(), 0), ssize_t{header_bytes});
  EXPECT_EQ(::recv(reader, message.data(), message.size(), 0), 80);
  // Without a reader, packets are lost after a short wait. Further packets are lost without a wait.
  const std::vector<std::byte> large(4000);
  for (int i = 0; i < 2000; ++i) {
    file.add(3, large, large.size());
    file.flush();
  }
  // Another process that opens soft0 does not wait for the reader either.
  EXPECT_TRUE(capture_file::open(path()));
  while (::recv(reader, message.data(), message.size(), MSG_DONTWAIT) > 0) continue;
  file.add(4, frame_, 5);
  file.flush();
  EXPECT_EQ(::recv(reader, message.data(), message.size(), MSG_DONTWAIT), 56);
  std::uint64_t lost = 0;
  std::memcpy(&lost, message.data() + 40, sizeof lost);
  EXPECT_GT(lost, 1000U);
  ::close(reader);
  file.add(5, frame_, 5);
  file.flush();
}

}  // namespace
}  // namespace verbena::softdev::capture
